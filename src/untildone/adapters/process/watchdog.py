"""A process beside the loop that ends the loop's programs if the loop is killed.

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
from untildone.plain_files import read_text

ONCE_MORE_S = 0.1


class Watchdog:
    """The other process; it acts when the pipe to it is closed without `stop`."""

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self._pipe = pipe

    def stop(self) -> None:
        """The loop ends in order; the watchdog is gone when this returns."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.close(self._pipe)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def start(note: Path, mark: Mark, report: Path) -> Watchdog | None:
    """Start one; None if the system has no process left for it.

    A fork is only safe while this process has one thread.

    If the loop dies, it ends the noted agent and all that carries the mark, and leaves a report.
    """
    pipe_end, pipe = os.pipe()
    loop = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(pipe_end)
        os.close(pipe)
        return None
    if pid:
        os.close(pipe_end)
        return Watchdog(pid, pipe)
    try:
        _detach(pipe_end)
        os.read(pipe_end, 1)  # nobody ever writes: it returns when the loop is no more
        _end_all(note, mark, report, loop)
    finally:
        os._exit(0)


def read_ended(path: Path) -> tuple[str, ...]:
    """The programs that a watchdog has ended since the last call."""
    try:
        told = json.loads(read_text(path))
        path.unlink()
    except (OSError, ValueError):
        return ()
    return tuple(map(str, told)) if isinstance(told, list) else ()


def _detach(pipe_end: int) -> None:
    """Keep nothing of the loop's open: not its terminal, lock, output or folder."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    # By their names: the limit may be a billion, and each number a call of its own.
    for fd in map(int, os.listdir("/dev/fd")):  # noqa: PTH208
        if fd > 2 and fd != pipe_end:
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
