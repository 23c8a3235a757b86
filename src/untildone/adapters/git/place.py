"""Where a repository's folders are."""

from pathlib import Path

from msgspec import Struct


class Place(Struct, frozen=True):
    """Top folder, git folder of this worktree, and the git folder that all worktrees share."""

    top: Path
    git_dir: Path
    common_dir: Path
