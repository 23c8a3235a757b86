"""Files that git skips: marked assume-unchanged or skip-worktree, or outside a sparse checkout."""

import os
from pathlib import Path

from untildone.adapters.git.git import Git
from untildone.adapters.git.index import entries, files_in_index
from untildone.adapters.records.run_folder import USERS_INDEX


def clear_index_flags(
    git: Git, top: Path, users: Path, index: Path | None = None
) -> tuple[str, ...]:
    """Let git see marked files in an index of ours; says which they were.

    What the user's own index leaves out of a sparse checkout stays out, unless somebody made it.
    """
    marked = _marked(git, index)
    if marked and _is_sparse(git) and users.exists():
        absent = {path for path in _marked(git, users) if not os.path.lexists(top / path)}
        marked = {path: entry for path, entry in marked.items() if path not in absent}
    if marked:
        # Made anew: git has not kept an eye on the times of these files, so it must read them.
        rows = "".join(f"{entry[2:]}\t{path}\0" for path, entry in marked.items())
        git.do("update-index", "-z", "--index-info", stdin=os.fsencode(rows), index=index)
    return tuple(marked)


def restore_index_flags(git: Git, users: Path) -> None:
    """After the index was made anew: mark again what the user had marked, if it is still there.

    In a sparse checkout git itself knows what to skip.
    """
    marked = _marked(git, users) if users.exists() else {}
    left = set(files_in_index(git)) if marked else set()
    if not left:
        return
    tags = {path: entry[0] for path, entry in marked.items() if path in left}
    _mark(git, [path for path, tag in tags.items() if tag.islower()], "--assume-unchanged")
    if not _is_sparse(git):
        _mark(git, [path for path, tag in tags.items() if tag in "Ss"], "--skip-worktree")


def write_skipped_files(git: Git, top: Path, run_folder: Path, index: Path | None = None) -> None:
    """After a checkout of a tree: write its files that lie outside the sparse checkout, too.

    Somebody made them there. What the user's own index leaves out, in that very version, stays
    away from the disk.
    """
    if not _is_sparse(git):
        return
    users = run_folder / USERS_INDEX
    left_out = _skipped(git, users) if users.exists() else {}
    made = [path for path, blob in _skipped(git, index).items() if left_out.get(path) != blob]
    absent = [path for path in made if not os.path.lexists(top / path)]
    if absent:
        listed = os.fsencode("".join(f"{path}\0" for path in absent))
        words = ("checkout-index", "--ignore-skip-worktree-bits", "-z", "--stdin")
        git.do(*words, stdin=listed, index=index)


def _marked(git: Git, index: Path | None) -> dict[str, str]:
    """Files with tag (`h` assume-unchanged, `S` skip-worktree, `s` both) and entry."""
    listed = entries(git, index) if index else git.do("ls-files", "-v", "-s", "-z")
    rows = os.fsdecode(listed).split("\0")
    parts = (row.partition("\t") for row in rows if row[:1] == "S" or row[:1].islower())
    return {path: entry for entry, _, path in parts}


def _skipped(git: Git, index: Path | None) -> dict[str, str]:
    """The blobs of files that are not to be on disk (skip-worktree), by path."""
    rows = os.fsdecode(git.do("ls-files", "-s", "-t", "-z", index=index)).split("\0")
    parts = (row.partition("\t") for row in rows if row.startswith("S "))
    return {path: entry.split(" ")[2] for entry, _, path in parts}


def _mark(git: Git, paths: list[str], flag: str) -> None:
    listed = os.fsencode("".join(f"{path}\0" for path in paths))
    git.do("update-index", flag, "-z", "--stdin", stdin=listed)


def _is_sparse(git: Git) -> bool:
    return git.config("core.sparsecheckout") == "true"
