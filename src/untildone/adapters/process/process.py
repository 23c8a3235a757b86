"""The only place that spawns: own session, bounded reads, deadlines, the whole group ended."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Self

from msgspec import Struct, field

from untildone.adapters.process.child import Command, Pipes, Watch
from untildone.adapters.process.tree import below, carries, end_all, exists, send
from untildone.domain.agents.agent import Ending

TERM_GRACE_S = 2.0
PR_SET_CHILD_SUBREAPER = 36


class Ended(Struct, frozen=True):
    """How a program ended; `exit_code` is negative for a signal, as in subprocess."""

    ending: Ending
    exit_code: int | None
    stderr_tail: bytes = b""
    error: str = ""


class Captured(Struct, frozen=True):
    """A short program's whole answer."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    ending: Ending = Ending.EXITED

    @property
    def ok(self) -> bool:
        """It ran to its end and exited 0."""
        return self.ending is Ending.EXITED and self.exit_code == 0


# Whoever has started it in this process, and in whichever thread: it is no stray.
_MINE = set[int]()
_LOCK = threading.Lock()


class _Running(Struct):
    """What all threads of a loop have started; `swept` are programs by their lane's mark.

    Under the lock a new program is known before anybody can take it for a stray.
    """

    mine: set[int] = field(default_factory=lambda: _MINE)
    swept: dict[int, str] = field(default_factory=dict)
    adopts: bool = False
    lock: threading.Lock = field(default_factory=lambda: _LOCK)


class Processes:
    """Spawns programs and never leaves one behind.

    Whenever `wake_fd` becomes readable the `interrupted` of the call is asked; a true answer ends
    the program once its `grace_s` is over. Programs of a lane carry its `mark`, NAME=VALUE, in
    their environment: so what they leave behind is told from what those of other lanes still need.
    """

    def __init__(self, wake_fd: int, mark: str = "", running: _Running | None = None) -> None:
        self._wake_fd = wake_fd
        self._mark = mark
        self._running = running or _Running()

    def beside(self, wake_fd: int, mark: str) -> Self:
        """The same for a lane with a thread and a wake-up of its own."""
        return type(self)(wake_fd, mark, self._running)

    def capture(self, command: Command, interrupted: Callable[[], bool]) -> Captured:
        """Run a short program and collect all it prints."""
        chunks: list[bytes] = []
        ended = self.run(command, chunks.append, interrupted)
        code = 127 if ended.exit_code is None else ended.exit_code
        error = ended.error.encode() or ended.stderr_tail
        return Captured(code, b"".join(chunks), error, ended.ending)

    def run(
        self,
        command: Command,
        on_output: Callable[[bytes], object],
        interrupted: Callable[[], bool],
        on_start: Callable[[int], None] = lambda pid: None,
        on_error: Callable[[bytes], None] = lambda chunk: None,
    ) -> Ended:
        """Run a program to its end, handing over its standard output as it comes.

        An answer REPEATING of `on_output` ends it. The answer LINGERED says that nothing more is
        to come: if it does not exit by itself, it is ended after `linger_s`. IDLE_TIMEOUT says that
        this may be so: unless it shows a sign of life, it is ended after `quiet_s`.
        """
        pipes = Pipes(with_input=bool(command.stdin))
        try:
            process = self._started(command, pipes)
        except OSError as error:
            pipes.close()
            return Ended(Ending.NOT_STARTED, None, error=f"{command.argv[0]}: {error.strerror}")
        finally:
            pipes.close_child_ends()
        try:
            try:
                on_start(process.pid)
                watch = Watch(process, command, pipes, on_output, on_error)
                ending = watch.until_end(self._wake_fd, interrupted)
            finally:
                self._end(process, command)
            watch.drain()
        finally:
            pipes.close()
        return Ended(ending, process.returncode, bytes(watch.stderr_tail))

    def _started(self, command: Command, pipes: Pipes) -> subprocess.Popen[bytes]:
        with self._running.lock:
            process = subprocess.Popen(
                list(command.argv),
                cwd=command.cwd,
                env=command.env,
                stdin=pipes.child_in,
                stdout=pipes.child_out,
                stderr=pipes.child_err,
                start_new_session=True,
            )
            self._running.mine.add(process.pid)
            if command.end_descendants:
                self._running.swept[process.pid] = self._mark
        return process

    def spare(self, pid: int) -> None:
        """Not a program's: it goes on when what programs left behind is ended."""
        self._running.mine.add(pid)

    def adopt_orphans(self) -> None:
        """Become the parent of every descendant that outlives its own (Linux)."""
        with contextlib.suppress(OSError, AttributeError, ImportError):
            import ctypes  # noqa: PLC0415 - costs start-up time, only a live loop needs it

            self._running.adopts = ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0

    def _end(self, process: subprocess.Popen[bytes], command: Command) -> None:
        """The program and all it started are gone when this returns."""
        # Nobody inherits the orphans where we cannot: look for them while their parents live.
        adopts = self._running.adopts
        known = below(process.pid) if command.end_descendants and not adopts else []
        end_group(process, sandboxed=command.sandboxed)
        with self._running.lock:
            self._running.mine.discard(process.pid)
            self._running.swept.pop(process.pid, None)
        if known:
            end_all(lambda: filter(exists, known))
        if command.end_descendants and adopts:
            # Daemons and setsid children escape the group; as subreaper we find them below us.
            end_all(self._strays)

    def _strays(self) -> list[int]:
        """What is below us and nobody waits for; beside other lanes only what carries our mark.

        One that has wiped its environment is ended with the last program of all lanes.
        """
        with self._running.lock:
            found = below(os.getpid(), self._running.mine)
            others = any(mark != self._mark for mark in self._running.swept.values())
        return [pid for pid in found if carries(pid, self._mark)] if others else found


def end_group(process: subprocess.Popen[bytes], *, sandboxed: bool = False) -> None:
    """TERM, a grace period, then KILL for the whole group, also after a normal exit."""
    group = process.pid
    alive = process.poll() is None
    if not alive and not _signal_group(group, signal.SIGTERM):
        return  # the usual end: it was the last of its group, and none can join an empty one
    if sandboxed and alive:
        # TERM would end the sandbox itself, and with it at once all inside: they get it instead.
        for pid in below(group)[1:]:
            send(pid, signal.SIGTERM)
    elif alive:
        _signal_group(group, signal.SIGTERM)
    deadline = time.monotonic() + TERM_GRACE_S
    while _group_lives(group, process) and time.monotonic() < deadline:
        if alive and process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(0.05, deadline - time.monotonic()))
        else:
            time.sleep(0.005)
    _signal_group(group, signal.SIGKILL)
    process.wait()


def _signal_group(group: int, signum: int) -> bool:
    """Whether the group has members, dead or alive."""
    try:
        os.killpg(group, signum)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _group_lives(group: int, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        # As subreaper we inherit its dead children; unreaped they would keep the group alive.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-group, os.WNOHANG)[0]:
                pass
    return _signal_group(group, 0)
