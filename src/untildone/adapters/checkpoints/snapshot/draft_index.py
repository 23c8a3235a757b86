"""A snapshot in the making: private index and objects, so that a look at it comes before git."""

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from untildone.adapters.checkpoints.snapshot.staged_content import ReplacedIndexes
from untildone.adapters.git.git import FOLDER, GITLINK, Change, Git
from untildone.adapters.git.index import link_or_copy
from untildone.adapters.git.object_files import (
    Stamp,
    entries_in_index,
    entries_of_tree,
    loose_object,
    object_name,
    stamp,
)
from untildone.adapters.git.object_store import ObjectsGone
from untildone.adapters.git.place import Place
from untildone.adapters.git.trees import Changes, Entry, NewTrees, UnlikeTree, rebuilt
from untildone.domain.errors import StepError
from untildone.domain.regex import regex
from untildone.plain_files import read_bytes


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


class DraftDiff:
    """A draft's index as a tree, compared with the base."""

    def __init__(self, draft: Git, base: str) -> None:
        self._draft = draft
        self.base = base
        self.refreshed = 0
        self._read()

    def refresh(self) -> None:
        """Read it again, after the index was changed."""
        self.refreshed += 1
        self._read()

    def _read(self) -> None:
        self.tree = self._draft.write_tree()
        rows = self._draft.diff_trees(self.base, self.tree, folders=True)
        self.changes = tuple(c for c in rows if FOLDER not in (c.old_mode, c.new_mode))
        self.objects = [self.tree]
        self.objects += [c.blob for c in rows if c.status != "D" and c.new_mode != GITLINK]


def is_new_link(change: Change) -> bool:
    """A repository inside this one, where there was none."""
    return change.new_mode == GITLINK and change.old_mode != GITLINK


_SAID = regex(rb"(add|remove) '([^\n]+)'")
_LARGEST = 256 * 1024
# With these settings an entry of the index is more, or other, than a file with its mode.
_SPECIAL_SETTINGS = (
    *(("core.filemode", "false"), ("core.ignorecase", "true")),
    *(("core.splitindex", "true"), ("index.sparse", "true")),
)


class _NotSimple(Exception):
    """Something about the change is for git to say."""


class TreeWriter:
    """Makes the tree of a simple change from the trees before it: git would go through its index.

    It goes by what `git add -v` has said, and only if nothing speaks against it.
    A name may hold what looks like a line of git's. So every line must tell a real difference to
    the tree before, none twice, and the index must have grown by just so many entries.
    """

    def __init__(self, git: Git, top: Path, drafted: Path) -> None:
        self._git = git
        self._top = os.fsencode(top)
        self._drafted = drafted

    def trees_after(self, base: str, said: bytes, grown: int) -> NewTrees | None:
        """The tree of the base with these changes; None where git has to be asked."""
        if any(self._git.config(name) == value for name, value in _SPECIAL_SETTINGS):
            return None
        bodies: dict[str, bytes] = {}
        try:
            root = self._changes(filter(None, said.split(b"\n")), len(base))
            before = _OldTrees(self._git, base, root)
            top, more = rebuilt(before.entries, before.top(), root, bodies)
        except (_NotSimple, UnlikeTree, OSError, StepError):
            return None
        return NewTrees(top, bodies) if top and more == grown else None

    def _changes(self, lines: Iterable[bytes], digits: int) -> Changes:
        root = Changes({}, {})
        for line in lines:
            found = _SAID.fullmatch(line)
            if not found:
                raise _NotSimple
            added = found[1] == b"add"
            if not root.put(found[2], self._added(found[2], digits) if added else None):
                raise _NotSimple
        return root

    def _added(self, path: bytes, digits: int) -> Entry:
        """Mode and name of a file whose bytes git has just drafted as they are."""
        target = self._top + b"/" + path
        mode = os.lstat(target).st_mode
        if not stat.S_ISREG(mode):
            raise _NotSimple
        name = object_name("blob", read_bytes(target), digits)
        if not os.path.lexists(f"{self._drafted}/{name[:2]}/{name[2:]}"):
            raise _NotSimple  # converted, changed since, or the repository had it before
        return (b"100755" if mode & stat.S_IXUSR else b"100644"), bytes.fromhex(name)


class _OldTrees:
    """The trees of a checkpoint: those that are files are read, all others asked for at once."""

    def __init__(self, git: Git, base: str, changed: Changes) -> None:
        self._git = git
        self._base = base
        self._changed = changed
        self._packed: dict[str, bytes] | None = None

    def top(self) -> str:
        """The name of the topmost one."""
        body = loose_object(self._git.objects_folder, self._base, _LARGEST)
        if body is None:
            raise _NotSimple
        return body.partition(b"\n")[0].removeprefix(b"tree ").decode()

    def entries(self, name: str) -> dict[bytes, Entry]:
        """What a tree holds."""
        body = loose_object(self._git.objects_folder, name, _LARGEST)
        if body is None:
            if self._packed is None:
                base, folders = self._base.encode(), _paths(self._changed)
                self._packed = self._git.objects([b"%s:%s" % (base, path) for path in folders])
            body = self._packed.get(name)
        if body is None or len(body) > _LARGEST:
            raise _NotSimple
        return entries_of_tree(body, len(name) // 2)


def _paths(folder: Changes, path: bytes = b"") -> Iterator[bytes]:
    yield path
    for name, below in folder.folders.items():
        yield from _paths(below, path + b"/" + name if path else name)
