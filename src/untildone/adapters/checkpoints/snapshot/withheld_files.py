"""Files of failed attempts that stay out of git: in the run's folder, under their own names."""

import contextlib
import filecmp
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from untildone.adapters.checkpoints.guard import Flag
from untildone.adapters.checkpoints.snapshot.obstacles import Obstacles
from untildone.adapters.checkpoints.snapshot.unaddable_files import (
    LONGEST_NAMED,
    TOO_LONG,
    is_folder,
)
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
            if flag.reason == TOO_LONG:
                _cut_in_pieces(folder / flag.path)


def _cut_in_pieces(folder: Path) -> None:
    """What lies too deep in a folder into folders beside it, so that every file can be named."""
    pieces, count = [folder], 0
    for piece in pieces:
        inside = [piece]
        while inside:
            for path in [path for path in inside.pop().iterdir() if is_folder(path)]:
                if len(os.fsencode(path.relative_to(piece))) <= LONGEST_NAMED:
                    inside.append(path)
                    continue
                while os.path.lexists(rest := folder.with_name(f"rest-{count}")):
                    count += 1
                path.rename(rest)
                pieces.append(rest)


def put_beside(top: Path, runs: Path, before: Files, after: Files, obstacles: Obstacles) -> None:
    """Files that stay out of git as they are named in `after`; what is there now is kept.

    It goes where `before` says that it is, or aside. Named are files below the folder of all runs.
    """
    for path, name in after.items():
        if not is_same_as(top / path, runs, name):
            held = runs / before[path] if before.get(path) else None
            _put_copy(top, path, runs / name if name else None, obstacles, held)


def _put_copy(
    top: Path, path: str, source: Path | None, obstacles: Obstacles, held: Path | None
) -> None:
    obstacle, target = obstacles.at(path), top / path
    if held and not os.path.lexists(held) and _is_file(target):
        move_file(target, held)
    elif obstacle:
        obstacles.move_aside(top / obstacle)
    if source:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
        return
    with contextlib.suppress(OSError):  # a folder that is not empty
        os.removedirs(target.parent)


def plan_give_back(top: Path, folder: Path, replaced: Path, runs: Path) -> tuple[Files, Files]:
    """The files of an attempt that stay out of git, for `put_beside`: before and after."""
    before, after = Files(), Files()
    for path in kept_files(folder):
        target = top / path
        if not _same(folder / path, target):
            is_file = _is_file(target)
            before[path] = str((replaced / path).relative_to(runs)) if is_file else ""
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
