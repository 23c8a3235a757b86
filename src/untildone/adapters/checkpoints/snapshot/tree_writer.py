"""The tree of a simple change, made of the trees before it: git would go through its index."""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from untildone.adapters.git.git import Git
from untildone.adapters.git.object_files import entries_of_tree, loose_object, object_name
from untildone.adapters.git.trees import Changes, Entry, NewTrees, UnlikeTree, rebuilt
from untildone.domain.errors import StepError
from untildone.domain.regex import regex
from untildone.plain_files import read_bytes

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
    """Makes trees from what `git add -v` has said, and only if nothing speaks against it.

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
