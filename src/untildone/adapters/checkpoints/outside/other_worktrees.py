"""Other worktrees of the repository: people may work there while an attempt runs here."""

import os
from pathlib import Path

from untildone.adapters.git.object_files import content
from untildone.adapters.git.place import Place


def was_at(place: Place, commit: str, since: float) -> bool:
    """Whether HEAD of another worktree came to this commit since then, by its own log."""
    lines = (line for log in _logs(place) for line in content(log).splitlines())
    return any(_new(line) == commit and _time(line) >= int(since) for line in lines)


def _logs(place: Place) -> list[Path]:
    folders = [place.common_dir, *(place.common_dir / "worktrees").glob("*/")]
    return [folder / "logs" / "HEAD" for folder in folders if folder != place.git_dir]


def _new(line: bytes) -> str:
    return os.fsdecode(line.split(b" ", 2)[1])


def _time(line: bytes) -> int:
    return int(line.partition(b"> ")[2].split(b" ", 1)[0])
