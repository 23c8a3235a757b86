"""A process that waits beside the loop and ends the loop's programs if the loop is killed.

After `kill -9` or the kernel's out-of-memory killer nothing of the loop can run any more, and its
agent would go on, at the user's cost, with nobody to check what it does.
"""

import contextlib
import json
import os
import signal
from pathlib import Path

from untildone.adapters.clock import pause
from untildone.adapters.process.orphans import Mark, end_leftovers

ONCE_MORE_S = 0.1


class Warden:
    """The other process; it acts when the line to it is cut, and is gone before that in order."""

    def __init__(self, pid: int, line: int) -> None:
        self.pid = pid
        self._line = line

    def dismiss(self) -> None:
        """The loop ends in order: end it, whatever it does; it is gone when this returns."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.close(self._line)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def post(note: Path, mark: Mark, report: Path) -> Warden | None:
    """Start one, before this process has threads; None where there is no room for another.

    If the loop dies, it ends the noted agent and all that carries the mark, and leaves a report.
    """
    hears, line = os.pipe()
    loop = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(hears)
        os.close(line)
        return None
    if pid:
        os.close(hears)
        return Warden(pid, line)
    try:
        _let_go(hears)
        os.read(hears, 1)  # nobody ever writes: it returns when the loop is no more
        _end_all(note, mark, report, loop)
    finally:
        os._exit(0)


def read_report(path: Path) -> tuple[str, ...]:
    """The programs that a warden has ended since this was asked last."""
    try:
        told = json.loads(path.read_text())
        path.unlink()
    except (OSError, ValueError):
        return ()
    return tuple(map(str, told)) if isinstance(told, list) else ()


def _let_go(hears: int) -> None:
    """Hold nothing of the loop's: not its terminal, lock, output or folder."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    # By their names: the limit may be a billion, and each number a call of its own.
    for fd in map(int, os.listdir("/dev/fd")):  # noqa: PTH208
        if fd > 2 and fd != hears:
            with contextlib.suppress(OSError):
                os.close(fd)
    os.chdir("/")


def _end_all(note: Path, mark: Mark, report: Path, loop: int) -> None:
    ended = end_leftovers(note, mark, loop)
    pause(ONCE_MORE_S)  # one that was just being started carried no mark yet
    ended += end_leftovers(note, mark, loop)
    if ended:
        draft = report.with_suffix(".draft")
        draft.write_text(json.dumps(ended))
        draft.replace(report)
