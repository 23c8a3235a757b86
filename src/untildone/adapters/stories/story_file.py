"""A file of the worktree that stories stand in: read as bytes, replaced in one step."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from untildone.adapters.records.durable import replace_file
from untildone.adapters.records.lock import plan_lock
from untildone.domain.errors import SourceAway, StoriesError
from untildone.plain_files import read_bytes

LONGEST_WAIT_S = 2.0
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class StoryFile(Struct, frozen=True):
    """The file at `path`, which is relative to `root`; what is wrong with it is a StoriesError."""

    root: Path
    path: str
    change: str

    def read(self) -> bytes:
        """All its bytes; only an ordinary file in a code that ASCII is part of can be worked on."""
        # As text: it is read several times per story, and paths cost more than the reading.
        name = os.path.join(self.root, self.path)  # noqa: PTH118
        try:
            # Asked before opening: reading a pipe would wait for ever.
            mode = os.stat(name).st_mode  # noqa: PTH116
            if not stat.S_ISREG(mode):
                what = "a directory" if stat.S_ISDIR(mode) else "not an ordinary file"
                raise self._unreadable(
                    f"It is {what}", f"Look at it with `ls -ld {self.path}`, then {self._again}."
                )
            data = read_bytes(name)
        except FileNotFoundError:
            if os.path.islink(name):  # noqa: PTH114
                target = os.readlink(name)  # noqa: PTH115
                raise self._unreadable(
                    f"It is a symbolic link to a file that does not exist ({target})",
                    f"Look at it with `ls -l {self.path}`.",
                ) from None
            raise self._unreadable(
                "It does not exist",
                f"`git checkout HEAD -- {self.path}` brings a committed one back, "
                f"then {self._again}.",
            ) from None
        except OSError as error:
            raise self._unreadable(
                _reason(error), f"Look at it with `ls -l {self.path}`, then {self._again}."
            ) from error
        if _is_utf_16(data):
            raise StoriesError(
                f"Line 1 shows that the file is in UTF-16, not in UTF-8: {self.path}",
                hint=f"Save it as UTF-8 (for example with `iconv -f UTF-16 -t UTF-8`), "
                f"then {self._again}.",
            )
        return data

    def write(self, data: bytes) -> None:
        """Replace the file in one step; behind a symbolic link, replace what it points to."""
        try:
            _replace((self.root / self.path).resolve(strict=True), data)
        except OSError as error:
            raise SourceAway(
                f"The story file could not be written. {_reason(error)}: {self.path}",
                state="The file was left as it is.",
                hint=f"Look at it with `ls -l {self.path}`.",
            ) from error

    def move(self, path: str) -> None:
        """Give the file another place, unless something is there."""
        target = self.root / path
        try:
            if not target.exists():
                (self.root / self.path).rename(target)
        except OSError as error:
            raise SourceAway(
                f"The file could not be moved to `{path}`. {_reason(error)}: {self.path}",
                state="The file was left as it is.",
                hint=f"Look at it with `ls -l {self.path}`.",
            ) from error

    def _unreadable(self, why: str, hint: str) -> StoriesError:
        return StoriesError(f"The story file cannot be read. {why}: {self.path}", hint=hint)

    @property
    def _again(self) -> str:
        return f"type `untildone run {self.change}`"


def _is_utf_16(data: bytes) -> bool:
    """By its mark, or by a zero byte in each of the first characters."""
    head = data[:64]
    return data.startswith(_UTF_16_MARKS) or (len(head) > 1 and head.count(0) * 2 == len(head) & ~1)


def _reason(error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return "Permission is missing"
    return error.strerror or type(error).__name__


def _replace(target: Path, data: bytes) -> None:
    draft = target.with_name(f".{target.name}.untildone")
    replace_file(target, [data], draft, stat.S_IMODE(target.stat().st_mode))


class PlanFiles:
    """Story files as bytes, below the top folder `root`: for edits that outlive an attempt."""

    def __init__(self, root: Path, lock: Path | None = None) -> None:
        self._root = root
        self._lock = lock

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Meanwhile no command of ours writes them; one that stands still is not waited for."""
        if self._lock is None:
            yield
            return
        with plan_lock(self._lock, LONGEST_WAIT_S):
            yield

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Those that are ordinary files; a plan may also be a folder, or be kept elsewhere."""
        found = {}
        for name in sorted(paths):
            path = self._root / name
            with contextlib.suppress(OSError):
                if stat.S_ISREG(path.stat().st_mode):
                    found[name] = path.read_bytes()
        return found

    def write(self, path: str, data: bytes | None) -> None:
        """Replace the file, make it, or remove it."""
        target = self._root / path
        if data is None:
            target.unlink(missing_ok=True)
            return
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        StoryFile(self._root, path, "").write(data)
