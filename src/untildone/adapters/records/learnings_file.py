"""The file in the worktree that agents write learnings to, and the copy of it that outlives them.

It lies in the worktree because every agent may write there, whatever holds it otherwise; git does
not see it. The copy brings it back after `git clean -x`, and into other worktrees and later runs.
"""

import contextlib
import os
import stat
from pathlib import Path

from untildone.adapters.records.durable import replace_file
from untildone.domain.agents.learnings import CAP, CUT, Notes, capped

PREFIX = ".untildone-learnings-"
EXCLUDE_LINE = f"/{PREFIX}*"


class LearningsFile:
    """The learnings of one change. That they cannot be read or written is no reason to stop."""

    def __init__(self, top: Path, change: str, store: Path) -> None:
        self._file = top / f"{PREFIX}{change.replace('/', '-')}.md"
        self._store = store

    def look(self) -> Notes:
        """What is there now; nothing is written."""
        return self._notes(_read(self._file))

    def open(self) -> Notes:
        """For the next call: the file is there if there is anything to read, and not too long."""
        text = _read(self._file)
        notes = self._notes(text)
        if notes.text != (text or ""):
            _write(self._file, notes.text)
            text = _read(self._file)
        self._copy(text)
        return notes

    def made(self) -> Path:
        """The file, which is there from now on."""
        with contextlib.suppress(OSError):
            self._file.touch()
        return self._file

    def keep(self) -> None:
        """Copy what was written, so that it outlives the worktree."""
        self._copy(_read(self._file))

    def _notes(self, text: str | None) -> Notes:
        return Notes(str(self._file), capped((_read(self._store) if text is None else text) or ""))

    def _copy(self, text: str | None) -> None:
        if text is not None and capped(text) != (_read(self._store) or ""):
            with contextlib.suppress(OSError):
                self._store.parent.mkdir(parents=True, exist_ok=True)
            _write(self._store, capped(text))


def _read(path: Path) -> str | None:
    """The file's text, of a long one the end; None where there is no plain file."""
    try:
        # Neither a link to elsewhere nor a pipe that nobody writes to.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return None
        whole = found.st_size <= 2 * CAP
        data = os.pread(fd, 2 * CAP if whole else CAP, 0 if whole else found.st_size - CAP)
    finally:
        os.close(fd)
    return ("" if whole else CUT) + data.decode("utf-8", "replace")


def _write(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        draft = path.with_name(f"{path.name}.draft")
        replace_file(path, [text.encode("utf-8", "replace")], draft)
