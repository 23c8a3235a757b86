"""Trees read, compared and made without starting git; only packed ones are asked for."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from untildone.adapters.git.git import Git
from untildone.adapters.git.object_files import (
    entries_of_tree,
    loose_object,
    object_name,
)
from untildone.domain.errors import StepError

Entry = tuple[bytes, bytes]  # mode and raw object name

FOLDER = b"40000"
_LARGEST = 64 * 1024 * 1024
_MOST_ENTRIES = 20_000  # some megabytes


class Difference(Struct, frozen=True):
    """A file that two trees do not have alike; None where one has it not."""

    path: bytes
    old: Entry | None
    new: Entry | None


class Changes(Struct):
    """What changes in one folder: files by name (None: removed), folders below it."""

    files: dict[bytes, Entry | None]
    folders: dict[bytes, "Changes"]

    def put(self, path: bytes, entry: Entry | None) -> bool:
        """Add a file below this folder; says whether it was not there yet."""
        *above, name = path.split(b"/")
        folder = self
        for part in above:
            folder = folder.folders.setdefault(part, Changes({}, {}))
        is_new = name not in folder.files
        folder.files[name] = entry
        return is_new


class NewTrees(Struct, frozen=True):
    """A tree that is not stored yet, with the new ones below it by name."""

    top: str
    bodies: dict[str, bytes]


class UnlikeTree(Exception):
    """A change does not fit the tree that it is to be made to."""


class Trees:
    """The trees of one repository; what was read stays known, since a name is its content."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._known: dict[str, dict[bytes, Entry]] = {}

    def diff(self, old: str, new: str) -> list[Difference]:
        """Files that differ, in the order of their paths, as `git diff-tree -r` has them."""
        found: list[Difference] = []
        level = [(b"", old, new)] if old != new else []
        while level:
            self._read({name for _, *names in level for name in names if name})
            unlike = [pair for folder in level for pair in self._unlike(*folder)]
            level = [folders for pair in unlike if (folders := _folders_in(pair))]
            found += [files for pair in unlike if (files := _files_in(pair))]
        return sorted(found, key=lambda difference: difference.path)

    def entry(self, tree: str, path: bytes) -> Entry | None:
        """The file at a path of a tree."""
        return _file_in(self.at(tree, path))

    def at(self, tree: str, path: bytes) -> Entry | None:
        """The file or folder at a path of a tree."""
        *above, name = path.split(b"/")
        for part in above:
            self._read({tree})
            tree = _tree_in(self._known[tree].get(part))
            if not tree:
                return None
        self._read({tree})
        return self._known[tree].get(name)

    def changed(self, tree: str, changes: Iterable[tuple[bytes, Entry | None]]) -> str:
        """A tree with files put in or removed, stored; an empty name stands for no tree at all."""
        root, bodies = Changes({}, {}), dict[str, bytes]()
        digits = 0
        for path, entry in changes:
            root.put(path, entry)
            digits = 2 * len(entry[1]) if entry else digits
        top, _ = rebuilt(self._entries_of, tree, root, bodies)
        if not top:
            top = empty_tree(len(tree) or digits)
            bodies[top] = b""
        self._git.store.store_trees(bodies)
        return top

    def _unlike(self, folder: bytes, old: str, new: str) -> list[Difference]:
        """What is not alike in one folder; folders below it, too."""
        before, after = self._known.get(old, {}), self._known.get(new, {})
        return [
            Difference(folder + name, before.get(name), after.get(name))
            for name in {*before, *after}
            if before.get(name) != after.get(name)
        ]

    def _entries_of(self, name: str) -> dict[bytes, Entry]:
        self._read({name})
        return dict(self._known[name])

    def _read(self, names: set[str]) -> None:
        if sum(map(len, self._known.values())) > _MOST_ENTRIES:
            self._known = {}
        packed = []
        for name in names - self._known.keys():
            body = loose_object(self._git.objects_folder, name, _LARGEST)
            if body is None:
                packed.append(name)
            else:
                self._known[name] = entries_of_tree(body, len(name) // 2)
        found = self._git.objects([name.encode() for name in packed]) if packed else {}
        for name in packed:
            if name not in found:
                raise StepError(f"A tree is missing in the repository: {name}")
            self._known[name] = entries_of_tree(found[name], len(name) // 2)


def rebuilt(
    entries_of: Callable[[str], dict[bytes, Entry]],
    old: str,
    changes: Changes,
    bodies: dict[str, bytes],
) -> tuple[str, int]:
    """The name of a folder's new tree (empty without files) and by how many it has grown.

    Every change must be a real one, or else it is an UnlikeTree.
    """
    entries = entries_of(old) if old else {}
    count = len(entries)
    _remove_files(entries, changes)
    grown = len(entries) - count
    for name, below in changes.folders.items():
        mode, inner = entries.get(name, (FOLDER, b""))
        if mode != FOLDER:
            raise UnlikeTree
        tree, more = rebuilt(entries_of, inner.hex(), below, bodies)
        grown += more
        if tree:
            entries[name] = (FOLDER, bytes.fromhex(tree))
        else:
            entries.pop(name, None)
    count = len(entries)
    _put_files(entries, changes)
    return _named(entries, bodies), grown + len(entries) - count


def empty_tree(digits: int) -> str:
    """The name of the tree without files; `digits` tells which hash the repository uses."""
    return object_name("tree", b"", digits)


def _remove_files(entries: dict[bytes, Entry], changes: Changes) -> None:
    for name, entry in changes.files.items():
        if entry is None and entries.pop(name, (FOLDER, b""))[0] == FOLDER:
            raise UnlikeTree  # there was no such file


def _put_files(entries: dict[bytes, Entry], changes: Changes) -> None:
    for name, entry in changes.files.items():
        if entry is not None:
            if entries.get(name) == entry or entries.get(name, entry)[0] == FOLDER:
                raise UnlikeTree
            entries[name] = entry


def _named(entries: dict[bytes, Entry], bodies: dict[str, bytes]) -> str:
    if not entries:
        return ""
    ordered = sorted(entries.items(), key=lambda e: e[0] + b"/" * (e[1][0] == FOLDER))
    body = b"".join(b"%s %s\0%s" % (mode, name, sha) for name, (mode, sha) in ordered)
    tree = object_name("tree", body, 2 * len(ordered[0][1][1]))
    bodies[tree] = body
    return tree


def _folders_in(pair: Difference) -> tuple[bytes, str, str] | None:
    """Path and trees of what is a folder on one side at least."""
    old, new = _tree_in(pair.old), _tree_in(pair.new)
    return (pair.path + b"/", old, new) if old or new else None


def _files_in(pair: Difference) -> Difference | None:
    """What is a file on one side at least."""
    old, new = _file_in(pair.old), _file_in(pair.new)
    return Difference(pair.path, old, new) if old or new else None


def _tree_in(entry: Entry | None) -> str:
    return entry[1].hex() if entry and entry[0] == FOLDER else ""


def _file_in(entry: Entry | None) -> Entry | None:
    return None if entry and entry[0] == FOLDER else entry
