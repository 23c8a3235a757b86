"""A `.git` inside a folder of ours (`git init` there, a stray file), which git does not store.

Whole repositories that are new are found by git itself, see `Snapshot.nested`.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from untildone.adapters.git.git import Git


def made_inside(
    git: Git, top: Path, checkpoint: str, untracked: Iterable[str], since: float
) -> list[Path]:
    """Those that an attempt made, in folders of the checkpoint and in what it left untracked."""
    found = [top / folder / ".git" for folder in _folders(git, checkpoint)]
    for entry in untracked:
        found += (Path(at) / ".git" for at, _, _ in os.walk(top / entry))
    return [path for path in found if os.path.lexists(path) and _is_made_since(path, since)]


def _folders(git: Git, commit: str) -> Iterator[str]:
    rows = os.fsdecode(git.do("ls-tree", "-r", "-d", "-z", "--full-tree", commit)).split("\0")
    for row in rows:
        meta, _, path = row.partition("\t")
        if " tree " in meta:  # submodules are listed, too
            yield path


def _is_made_since(path: Path, since: float) -> bool:
    """By the age of all that is in it: git commands touch a part of an old repository only."""
    inside = path.iterdir() if path.is_dir() and not path.is_symlink() else ()
    return all(entry.lstat().st_ctime >= since for entry in (path, *inside))
