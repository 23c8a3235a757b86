"""One child process: its pipes, its deadlines, and the bytes that go in and come out."""

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from untildone.adapters.process.tree import below, cpu_seconds
from untildone.domain.agents.agent import Ending

CHUNK = 256 * 1024
PIPE_SIZE = 1024 * 1024
TAIL = 8 * 1024
DRAIN_S = 0.5
# `select` refuses a number of seconds that its C type cannot hold: longer waits are made of these.
LONGEST_WAIT_S = 3600.0
F_SETPIPE_SZ = 1031


class Command(Struct, frozen=True):
    """One program call. `end_descendants` also ends what escaped from its process group.

    `sandboxed` says that the program is a sandbox, and what was meant runs inside it. Without
    output, processor time counts as a sign of life, and so does a file written in `folders`.
    After an interruption the program has `grace_s` to end by itself, after its last word
    `linger_s`. After what may have been its last word it is idle after `quiet_s`.
    """

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str] | None = None
    stdin: bytes = b""
    timeout_s: float | None = None
    idle_s: float | None = None
    folders: tuple[str, ...] = ()
    grace_s: float = 0.0
    linger_s: float = 0.0
    quiet_s: float = 0.0
    end_descendants: bool = False
    sandboxed: bool = False


class Pipes:
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
        if self.inp >= 0:
            os.close(self.inp)
            self.inp = -1

    def close(self) -> None:
        self.close_input()
        os.close(self.out)
        os.close(self.err)


class Watch:
    """Feeds and reads one child until it ends, goes silent, runs out of time or is interrupted."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        command: Command,
        pipes: Pipes,
        on_output: Callable[[bytes], object],
        on_error: Callable[[bytes], None],
    ) -> None:
        self._process = process
        self._command = command
        self._pipes = pipes
        self._on_output = on_output
        self._on_error = on_error
        self._open = {pipes.out, pipes.err}
        self._to_write = memoryview(command.stdin)
        self._interrupt_at: float | None = None
        self._wanted: Ending | None = None
        self._over_at: float | None = None
        self._idle: IdleTimer | None = None
        self.stderr_tail = bytearray()
        if command.idle_s is not None:
            _widen_pipe(pipes.out)
            self._idle = IdleTimer(command.idle_s, command.folders)
        self._feed()

    def until_end(self, wake_fd: int, interrupted: Callable[[], bool]) -> Ending:
        """Wait for the child's end while moving bytes; say why it ended."""
        started = time.monotonic()
        pidfd = _pidfd(self._process.pid)
        try:
            # A request may have come, and its wake-up been used up, before this child began.
            readable = {wake_fd}
            while True:
                now = time.monotonic()
                if wake_fd in readable and interrupted():
                    self._interrupt_at = now + self._command.grace_s
                if self._interrupt_at is not None and now >= self._interrupt_at:
                    return Ending.INTERRUPTED
                if self._read(readable) and self._idle:
                    self._idle.reset(now)
                if self._process.poll() is not None:
                    return Ending.EXITED
                late = self._late(now, started)
                if late:
                    return late
                readable = self._select(wake_fd, pidfd, started)
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

    def _select(self, wake_fd: int, pidfd: int | None, started: float) -> set[int]:
        waits = [w for w in (self._left(started),) if w is not None]
        if pidfd is None:
            waits.append(0.05)  # no pidfd on this platform: look for the child's end now and then
        watched = [*self._open, *([] if pidfd is None else [pidfd])]
        if self._interrupt_at is None:
            watched.append(wake_fd)
        writers = [self._pipes.inp] if self._to_write else []
        ready, writable, _ = select.select(watched, writers, [], min(waits, default=None))
        if writable:
            self._feed()
        return set(ready)

    def _left(self, started: float) -> float | None:
        command, now = self._command, time.monotonic()
        ends = []
        if command.timeout_s is not None:
            ends.append(started + command.timeout_s - now)
        if self._idle:
            ends.append(self._idle.seconds_left(now))
        if self._interrupt_at is not None:
            ends.append(self._interrupt_at - now)
        if self._over_at is not None:
            ends.append(self._over_at - now)
        return min(max(0.0, min(ends)), LONGEST_WAIT_S) if ends else None

    def _late(self, now: float, started: float) -> Ending | None:
        command = self._command
        if self._wanted is Ending.REPEATING:
            return self._wanted
        if self._over_at is not None and now >= self._over_at:
            return Ending.LINGERED
        if command.timeout_s is not None and now - started >= command.timeout_s:
            return Ending.TIMEOUT
        if self._idle and self._idle.expired(now):
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
                self._heard(self._on_output(chunk))
            else:
                self._on_error(chunk)
                self.stderr_tail += chunk
                del self.stderr_tail[:-TAIL]
            got = got or bool(chunk)
        return got

    def _heard(self, wanted: object) -> None:
        """Note how the program should end by what it printed; once it repeats itself, it does."""
        if self._wanted is Ending.REPEATING:
            return
        self._wanted = wanted if isinstance(wanted, Ending) else None
        if self._idle:
            may_be_over = self._wanted is Ending.IDLE_TIMEOUT
            self._idle.shorten(self._command.quiet_s if may_be_over else None)
        if self._wanted is not Ending.LINGERED:
            self._over_at = None
        elif self._over_at is None:
            self._over_at = time.monotonic() + self._command.linger_s


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


# The first look: early enough to see most of the idle time, and no cost while output comes.
FIRST_LOOK = 0.25
# A program that waits and polls uses less than this part of one processor; codex was seen at 1.6 %
# while its model hung.
BUSY = 0.05
LEAST_BUSY_S = 0.05
# Signals wait while files are looked at.
SEARCH_S = 2.0


class IdleTimer:
    """Expires after `limit_s` without a sign of life; nothing is looked at before that.

    Signs are output, work of its processes, and files that are written.
    """

    def __init__(self, limit_s: float, folders: Sequence[str]) -> None:
        self._limit_s = self._usual_s = limit_s
        self._folders = folders
        self._last_sign = time.monotonic()
        self._looked: tuple[float, float] | None = None

    def reset(self, now: float) -> None:
        """The program printed something."""
        self._last_sign = now
        self._looked = None

    def shorten(self, limit_s: float | None) -> None:
        """Another limit from here on; None: the usual one."""
        self._limit_s = self._usual_s if limit_s is None else limit_s

    def seconds_left(self, now: float) -> float:
        """Seconds until `expired` wants to be asked again."""
        part = 1 if self._looked else FIRST_LOOK
        return self._last_sign + self._limit_s * part - now

    def expired(self, now: float) -> bool:
        """Whether the limit is reached, and not even work without output was seen meanwhile."""
        if self.seconds_left(now) > 0:
            return False
        if self._looked is None:
            self._looked = now, _cpu_used()
        if now - self._last_sign < self._limit_s:
            return False
        since, before = self._looked
        self._looked = now, _cpu_used()
        if self._looked[1] - before > max(LEAST_BUSY_S, (now - since) * BUSY):
            self._last_sign = now
        else:
            ago = time.time() - newest_write(self._folders)
            self._last_sign = max(self._last_sign, now - max(0.0, ago))
        return now - self._last_sign >= self._limit_s


def newest_write(folders: Sequence[str]) -> float:
    """When a file in these folders was last written, as far as a short search can tell."""
    newest = 0.0
    give_up_at = time.monotonic() + SEARCH_S
    left = list(folders)
    while left and time.monotonic() < give_up_at:
        with contextlib.suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.name == ".git":
                    continue  # our own files are there
                # Not st_mtime: whoever writes a file can set that back.
                newest = max(newest, entry.stat(follow_symlinks=False).st_ctime)
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
    return newest


def _cpu_used() -> float:
    # Whoever is below us belongs to the program: those that lost their parent became ours.
    return cpu_seconds(below(os.getpid()))
