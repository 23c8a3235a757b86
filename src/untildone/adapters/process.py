"""The only place that spawns: own session, bounded reads, deadlines, the whole group ended."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from untildone.domain.agent import Ending

CHUNK = 256 * 1024
PIPE_SIZE = 1024 * 1024
TAIL = 8 * 1024
TERM_GRACE_S = 2.0
DRAIN_S = 0.5
F_SETPIPE_SZ = 1031
PR_SET_CHILD_SUBREAPER = 36
SWEEPS = 50


@dataclass(frozen=True, slots=True)
class Command:
    """One program call. `sweep` also ends what escaped from its process group."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str] | None = None
    stdin: bytes = b""
    timeout_s: float | None = None
    idle_s: float | None = None
    patience_s: float = 0.0
    sweep: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended; `exit_code` is negative for a signal, as in subprocess."""

    ending: Ending
    exit_code: int | None
    stderr_tail: bytes = b""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Captured:
    """A short program's whole answer."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    ending: Ending = Ending.EXITED

    @property
    def ok(self) -> bool:
        """It ran to its end and exited 0."""
        return self.ending is Ending.EXITED and self.exit_code == 0


class Processes:
    """Spawns programs and never leaves one behind.

    Whenever `wake_fd` becomes readable the `interrupted` of the call is asked; a true answer ends
    the program once its patience is over.
    """

    def __init__(self, wake_fd: int) -> None:
        self._wake_fd = wake_fd
        self._mine: set[int] = set()

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
        on_output: Callable[[bytes], None],
        interrupted: Callable[[], bool],
        on_start: Callable[[int], None] = lambda pid: None,
        on_error: Callable[[bytes], None] = lambda chunk: None,
    ) -> Ended:
        """Run a program to its end, handing over its standard output as it comes."""
        pipes = _Pipes(with_input=bool(command.stdin))
        try:
            process = subprocess.Popen(
                list(command.argv),
                cwd=command.cwd,
                env=command.env,
                stdin=pipes.child_in,
                stdout=pipes.child_out,
                stderr=pipes.child_err,
                start_new_session=True,
            )
        except OSError as error:
            pipes.close()
            return Ended(Ending.NOT_STARTED, None, error=f"{command.argv[0]}: {error.strerror}")
        finally:
            pipes.close_child_ends()
        self._mine.add(process.pid)
        try:
            on_start(process.pid)
            watch = _Watch(process, command, pipes, on_output, on_error)
            try:
                ending = watch.until_end(self._wake_fd, interrupted)
            finally:
                end_group(process)
                self._mine.discard(process.pid)
            if command.sweep:
                self._sweep()
            watch.drain()
        finally:
            pipes.close()
        return Ended(ending, process.returncode, bytes(watch.stderr_tail))

    def adopt_orphans(self) -> None:
        """Become the parent of every descendant that outlives its own (Linux)."""
        with contextlib.suppress(OSError, AttributeError, ImportError):
            import ctypes  # noqa: PLC0415 - costs start-up time, only a live loop needs it

            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def _sweep(self) -> None:
        # Daemons and setsid children escape the group; as subreaper we find them among our own.
        for _ in range(SWEEPS):
            strays = _children() - self._mine
            if not strays:
                return
            for pid in strays:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def _children() -> set[int]:
    try:
        text = Path("/proc/thread-self/children").read_text()
    except OSError:
        return set()
    return {int(pid) for pid in text.split()}


def end_group(process: subprocess.Popen[bytes]) -> None:
    """TERM, a grace period, then KILL for the whole group, also after a normal exit."""
    group = process.pid
    alive = process.poll() is None
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


class _Watch:
    """Feeds and reads one child until it ends, goes silent, runs out of time or is interrupted."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        command: Command,
        pipes: "_Pipes",
        on_output: Callable[[bytes], None],
        on_error: Callable[[bytes], None],
    ) -> None:
        self._process = process
        self._command = command
        self._pipes = pipes
        self._on_output = on_output
        self._on_error = on_error
        self._open = {pipes.out, pipes.err}
        self._to_write = memoryview(command.stdin)
        self._give_up_at: float | None = None
        self.stderr_tail = bytearray()
        if command.idle_s is not None:
            _widen_pipe(pipes.out)
        self._feed()

    def until_end(self, wake_fd: int, interrupted: Callable[[], bool]) -> Ending:
        """Wait for the child's end while moving bytes; say why it ended."""
        started = last_sign = time.monotonic()
        pidfd = _pidfd(self._process.pid)
        try:
            while True:
                readable = self._select(wake_fd, pidfd, started, last_sign)
                now = time.monotonic()
                if wake_fd in readable and interrupted():
                    self._give_up_at = now + self._command.patience_s
                if self._give_up_at is not None and now >= self._give_up_at:
                    return Ending.INTERRUPTED
                if self._read(readable):
                    last_sign = now
                if self._process.poll() is not None:
                    return Ending.EXITED
                late = self._late(now, started, last_sign)
                if late:
                    return late
        finally:
            if pidfd is not None:
                os.close(pidfd)

    def drain(self) -> None:
        """Take what is still in the pipes; a grandchild that holds them open does not hold us."""
        deadline = time.monotonic() + DRAIN_S
        while self._open and time.monotonic() < deadline:
            ready, _, _ = select.select(list(self._open), [], [], deadline - time.monotonic())
            if not ready:
                return
            self._read(set(ready))

    def _select(
        self, wake_fd: int, pidfd: int | None, started: float, last_sign: float
    ) -> set[int]:
        waits = [w for w in (self._left(started, last_sign),) if w is not None]
        if pidfd is None:
            waits.append(0.05)  # no pidfd on this platform: look for the child's end now and then
        watched = [*self._open, *([] if pidfd is None else [pidfd])]
        if self._give_up_at is None:
            watched.append(wake_fd)
        writers = [self._pipes.inp] if self._to_write else []
        ready, writable, _ = select.select(watched, writers, [], min(waits, default=None))
        if writable:
            self._feed()
        return set(ready)

    def _left(self, started: float, last_sign: float) -> float | None:
        command, now = self._command, time.monotonic()
        ends = []
        if command.timeout_s is not None:
            ends.append(started + command.timeout_s - now)
        if command.idle_s is not None:
            ends.append(last_sign + command.idle_s - now)
        if self._give_up_at is not None:
            ends.append(self._give_up_at - now)
        return max(0.0, min(ends)) if ends else None

    def _late(self, now: float, started: float, last_sign: float) -> Ending | None:
        command = self._command
        if command.timeout_s is not None and now - started >= command.timeout_s:
            return Ending.TIMEOUT
        if command.idle_s is not None and now - last_sign >= command.idle_s:
            return Ending.IDLE_TIMEOUT
        return None

    def _feed(self) -> None:
        try:
            while self._to_write:
                sent = os.write(self._pipes.inp, self._to_write[:CHUNK])
                self._to_write = self._to_write[sent:]
        except BlockingIOError:
            return
        except OSError:
            self._to_write = memoryview(b"")  # the child does not read its input: its own business
        self._pipes.close_input()

    def _read(self, ready: set[int]) -> bool:
        got = False
        for fd in self._open & ready:
            try:
                chunk = os.read(fd, CHUNK)
            except BlockingIOError:
                continue
            if not chunk:
                self._open.discard(fd)
            elif fd == self._pipes.out:
                self._on_output(chunk)
            else:
                self._on_error(chunk)
                self.stderr_tail += chunk
                del self.stderr_tail[:-TAIL]
            got = got or bool(chunk)
        return got


class _Pipes:
    """The three pipes of a child; plain descriptors cost a tenth of subprocess's file objects."""

    def __init__(self, *, with_input: bool) -> None:
        self.out, self.child_out = os.pipe()
        self.err, self.child_err = os.pipe()
        self.inp = -1
        if with_input:
            self.child_in, self.inp = os.pipe()
        else:
            self.child_in = os.open(os.devnull, os.O_RDONLY)
        for fd in (self.out, self.err, self.inp):
            if fd >= 0:
                os.set_blocking(fd, False)

    def close_child_ends(self) -> None:
        """After the child has its own copies."""
        for fd in (self.child_in, self.child_out, self.child_err):
            os.close(fd)

    def close_input(self) -> None:
        """The child sees the end of its input."""
        if self.inp >= 0:
            os.close(self.inp)
            self.inp = -1

    def close(self) -> None:
        """Let go of our ends."""
        self.close_input()
        os.close(self.out)
        os.close(self.err)


def _widen_pipe(fd: int) -> None:
    # Fewer, larger reads when an agent floods its output; refused for unprivileged users at times.
    with contextlib.suppress(OSError, ImportError):
        import fcntl  # noqa: PLC0415 - not on every platform

        fcntl.fcntl(fd, F_SETPIPE_SZ, PIPE_SIZE)


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _signal_group(group: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signum)


def _group_lives(group: int, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        # As subreaper we inherit its dead children; unreaped they would keep the group alive.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-group, os.WNOHANG)[0]:
                pass
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
