"""A snapshot in the making: private index and objects, so that a look at it comes before git."""

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from untildone.adapters.checkpoints.snapshot.staged_content import ReplacedIndexes, link_or_copy
from untildone.adapters.checkpoints.snapshot.tree_writer import TreeWriter
from untildone.adapters.git.git import Git
from untildone.adapters.git.object_files import (
    Stamp,
    entries_in_index,
    stamp,
)
from untildone.adapters.git.object_store import ObjectsGone
from untildone.adapters.git.place import Place
from untildone.adapters.git.trees import NewTrees


class DraftIndex:
    """Nothing of a draft is in the repository before `install`, and then only what is named.

    A kill at any instant leaves the repository as it was, or with objects that nobody refers to.
    """

    def __init__(self, git: Git, place: Place, folder: Path) -> None:
        self._git = git
        self._place = place
        self._folder = folder / "draft"
        self._objects = self._folder / "objects"
        self._stored = place.common_dir / "objects"
        self.index = self._folder / "index"
        self._clean = False
        self._installed: Stamp | None = None
        self._untouched = False
        self._base = ""
        self._trees = TreeWriter(git, place.top, self._objects)
        self._entries = -1
        self.staged = ReplacedIndexes(git, folder)

    def begin(self, *, anew: bool = False) -> Git:
        """Git on a copy of the index, or on none; what it writes goes into the draft."""
        if not self._clean:
            self.drop()
        self._clean = False
        self._objects.mkdir(parents=True, exist_ok=True)
        self.index.unlink(missing_ok=True)
        index = self._git.index_of(self._place)
        self._untouched = self._installed is not None and stamp(index) == self._installed
        if not self._untouched and index == self._place.git_dir / "index":
            self.staged.keep(index)
        with contextlib.suppress(FileNotFoundError):
            # With its times: git trusts stat data by the age of the index.
            link_or_copy(index, self.index)
        if anew:
            self._untouched = False
            self.index.unlink(missing_ok=True)
        self._entries = entries_in_index(self.index)
        return self._git.drafting(self._objects, self._stored, self.index)

    def drop(self) -> None:
        """Forget everything that was drafted."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def is_index_of(self, commit: str) -> bool:
        """Whether the index in its place is that of this checkpoint, as we had installed it."""
        known = self._installed is not None and commit == self._base
        return known and stamp(self._git.index_of(self._place)) == self._installed

    def started_from(self, commit: str) -> bool:
        """Whether the draft began with the index of this checkpoint, as we had installed it."""
        return self._untouched and commit == self._base

    def trees_after(self, said: bytes) -> NewTrees | None:
        """The draft as trees, by what `git add -v` has said; None where git has to tell."""
        grown = entries_in_index(self.index) - self._entries
        return self._trees.trees_after(self._base, said, grown) if self._entries >= 0 else None

    def opened(self, commit: str) -> None:
        """The index in its place now is our own, of this first checkpoint."""
        self._installed, self._base = stamp(self._git.index_of(self._place)), commit

    def saved_as(self, commit: str) -> None:
        """What was installed last is now this checkpoint."""
        self._base = commit
        self.staged.forget_noted()

    def install_all(self, trees: NewTrees | None) -> None:
        """Put every object and the index into the repository, as `install` does.

        NewTrees of our own come after what they name: a kill leaves no tree with a part missing.
        """
        names = [
            f"{folder.name}{name}"
            for folder in os.scandir(self._objects)
            if len(folder.name) == 2
            for name in os.listdir(folder.path)  # noqa: PTH208
            if not name.startswith("tmp_obj_")  # of a git that was ended
        ]
        for name in names:
            self._store(name)
        if trees:
            self._git.store.store_trees(trees.bodies)
        self._install_index(complete=True)
        for folder in {name[:2] for name in names}:
            os.rmdir(f"{self._objects}/{folder}")  # noqa: PTH106

    def install(self, objects: Iterable[str], *, complete: bool) -> None:
        """Put these objects and the index into the repository; others are dropped.

        `complete` says that there are no others. A lock on the index is a FileExistsError; what a
        `git prune` took, after git had found it in its store, is ObjectsGone.
        """
        stored = tuple(objects)
        for name in stored:
            self._store(name)
        store = self._git.store
        unheld = [name for name in stored if not store.holds(name)]
        if lost := store.lost(unheld, self._git.do):
            raise ObjectsGone(f"Somebody has removed objects that git had: {', '.join(lost)}")
        self._install_index(complete=complete)

    def _install_index(self, *, complete: bool) -> None:
        index = self._git.index_of(self._place)
        lock = index.with_name("index.lock")
        lock.touch(exist_ok=False)  # git's own protocol: who makes the lock may replace the index
        try:
            self.index.replace(index)
            self._installed, self._base = stamp(index), ""
        finally:
            lock.unlink()
        self._clean = complete
        if not complete:
            self.drop()

    def _store(self, name: str) -> None:
        self._git.store.take_in(f"{self._objects}/{name[:2]}/{name[2:]}", name)
