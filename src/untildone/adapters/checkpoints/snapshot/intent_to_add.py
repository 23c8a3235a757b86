"""Files of which git has no content yet: untracked ones, and those of `git add -N`."""

import os
from pathlib import Path

from untildone.adapters.git.git import Git
from untildone.adapters.git.index import untracked_files
from untildone.adapters.git.object_files import object_name

# Git holds such an entry as an empty file, in the words of both of its hashes.
EMPTY = tuple(f" {object_name('blob', b'', digits)} " for digits in (40, 64))


def new_files(git: Git, top: Path) -> tuple[str, ...]:
    """All of them, without ignored ones."""
    return (*untracked_files(git), *_announced(git, top))


def _announced(git: Git, top: Path) -> tuple[str, ...]:
    rows = os.fsdecode(git.do("ls-files", "-s", "-z")).split("\0")
    empty = (row.partition("\t")[2] for row in rows if any(blob in row for blob in EMPTY))
    filled = [path for path in empty if _has_bytes(top / path)]
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
