"""Files outside a sparse checkout that somebody made there: git takes them from the disk."""

import os
from pathlib import Path

from untildone.adapters.git.git import Git
from untildone.adapters.records.run_folder import USERS_INDEX


def write_out(git: Git, top: Path, run_folder: Path, index: Path | None = None) -> None:
    """After files were brought to a tree: what belongs to it and lies outside the rules, too.

    What the user's own index leaves out, in that very version, stays away from the disk.
    """
    if git.config("core.sparsecheckout") != "true":
        return
    users = run_folder / USERS_INDEX
    away = _skipped(git, users) if users.exists() else {}
    found = _skipped(git, index).items()
    work = [path for path, blob in found if away.get(path) != blob]
    absent = [path for path in work if not os.path.lexists(top / path)]
    if absent:
        listed = os.fsencode("".join(f"{path}\0" for path in absent))
        words = ("checkout-index", "--ignore-skip-worktree-bits", "-z", "--stdin")
        git.do(*words, stdin=listed, index=index)


def _skipped(git: Git, index: Path | None) -> dict[str, str]:
    """The blobs of files that are not to be on disk (skip-worktree), by path."""
    rows = os.fsdecode(git.do("ls-files", "-s", "-t", "-z", index=index)).split("\0")
    parts = (row.partition("\t") for row in rows if row.startswith("S "))
    return {path: entry.split(" ")[2] for entry, _, path in parts}
