"""How long a program has shown no sign of life: no output, no work of its processes, no write."""

import contextlib
import os
import time
from collections.abc import Sequence

from untildone.adapters.process.tree import below, cpu_seconds

# The first look: early enough to see most of the idle time, and no cost while output comes.
FIRST_LOOK = 0.25
# A program that waits and polls uses less than this part of one processor; codex was seen at 1.6 %
# while its model hung.
BUSY = 0.05
LEAST_BUSY_S = 0.05
# Signals wait while files are looked at.
SEARCH_S = 2.0


class IdleTimer:
    """Expires after `limit_s` without a sign of life; nothing is looked at before that."""

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
