"""Modes that git does not know: files that not all may read, folders that may not be written."""

import contextlib
import json
import os
import stat
from collections.abc import Collection, Generator, Iterable
from pathlib import Path

from untildone.adapters.process.process import Captured
from untildone.adapters.records.durable import replace_file
from untildone.adapters.records.run_folder import PRIVATE
from untildone.domain.errors import StepError
from untildone.plain_files import read_text

MOST_NAMED = 10
OPEN = stat.S_IRUSR | stat.S_IWUSR | stat.S_IXUSR
READABLE, EXECUTABLE = 0o444, 0o111
# What is noted: who may not read or write what the umask would let them. Not who may write more,
# which would be all files where the umask was another one.
KEPT_OUT, FOLDER_KEPT_OUT = 0o244, 0o255
SPECIAL = stat.S_ISGID | stat.S_ISVTX


class FileModes:
    """Such modes of the files of the last checkpoint, and of those at the start of the run."""

    def __init__(self, top: Path, run_folder: Path) -> None:
        self._top = top
        self._last = run_folder / "modes.json"
        self._first = run_folder / "modes.start.json"
        self._known: dict[str, int] | None = None

    def note_start(self, paths: Iterable[str]) -> None:
        """The run begins with these files."""
        self._known = self._unusual(paths)
        for note in (self._first, self._last) if self._known else ():
            _write(note, self._known)

    def note(self, paths: Collection[str]) -> None:
        """These files are another ones in the checkpoint that was just made."""
        before = self._noted()
        kept = {path: mode for path, mode in before.items() if path not in paths}
        self._known = kept | self._unusual(paths)
        if self._known != before:
            _write(self._last, self._known)

    def put_back(self) -> None:
        """The files are those of the last checkpoint again."""
        self._apply(self._noted())

    def put_back_start(self, paths: Collection[str]) -> None:
        """These files were written anew, maybe as they were at the start."""
        wanted = {*paths, *_folders(paths)}
        noted = _read(self._first)
        self._apply({path: mode for path, mode in noted.items() if path in wanted})

    def _noted(self) -> dict[str, int]:
        if self._known is None:
            self._known = _read(self._last)
        return self._known

    def _unusual(self, paths: Iterable[str]) -> dict[str, int]:
        umask = os.umask(0o077)
        os.umask(umask)
        files = list(paths)
        found = {}
        for path in (*files, *_folders(files)):
            mode = _mode(f"{self._top}/{path}")
            if mode is not None and _is_unusual(mode, umask):
                found[path] = stat.S_IMODE(mode)
        return found

    def _apply(self, modes: dict[str, int]) -> None:
        # Folders last, the innermost first: one that is closed hides what is in it.
        for path in sorted(modes, reverse=True):
            now = _mode(f"{self._top}/{path}")
            if now is None:
                continue
            had = modes[path]
            wanted = had if stat.S_ISDIR(now) else _as_before(had, now)
            if wanted != stat.S_IMODE(now):
                with contextlib.suppress(OSError):
                    (self._top / path).chmod(wanted)


@contextlib.contextmanager
def modes_kept(top: Path, paths: Iterable[str]) -> Generator[None, None, None]:
    """Files that git writes anew have the modes that they had; only the executable bit is git's.

    One that its owner may not read has not had that mode when it was stored.
    """
    modes = ((path, _file_mode(f"{top}/{path}")) for path in paths)
    noted = {path: mode for path, mode in modes if mode is not None and mode & stat.S_IRUSR}
    try:
        yield
    finally:
        for path, had in noted.items():
            now = _file_mode(f"{top}/{path}")
            if now is not None and now != (wanted := _as_before(had, now)):
                with contextlib.suppress(OSError):
                    (top / path).chmod(wanted)


def _is_unusual(mode: int, umask: int) -> bool:
    if stat.S_ISDIR(mode):
        return bool(0o777 & ~umask & ~mode & FOLDER_KEPT_OUT or mode & SPECIAL)
    return bool(0o666 & ~umask & ~mode & KEPT_OUT)


def _folders(paths: Iterable[str]) -> set[str]:
    """Above these files, without the top folder."""
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def _mode(path: str) -> int | None:
    """Of a file or a folder, and of nothing else."""
    try:
        found = os.lstat(path).st_mode
    except OSError:
        return None
    return found if stat.S_ISREG(found) or stat.S_ISDIR(found) else None


def _file_mode(path: str) -> int | None:
    found = _mode(path)
    return stat.S_IMODE(found) if found is not None and stat.S_ISREG(found) else None


def _as_before(had: int, now: int) -> int:
    """Who may run it are those who may read it, as git has it."""
    plain = had & ~EXECUTABLE
    return plain | (plain & READABLE) >> 2 if now & stat.S_IXUSR else plain


def _write(note: Path, modes: dict[str, int]) -> None:
    draft = note.with_suffix(".draft")
    replace_file(note, [json.dumps(modes).encode()], draft, PRIVATE)


def _read(note: Path) -> dict[str, int]:
    try:
        found = json.loads(read_text(note))
        return {str(path): int(mode) for path, mode in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def unlock(top: Path, paths: Iterable[str]) -> None:
    """Make the folders above these paths writable; nothing behind a link is touched."""
    ours: dict[str, bool] = {}
    for path in paths:
        parts = path.split("/")
        for k in range(1, len(parts)):
            folder = "/".join(parts[:k])
            if folder not in ours:
                ours[folder] = make_writable(top / folder)
            if not ours[folder]:
                break


def make_writable(folder: Path) -> bool:
    """For its owner; says whether it is a folder, and no link to one."""
    try:
        mode = folder.lstat().st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode) and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        with contextlib.suppress(OSError):  # what is left in it will be named
            folder.chmod(stat.S_IMODE(mode) | OPEN)
    return stat.S_ISDIR(mode)


def check_gone(top: Path, paths: Iterable[str], answer: Captured) -> None:
    """Git only warns of files that it could not remove; the next story must not have them."""
    if b"unable to unlink" not in answer.stderr:
        return
    left = [path for path in paths if (top / path).is_symlink() or (top / path).is_file()]
    if left:
        more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
        raise StepError(
            f"Files cannot be removed: {', '.join(left[:MOST_NAMED])}{more}",
            state="They are stored under refs/ralph, but the files are not back where they were.",
            hint="Make their folders writable, then try again (`untildone resume`).",
        )
