"""Where a repository's folders are."""

from pathlib import Path

from untildone.domain.value import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Top folder, git folder of this worktree, and the git folder that all worktrees share."""

    top: Path
    git_dir: Path
    common_dir: Path
