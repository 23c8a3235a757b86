"""The tree of an ordinary change, made of the trees before it: git would go through its index."""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from untildone.adapters.git.git import Git
from untildone.adapters.git.object_files import entries_of_tree, loose_object, object_name
from untildone.domain.errors import StepError

Entry = tuple[bytes, bytes]

_SAID = re.compile(rb"(add|remove) '([^\n]+)'")
_FOLDER = b"40000"
_LARGEST = 256 * 1024
# With these settings an entry of the index is more, or other, than a file with its mode.
_ODD_SETTINGS = (
    *(("core.filemode", "false"), ("core.ignorecase", "true")),
    *(("core.splitindex", "true"), ("index.sparse", "true")),
)


class _NotSimple(Exception):
    """Something about the change is not ordinary."""


class _Folder(Struct):
    """What changes in one folder: files by name (None: removed), folders below it."""

    files: dict[bytes, Entry | None]
    folders: dict[bytes, "_Folder"]


class NewTrees(Struct, frozen=True):
    """A tree that is not stored yet, with the new ones below it by name."""

    top: str
    bodies: dict[str, bytes]


class TreeWriter:
    """Makes trees from what `git add -v` has said, and only if nothing speaks against it.

    A name may hold what looks like a line of git's. So every line must tell a real difference to
    the tree before, none twice, and the index must have grown by just so many entries.
    """

    def __init__(self, git: Git, top: Path, stored: Path, drafted: Path) -> None:
        self._git = git
        self._top = os.fsencode(top)
        self._stored = stored
        self._drafted = drafted

    def trees_after(self, base: str, said: bytes, grown: int) -> NewTrees | None:
        """The tree of the base with these changes; None where git has to be asked."""
        if any(self._git.config(name) == value for name, value in _ODD_SETTINGS):
            return None
        bodies: dict[str, bytes] = {}
        try:
            root = self._changes(filter(None, said.split(b"\n")), len(base))
            before = _OldTrees(self._git, self._stored, base, root)
            top, more = _rebuilt(before, before.top(), root, bodies)
        except (_NotSimple, OSError, StepError):
            return None
        return NewTrees(top, bodies) if top and more == grown else None

    def _changes(self, lines: Iterable[bytes], digits: int) -> _Folder:
        root = _Folder({}, {})
        for line in lines:
            found = _SAID.fullmatch(line)
            if not found:
                raise _NotSimple
            *above, name = found[2].split(b"/")
            folder = root
            for part in above:
                folder = folder.folders.setdefault(part, _Folder({}, {}))
            if name in folder.files:
                raise _NotSimple
            added = found[1] == b"add"
            folder.files[name] = self._added(found[2], digits) if added else None
        return root

    def _added(self, path: bytes, digits: int) -> Entry:
        """Mode and name of a file whose bytes git has just drafted as they are."""
        target = self._top + b"/" + path
        mode = os.lstat(target).st_mode
        if not stat.S_ISREG(mode):
            raise _NotSimple
        with open(target, "rb") as file:  # noqa: PTH123 - bytes: a name need not be text
            name = object_name("blob", file.read(), digits)
        if not os.path.lexists(f"{self._drafted}/{name[:2]}/{name[2:]}"):
            raise _NotSimple  # converted, changed since, or the repository had it before
        return (b"100755" if mode & stat.S_IXUSR else b"100644"), bytes.fromhex(name)


class _OldTrees:
    """The trees of a checkpoint: those that are files are read, all others asked for at once."""

    def __init__(self, git: Git, stored: Path, base: str, changed: _Folder) -> None:
        self._git = git
        self._stored = stored
        self._base = base
        self._changed = changed
        self._packed: dict[str, bytes] | None = None

    def top(self) -> str:
        """The name of the topmost one."""
        body = loose_object(self._stored, self._base, _LARGEST)
        if body is None:
            raise _NotSimple
        return body.partition(b"\n")[0].removeprefix(b"tree ").decode()

    def tree(self, name: str) -> bytes:
        """What a tree holds."""
        body = loose_object(self._stored, name, _LARGEST)
        if body is None:
            if self._packed is None:
                self._packed = self._git.trees_at(self._base, _paths(self._changed))
            body = self._packed.get(name)
        if body is None or len(body) > _LARGEST:
            raise _NotSimple
        return body


def _paths(folder: _Folder, path: bytes = b"") -> Iterator[bytes]:
    yield path
    for name, below in folder.folders.items():
        yield from _paths(below, path + b"/" + name if path else name)


def _rebuilt(
    before: _OldTrees, old: str, folder: _Folder, bodies: dict[str, bytes]
) -> tuple[str, int]:
    """The name of the folder's new tree (empty without files) and by how many it has grown."""
    entries = entries_of_tree(before.tree(old), len(old) // 2) if old else {}
    count = len(entries)
    _remove_files(entries, folder)
    grown = len(entries) - count
    for name, below in folder.folders.items():
        mode, inner = entries.get(name, (_FOLDER, b""))
        if mode != _FOLDER:
            raise _NotSimple
        rebuilt, more = _rebuilt(before, inner.hex(), below, bodies)
        grown += more
        if rebuilt:
            entries[name] = (_FOLDER, bytes.fromhex(rebuilt))
        else:
            entries.pop(name, None)
    count = len(entries)
    _put_files(entries, folder)
    return _named(entries, bodies), grown + len(entries) - count


def _remove_files(entries: dict[bytes, Entry], folder: _Folder) -> None:
    for name, entry in folder.files.items():
        if entry is None and entries.pop(name, (_FOLDER, b""))[0] == _FOLDER:
            raise _NotSimple  # there was no such file


def _put_files(entries: dict[bytes, Entry], folder: _Folder) -> None:
    for name, entry in folder.files.items():
        if entry is not None:
            if entries.get(name) == entry or entries.get(name, entry)[0] == _FOLDER:
                raise _NotSimple
            entries[name] = entry


def _named(entries: dict[bytes, Entry], bodies: dict[str, bytes]) -> str:
    if not entries:
        return ""
    ordered = sorted(entries.items(), key=lambda e: e[0] + b"/" * (e[1][0] == _FOLDER))
    body = b"".join(b"%s %s\0%s" % (mode, name, sha) for name, (mode, sha) in ordered)
    tree = object_name("tree", body, 2 * len(ordered[0][1][1]))
    bodies[tree] = body
    return tree
