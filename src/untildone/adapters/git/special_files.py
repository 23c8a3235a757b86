"""Pipes, sockets and devices under names that git reads: it would wait for them for ever."""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from untildone.adapters.records.durable import free_name

READ_IN_EVERY_FOLDER = {".gitignore", ".gitattributes", ".gitmodules"}
OWN = "untildone"


def move_special_files(top: Path, folders: Iterable[Path], aside: Path) -> tuple[str, ...]:
    """Move them out of git's way, from the worktree and from its git folders; says which."""
    moved = []
    for path in (*_read_by_git(top), *(p for folder in set(folders) for p in _in_git(folder))):
        aside.mkdir(parents=True, exist_ok=True)
        path.rename(free_name(aside, path.name))
        moved.append(str(path))
    return tuple(moved)


def _read_by_git(top: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(top):
        if ".git" in folders:
            folders.remove(".git")
        names = (Path(folder, name) for name in READ_IN_EVERY_FOLDER.intersection(files))
        yield from filter(_is_special, names)


def _in_git(git_dir: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(git_dir):
        if folder == str(git_dir) and OWN in folders:
            folders.remove(OWN)  # we know how to read our own
        yield from filter(_is_special, (Path(folder, name) for name in files))


def _is_special(path: Path) -> bool:
    """As git sees it, which follows links; one to nowhere is no obstacle."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
