"""Files that git was told to overlook (assume-unchanged, skip-worktree): their bytes count too."""

import os
from pathlib import Path

from untildone.adapters.git.git import Git
from untildone.adapters.git.index import files_in_index


def see_all(git: Git, top: Path, users: Path, index: Path | None = None) -> tuple[str, ...]:
    """Let git see such files in an index of ours; says which they were.

    What the user's own index leaves out of a sparse checkout stays out, unless somebody made it.
    """
    told = _told(git, index)
    if told and _is_sparse(git) and users.exists():
        away = {path for path in _told(git, users) if not os.path.lexists(top / path)}
        told = {path: entry for path, entry in told.items() if path not in away}
    if told:
        # Made anew: git has not kept an eye on the times of these files, so it must read them.
        rows = "".join(f"{entry[2:]}\t{path}\0" for path, entry in told.items())
        git.do("update-index", "-z", "--index-info", stdin=os.fsencode(rows), index=index)
    return tuple(told)


def overlook_again(git: Git, users: Path) -> None:
    """After the index was made anew: what the user had told git holds for the files that are left.

    In a sparse checkout git itself knows what to skip.
    """
    told = _told(git, users) if users.exists() else {}
    left = set(files_in_index(git)) if told else set()
    if not left:
        return
    tags = {path: entry[0] for path, entry in told.items() if path in left}
    _mark(git, [path for path, tag in tags.items() if tag.islower()], "--assume-unchanged")
    if not _is_sparse(git):
        _mark(git, [path for path, tag in tags.items() if tag in "Ss"], "--skip-worktree")


def _told(git: Git, index: Path | None) -> dict[str, str]:
    """Overlooked files with tag (`h` assume-unchanged, `S` skip-worktree, `s` both) and entry."""
    rows = os.fsdecode(git.do("ls-files", "-v", "-s", "-z", index=index)).split("\0")
    parts = (row.partition("\t") for row in rows if row[:1] == "S" or row[:1].islower())
    return {path: entry for entry, _, path in parts}


def _mark(git: Git, paths: list[str], flag: str) -> None:
    listed = os.fsencode("".join(f"{path}\0" for path in paths))
    git.do("update-index", flag, "-z", "--stdin", stdin=listed)


def _is_sparse(git: Git) -> bool:
    return git.config("core.sparsecheckout") == "true"
