"""The checks that the loop itself runs after COMPLETE."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from untildone.adapters.git.environment import clean_environment
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Processes
from untildone.adapters.sandbox import RunEnvironment
from untildone.domain.agents.agent import Ending
from untildone.domain.checks.checks import Checked
from untildone.domain.checks.counted_tests import Counts, count, count_junit, junit_file
from untildone.domain.plain_text import plain
from untildone.plain_files import opened

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


class _JUnitFile:
    """The file that a check says it will write its results to; one of an earlier run is none."""

    def __init__(self, folder: Path, command: str) -> None:
        named = junit_file(command)
        self._path = folder / named if named else None
        self._earlier = self._stamp()

    def tests(self) -> Counts | None:
        now = self._stamp()
        if self._path is None or now is None or now == self._earlier:
            return None
        with opened(self._path) as file:
            return count_junit(file.read(KEPT).decode(errors="replace"))

    def _stamp(self) -> tuple[int, int] | None:
        try:
            now = self._path.lstat() if self._path else None
        except OSError:
            return None
        return (now.st_ino, now.st_mtime_ns) if now and stat.S_ISREG(now.st_mode) else None


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
        junit = _JUnitFile(where, command)
        ended = self._processes.run(call, collect, self._stop_now, on_error=collect)
        text = output.text()
        tests = junit.tests() or count(text)
        if ended.ending is Ending.EXITED and ended.exit_code == 0:
            return Checked(tests=tests)
        how = (
            f"exit code {ended.exit_code}" if ended.ending is Ending.EXITED else ended.ending.value
        )
        if folder:  # it is gone when somebody reads this, and its name says nothing
            text = text.replace(f"{folder}/", "").replace(folder, ".")
        reason = f"The check `{command}` failed ({how}):\n{text[-TAIL:].strip()}"
        interrupted = ended.ending is Ending.INTERRUPTED
        return Checked(reason, how, text, interrupted=interrupted, tests=tests)
