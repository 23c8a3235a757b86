"""Which new files (untracked, or of `git add -N`) stay out of git: large ones, and secrets."""

import os
import shutil
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from untildone.adapters.git.git import Change, Git
from untildone.adapters.git.index import entries, untracked_files
from untildone.adapters.git.object_files import object_name
from untildone.adapters.git.place import Place
from untildone.domain.errors import StepError
from untildone.domain.plain_text import amount, plain
from untildone.domain.secrets import secret
from untildone.plain_files import opened

HEAD_BYTES = 64 * 1024
MIB = 1024 * 1024
MOST_NAMED = 10


class Flag(Struct, frozen=True):
    """A file that should not enter git, its size and the reason."""

    path: str
    size: int
    reason: str

    def __str__(self) -> str:
        """For people: the name safe to print, then size and reason."""
        return f"{plain(self.path)} ({amount(self.size)}, {self.reason})"


class Guard(Struct, frozen=True):
    """Looks at new files; `limit` is the largest size in bytes that git may take."""

    limit: int = 50 * MIB

    @staticmethod
    def of(megabytes: float) -> "Guard":
        """A guard with a limit in MiB, as the settings have it."""
        return Guard(int(megabytes * MIB))

    def check(self, top: Path, path: str) -> Flag | None:
        """Whether this file should stay out of git; links and whatever cannot be read pass."""
        name = f"{top}/{path}"
        try:
            found = os.lstat(name)
            if not stat.S_ISREG(found.st_mode) or not found.st_size:
                return None
            if found.st_size > self.limit:
                return Flag(path, found.st_size, self.too_large)
            with opened(name) as file:
                head = file.read(HEAD_BYTES)
        except OSError:
            return None
        what = secret(path, head)
        return Flag(path, found.st_size, f"looks like {what}") if what else None

    def check_all(self, top: Path, paths: Iterable[str]) -> tuple[Flag, ...]:
        """All of these files that should stay out of git."""
        return tuple(flag for path in paths if (flag := self.check(top, path)))

    def over_limit(self, top: Path, paths: Iterable[str]) -> tuple[Flag, ...]:
        """The files over the limit, found without reading any."""
        found = []
        for path in paths:
            try:
                status = os.lstat(f"{top}/{path}")
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and status.st_size > self.limit:
                found.append(Flag(path, status.st_size, self.too_large))
        return tuple(found)

    @property
    def too_large(self) -> str:
        """The reason for a large file."""
        return f"larger than {amount(self.limit)}"


DEFAULT = Guard()


def sized(top: Path, path: str) -> Flag:
    """A file that an earlier, smaller limit flagged."""
    return Flag(path, os.lstat(f"{top}/{path}").st_size, "flagged by an earlier limit")


def listed(flags: Iterable[Flag]) -> str:
    """The files in one line; of very many the first ones."""
    shown = [str(flag) for flag in flags]
    more = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
    return ", ".join(shown[:MOST_NAMED]) + more


# An entry of `git add -N` stands for an empty file, named by either of git's hashes.
EMPTY = tuple(f" {object_name('blob', b'', digits)} " for digits in (40, 64))
NO_FILTER = {"unspecified", "unset", "set"}


class NewFiles:
    """Finds the new files that the guard flags, at the right moment and at a small price."""

    def __init__(
        self, git: Git, place: Place, guard: Guard, is_ignored: Callable[[str], bool]
    ) -> None:
        self._git = git
        self._place = place
        self._top = place.top
        self.guard = guard
        self._is_ignored = is_ignored
        self._free_bytes: int | None = None

    def note_free_space(self) -> int:
        """The bytes that the disk has left; what is here now needs no look at its size."""
        self._free_bytes = shutil.disk_usage(self._top).free
        return self._free_bytes

    def large(self, draft: Git) -> tuple[Flag, ...]:
        """New files over the limit, so that git need not read them.

        A listing costs a scan, so we list only when the disk has less room than at the last check,
        by so much that there may be such a file. One that comes in unseen is found by `flagged`.
        """
        before = self._free_bytes
        free = self.note_free_space()
        if before is not None and before - free <= self.guard.limit:
            return ()
        return self.large_among_all(draft)

    def large_among_all(self, draft: Git) -> tuple[Flag, ...]:
        """All new files over the limit, whatever room they take on the disk."""
        try:
            new = untracked_files(draft)
        except StepError:  # a broken index is repaired when files are added
            return ()
        seen = (path for path in new if not self._is_ignored(path))
        return unfiltered(draft, self.guard.over_limit(self._top, seen))

    def is_unflagged_file(self, path: str) -> bool:
        """Whether a file or link is there, and nothing about it is for the guard to stop."""
        try:
            mode = os.lstat(self._top / path).st_mode
        except OSError:
            return False
        return stat.S_ISLNK(mode) or (
            stat.S_ISREG(mode) and self.guard.check(self._top, path) is None
        )

    def flagged(
        self, changes: tuple[Change, ...], large: tuple[Flag, ...]
    ) -> tuple[tuple[Flag, ...], list[str]]:
        """New files that stay out of git, and remarks. What an attempt committed is in git."""
        known = {flag.path for flag in large}
        added = (c.path for c in changes if c.status == "A" and c.new_mode.startswith("100"))
        seen = self.guard.check_all(self._top, (path for path in added if path not in known))
        loose, committed = self._split_by_head(unfiltered(self._git, seen))
        flagged, remarks = (*large, *loose), []
        if flagged:
            remarks.append(f"Left out of git: {listed(flagged)}")
        if committed:
            remarks.append(f"The agent itself has committed: {listed(committed)}")
        return flagged, remarks

    def _split_by_head(self, flags: tuple[Flag, ...]) -> tuple[list[Flag], list[Flag]]:
        known = set(self._git.files_at("HEAD")) if flags and self._git.resolve("HEAD") else set()
        loose = [flag for flag in flags if flag.path not in known]
        return loose, [flag for flag in flags if flag.path in known]

    def untracked(self, known: str = "") -> tuple[Flag, ...]:
        """Untracked files of the user that should stay out; those of the commit `known` pass."""
        taken = set(self._git.files_at(known)) if known else set()
        new = (path for path in new_files(self._git, self._place) if path not in taken)
        return unfiltered(self._git, self.guard.check_all(self._top, new))


def new_files(git: Git, place: Place) -> tuple[str, ...]:
    """All files of which git has no content yet, without ignored ones."""
    return (*untracked_files(git), *_intent_to_add(git, place))


def unfiltered(git: Git, flags: Sequence[Flag]) -> tuple[Flag, ...]:
    """The flagged files that git would store as they are."""
    taken = filtered(git, [flag.path for flag in flags]) if flags else ()
    return tuple(flag for flag in flags if flag.path not in taken)


def filtered(git: Git, paths: Iterable[str]) -> dict[str, str]:
    """Which of these files an active filter takes, such as git-lfs or git-crypt, and its name."""
    rows = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
    out = os.fsdecode(git.do("check-attr", "-z", "--stdin", "filter", stdin=rows)).split("\0")
    named = dict(zip(out[::3], out[2::3], strict=False))
    active = {name for name in set(named.values()) - NO_FILTER if _is_active(git, name)}
    return {path: name for path, name in named.items() if name in active}


def _is_active(git: Git, name: str) -> bool:
    return any(git.config(f"filter.{name}.{key}") for key in ("process", "clean"))


def _intent_to_add(git: Git, place: Place) -> tuple[str, ...]:
    rows = os.fsdecode(entries(git, git.index_of(place))).split("\0")
    empty = (row.partition("\t")[2] for row in rows if any(blob in row for blob in EMPTY))
    filled = [path for path in empty if _has_bytes(place.top / path)]
    if not filled:
        return ()
    # An empty file that was staged and filled since is tracked; only git can tell.
    specs = [f":(top,literal){path}" for path in filled]
    words = ("diff-files", "--name-only", "--diff-filter=A", "-z")
    found = os.fsdecode(git.do(*words, "--", *specs)).split("\0")
    return tuple(path for path in found if path)


def _has_bytes(path: Path) -> bool:
    try:
        return path.lstat().st_size > 0
    except OSError:
        return False
