"""Files of failed attempts that stay out of git: in the run's folder, under their own names."""

import contextlib
import filecmp
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from untildone.adapters.checkpoints.guard import Flag
from untildone.adapters.checkpoints.snapshot import Snapshots
from untildone.adapters.durable import move_file


def kept_folder(run_folder: Path, label: str) -> Path:
    """Where the files of an attempt are; the folder itself is the list of them."""
    return run_folder / "kept" / label


def kept_of(runs: Path, label: str, message: str) -> Path:
    """The same for an attempt of any run, which the commit's message names."""
    trailer = "Untildone-Run: "
    lines = [line for line in message.splitlines() if line.startswith(trailer)]
    return kept_folder(runs / lines[-1].removeprefix(trailer), label)


def kept_files(folder: Path) -> tuple[str, ...]:
    """Paths of the files that are kept with an attempt, as they were in the worktree."""
    found = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    return tuple(sorted(str(path.relative_to(folder)) for path in found))


def keep(top: Path, flags: Iterable[Flag], folder: Path, snapshots: Snapshots) -> None:
    """Move files out of the worktree; what an earlier look kept under the same name stays too."""
    for flag in flags:
        earlier = snapshots.obstacle(flag.path, folder)
        if earlier:
            snapshots.move_aside(folder / earlier)
        with contextlib.suppress(FileNotFoundError):
            move_file(top / flag.path, folder / flag.path)


def give_back(top: Path, folder: Path, snapshots: Snapshots) -> None:
    """Copies into the worktree; a different file in the way is moved aside."""
    for path in kept_files(folder):
        source, target = folder / path, top / path
        if target.is_file() and filecmp.cmp(source, target, shallow=False):
            continue
        obstacle = snapshots.obstacle(path)
        if obstacle:
            snapshots.move_aside(top / obstacle)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
