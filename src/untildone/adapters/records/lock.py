"""One loop per worktree: an advisory lock that dies with its process."""

import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from untildone.adapters.clock import pause
from untildone.adapters.records.durable import free_name
from untildone.domain.errors import UserError

TRIES = 5
PAUSE_S = 0.02


class WorktreeLock:
    """Held for the life of the process; a crash releases it.

    Two things are locked: a file that says who holds it, which is what earlier releases know, and
    the git folder of the worktree, since an agent may remove the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._git_dir = path.parent.parent
        self._held: tuple[int, ...] = ()

    def take(self, label: str) -> None:
        """Take the lock, or say which loop holds it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fds = self._opened(os.O_CREAT)
        for _ in range(TRIES):
            if all(map(_locked, fds)):
                break
            pause(PAUSE_S)  # `status` may be looking at the lock just now
        else:
            error = _busy(fds[0])
            _close(fds)
            raise error
        self._held = fds
        self.sign(label)

    def sign(self, label: str) -> None:
        """Write who holds it; a copy of the process that took it has another number."""
        os.ftruncate(self._held[0], 0)
        os.pwrite(self._held[0], f"{label}, process {os.getpid()}".encode(), 0)

    def is_held(self) -> bool:
        return self.refusal() is not None

    def refusal(self) -> UserError | None:
        """What `take` would say now, without taking it."""
        try:
            fds = self._opened()
        except OSError:
            return None
        try:
            return None if all(map(_locked, fds)) else _busy(fds[0])
        finally:
            _close(fds)

    def release(self) -> None:
        _close(self._held)
        self._held = ()

    def _opened(self, flags: int = 0) -> tuple[int, ...]:
        """File and folder; what an agent put in the place of the file makes room."""
        folder = os.open(self._git_dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if flags and os.path.lexists(self._path) and not self._path.is_file():
                self._path.rename(free_name(self._path.parent, "lock.found"))
            file = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | flags, 0o644)
        except FileNotFoundError:
            return (folder,)
        except OSError:
            os.close(folder)
            raise
        return file, folder


@contextmanager
def plan_lock(path: Path, seconds: float) -> Iterator[bool]:
    """Held while the plan is read and written, by a loop or by `add`; False if somebody keeps it.

    A loop that waited long enough goes on without: who is stopped in between must not stop it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW, 0o600)
    try:
        tries = max(1, round(seconds / PAUSE_S))
        held = _locked(fd)
        while not held and (tries := tries - 1):
            pause(PAUSE_S)
            held = _locked(fd)
        yield held
    finally:
        os.close(fd)


def _close(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a network disk that locks no folders; then it is for the file alone
        return stat.S_ISDIR(os.fstat(fd).st_mode)
    return True


def _busy(fd: int) -> UserError:
    # Without the file there is the folder only, which says nothing.
    is_file = stat.S_ISREG(os.fstat(fd).st_mode)
    holder = os.read(fd, 300).decode(errors="replace").strip() if is_file else ""
    return UserError(
        f"A loop is already running in this worktree: {holder or 'just starting'}",
        hint="`untildone status` shows it, `untildone stop` stops it",
    )
