"""What is in the way of git: moved into the run's folder, never deleted."""

import os
import shutil
from pathlib import Path

from untildone.adapters.git.git import Git
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import IN_PROGRESS, is_stale
from untildone.domain.errors import StepError

LOCK_WAIT_S = 2.0
LEFT_OPEN = (
    *(*IN_PROGRESS, "MERGE_MSG", "MERGE_MODE", "SQUASH_MSG", "sequencer", "AUTO_MERGE"),
    *("REBASE_HEAD", "BISECT_START", "BISECT_NAMES", "BISECT_TERMS", "BISECT_ANCESTORS_OK"),
    *("BISECT_EXPECTED_REV", "BISECT_FIRST_PARENT", "BISECT_HEAD", "BISECT_RUN"),
)


class Obstacles:
    """Finds what a git command of ours would fail on or overwrite, and moves it aside."""

    def __init__(self, git: Git, place: Place, run_folder: Path) -> None:
        self._git = git
        self._place = place
        self._folder = run_folder / "aside"

    def move_locks_and_merges(self) -> None:
        """A stale lock of an index, and merges or rebases that were left half done."""
        for index in {str(self._git.index_of(self._place)), f"{self._place.git_dir}/index"}:
            lock = f"{index.rpartition('/')[0]}/index.lock"
            if is_stale(lock, LOCK_WAIT_S):
                self.move_aside(Path(lock))
        present = set(os.listdir(self._place.git_dir))  # noqa: PTH208 - names are all we want
        for name in LEFT_OPEN:
            if name in present:
                self.move_aside(self._place.git_dir / name)

    def overwritten_by(self, now: str, target: str) -> tuple[str, ...]:
        """Files on disk that neither tree nor index know and that a checkout would overwrite."""
        changes = self._git.diff_trees(now, target)
        leaving = {change.path for change in changes if change.status == "D"}
        found = dict.fromkeys(self.at(c.path) for c in changes if c.status == "A")
        return tuple(path for path in found if path and not self._leaves(path, leaving))

    def _leaves(self, path: str, leaving: set[str]) -> bool:
        """Whether nothing is left at this path once these files are gone."""
        target = self._place.top / path
        if target.is_symlink() or not target.is_dir():
            return path in leaving
        return all(
            os.fspath(found.relative_to(self._place.top)) in leaving
            for found in target.rglob("*")
            if found.is_symlink() or not found.is_dir()
        )

    def at(self, path: str, top: Path | None = None) -> str:
        """What is on disk where this file is to go: itself, or a file in place of a folder."""
        top = top or self._place.top
        parts = path.split("/")
        for k in range(1, len(parts)):
            above = "/".join(parts[:k])
            target = top / above
            if os.path.lexists(target) and (target.is_symlink() or not target.is_dir()):
                return above
        return path if os.path.lexists(top / path) else ""

    def move_aside(self, path: Path) -> Path:
        """Rename something into the run's folder, under a name that says where it was."""
        self._folder.mkdir(exist_ok=True)
        root = self._place.top if path.is_relative_to(self._place.top) else path.parent
        label = os.fsdecode(os.fsencode(path.relative_to(root)).replace(b"/", b"__")[-150:])
        for k in range(10_000):
            target = self._folder / f"{k:04d}-{label}"
            if not os.path.lexists(target):
                try:
                    shutil.move(path, target)
                except OSError as error:
                    why = f"it cannot be moved out of the way of `git read-tree`: {error}"
                    raise StepError(f"{path} is not as git expects it, and {why}") from error
                return target
        raise StepError(f"No room to move a file aside: {self._folder}")
