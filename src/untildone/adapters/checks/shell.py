"""The checks that the loop itself runs after COMPLETE."""

import os
from collections.abc import Callable
from pathlib import Path

from untildone.adapters.git.environment import clean_environment
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Processes
from untildone.adapters.sandbox import RunEnvironment
from untildone.domain.agents.agent import Ending
from untildone.domain.checks.checks import Checked
from untildone.domain.plain_text import plain

TAIL = 4000
KEPT = 2 * 1024 * 1024
# A shell between the loop and the check: a check that kills its parent ends itself, not the loop.
SHELL = ("/bin/sh", "-c", '/bin/sh -c "$1"; exit $?', "sh")


class _Output:
    """The first and the last part of what a check prints."""

    def __init__(self) -> None:
        self._head, self._tail = bytearray(), bytearray()

    def collect(self, chunk: bytes) -> None:
        room = KEPT - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:] if room > 0 else chunk
        del self._tail[:-KEPT]

    def text(self) -> str:
        return plain((self._head + self._tail).decode(errors="replace"))


class ShellChecks:
    """Runs each check through the shell at the top of the worktree, in the agent's sandbox."""

    def __init__(
        self,
        processes: Processes,
        environment: RunEnvironment,
        top: Path,
        stop_now: Callable[[], bool],
    ) -> None:
        self._processes = processes
        self._environment = environment
        self._top = top
        self._stop_now = stop_now

    def run(self, command: str, timeout_s: float, folder: str = "") -> Checked:
        """Run the check; nothing that it started lives on."""
        output = _Output()
        env = clean_environment(os.environ)
        where = Path(folder) if folder else self._top
        call = Command((*SHELL, command), where, env, timeout_s=timeout_s)
        call = self._environment.applied_to(call, (folder,) if folder else ())
        collect = output.collect
        ended = self._processes.run(call, collect, self._stop_now, on_error=collect)
        if ended.ending is Ending.EXITED and ended.exit_code == 0:
            return Checked()
        how = (
            f"exit code {ended.exit_code}" if ended.ending is Ending.EXITED else ended.ending.value
        )
        text = output.text()
        if folder:  # it is gone when somebody reads this, and its name says nothing
            text = text.replace(f"{folder}/", "").replace(folder, ".")
        reason = f"The check `{command}` failed ({how}):\n{text[-TAIL:].strip()}"
        return Checked(reason, how, text, interrupted=ended.ending is Ending.INTERRUPTED)
