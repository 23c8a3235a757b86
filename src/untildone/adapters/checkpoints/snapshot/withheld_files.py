"""Files of failed attempts that stay out of git: in the run's folder, under their own names."""

import contextlib
import filecmp
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from untildone.adapters.checkpoints.guard.secrets_and_sizes import Flag
from untildone.adapters.checkpoints.snapshot.obstacles import Obstacles
from untildone.adapters.records.durable import move_file

Files = dict[str, str]


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


def keep(top: Path, flags: Iterable[Flag], folder: Path, obstacles: Obstacles) -> None:
    """Move files out of the worktree; what an earlier look kept under the same name stays too."""
    for flag in flags:
        earlier = obstacles.at(flag.path, folder)
        if earlier:
            obstacles.move_aside(folder / earlier)
        with contextlib.suppress(FileNotFoundError):
            move_file(top / flag.path, folder / flag.path)


def give_back(top: Path, folder: Path, obstacles: Obstacles, replaced: Path | None = None) -> None:
    """Copies into the worktree; what is in the way goes to the folder `replaced`, or aside."""
    for path in kept_files(folder):
        if not _same(folder / path, top / path):
            put_copy(top, path, folder / path, obstacles, replaced)


def put_copy(
    top: Path, path: str, source: Path | None, obstacles: Obstacles, replaced: Path | None = None
) -> None:
    """A copy of the source into the worktree, or nothing there; what is in the way is moved."""
    obstacle, target = obstacles.at(path), top / path
    if replaced and _is_file(target):
        move_file(target, replaced / path)
    elif obstacle:
        obstacles.move_aside(top / obstacle)
    if source:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
        return
    with contextlib.suppress(OSError):  # a folder that is not empty
        os.removedirs(target.parent)


def plan_give_back(top: Path, folder: Path, replaced: Path, runs: Path) -> tuple[Files, Files]:
    """What `give_back` is about to do, for the log: which file is where before and after.

    Named are the files that hold the bytes, seen from the folder of all runs.
    """
    before, after = Files(), Files()
    for path in kept_files(folder):
        target = top / path
        there = os.path.lexists(target)
        if _same(folder / path, target) or (there and not _is_file(target)):
            continue
        before[path] = str((replaced / path).relative_to(runs)) if there else ""
        after[path] = str((folder / path).relative_to(runs))
    return before, after


def is_same_as(target: Path, runs: Path, name: str) -> bool:
    """Whether a file is as the log names it; what was to be moved and never was, is there yet."""
    if not name:
        return not os.path.lexists(target)
    return _same(runs / name, target) or not os.path.lexists(runs / name)


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _same(one: Path, other: Path) -> bool:
    return one.is_file() and other.is_file() and filecmp.cmp(one, other, shallow=False)
