"""One loop per worktree: an advisory lock that dies with its process."""

import fcntl
import os
from pathlib import Path

from untildone.adapters.clock import pause
from untildone.domain.errors import UserError

TRIES = 5
PAUSE_S = 0.02


class WorktreeLock:
    """Held for the life of the process; a crash releases it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def take(self, label: str) -> None:
        """Take the lock, or say which loop holds it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        for _ in range(TRIES):
            if _locked(fd):
                break
            pause(PAUSE_S)  # `status` may be looking at the lock just now
        else:
            error = _busy(fd)
            os.close(fd)
            raise error
        os.ftruncate(fd, 0)
        os.write(fd, f"{label}, process {os.getpid()}".encode())
        self._fd = fd

    def is_held(self) -> bool:
        """Whether some process holds the lock now."""
        return self.refusal() is not None

    def refusal(self) -> UserError | None:
        """What `take` would say now, without taking it."""
        try:
            fd = os.open(self._path, os.O_RDWR)
        except OSError:
            return None
        try:
            return None if _locked(fd) else _busy(fd)
        finally:
            os.close(fd)

    def release(self) -> None:
        """Let another loop in."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _busy(fd: int) -> UserError:
    holder = os.read(fd, 300).decode(errors="replace").strip()
    return UserError(
        f"A loop is already running in this worktree: {holder or 'just starting'}",
        hint="`untildone status` shows it, `untildone stop` stops it",
    )
