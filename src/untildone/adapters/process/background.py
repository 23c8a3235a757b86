"""A loop without a terminal: a copy of this process goes on in a session of its own."""

import os
import select
import signal
import sys
from pathlib import Path
from types import FrameType

from msgspec import Struct

from untildone.plain_files import opened

OPENED, CALLS = b"o", b"c"
# After its start the loop tries the checks; one that cannot start shows that at once.
FIRST_CALL_S = 5.0


class Left(Struct, frozen=True):
    """In the parent: the loop's process, and its exit code if it ended before its first call."""

    pid: int
    exit_code: int | None = None


class Start:
    """In the loop: tells the parent how far the start has come. A window, as it sees events."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def __call__(self, event: dict[str, object]) -> None:
        if self._pipe < 0:
            return
        if event["event"] == "run_started":
            os.write(self._pipe, OPENED)
        elif event["event"] in ("iteration_started", "waiting"):
            os.write(self._pipe, CALLS)
            os.close(self._pipe)
            self._pipe = -1


def go_to_background(log: Path) -> Left | Start:
    """Returns twice: in the loop, whose output goes to the log, and in the parent once it is up.

    A fork is only safe while this process has one thread.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    hears, tells = os.pipe()
    with opened(log, "ab", private=True) as file:
        pid = os.fork()
        if not pid:
            os.close(hears)
            os.setsid()
            leave_terminal(file.fileno())
            return Start(tells)
    os.close(tells)
    return Left(pid, _until_up(pid, hears))


def leave_terminal(output: int | None = None) -> None:
    """Nothing is read from a terminal any more, nor written to one."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        if output is not None and fd:
            os.dup2(output, fd)
        elif output is not None or os.isatty(fd):
            os.dup2(nothing, fd)
    os.close(nothing)


def _until_up(pid: int, pipe: int) -> int | None:
    """Wait until the loop is up; its exit code if it ends before. Ctrl-C is for the loop."""

    def forward(number: int, frame: FrameType | None) -> None:
        os.kill(pid, number)

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, forward)
    patience = None
    while select.select([pipe], [], [], patience)[0]:
        word = os.read(pipe, 1)
        if not word:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            return code if code >= 0 else 128 - code
        if word == CALLS:
            return None
        patience = FIRST_CALL_S
    return None
