"""The checks that the loop itself runs after COMPLETE."""

import os
from collections.abc import Callable
from pathlib import Path

from untildone.adapters.child import Command
from untildone.adapters.git_door import clean_environment
from untildone.adapters.process import Processes
from untildone.adapters.sandbox import Containment
from untildone.domain.agent import Ending
from untildone.domain.plain_text import plain

TAIL = 4000


class ShellChecks:
    """Runs each check through the shell at the top of the worktree, held like the agent."""

    def __init__(
        self,
        processes: Processes,
        containment: Containment,
        top: Path,
        stop_now: Callable[[], bool],
    ) -> None:
        self._processes = processes
        self._containment = containment
        self._top = top
        self._stop_now = stop_now

    def run(self, command: str, timeout_s: float) -> str:
        """An empty string when the check passes, else why it failed, with the output's tail."""
        tail = bytearray()

        def collect(chunk: bytes) -> None:
            tail.extend(chunk)
            del tail[:-TAIL]

        environment = clean_environment(os.environ)
        call = Command(("/bin/sh", "-c", command), self._top, environment, timeout_s=timeout_s)
        held = self._containment.around(call)
        ended = self._processes.run(held, collect, self._stop_now, on_error=collect)
        if ended.ending is Ending.EXITED and ended.exit_code == 0:
            return ""
        how = (
            f"exit code {ended.exit_code}" if ended.ending is Ending.EXITED else ended.ending.value
        )
        output = plain(tail.decode(errors="replace")).strip()
        return f"The check `{command}` failed ({how}):\n{output}"
