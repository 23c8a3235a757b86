"""Objects that we store: no `git prune` or `git gc` that is run meanwhile takes them away."""

import contextlib
import errno
import os
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from untildone.adapters.git.object_files import hashed, whole
from untildone.adapters.records.durable import move_file, sync_folder, write_out
from untildone.domain.errors import StepError

_FASTEST = 1
_TRIES = 50

# Commands that write objects; where to, and where else to look for them.
STORES = (
    *("add", "write-tree", "hash-object", "commit-tree", "merge-tree", "update-index"),
    "pack-objects",
)
OBJECTS, ALSO_READ = "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"
ADVICE = "Do not run `git gc --prune=now` or `git prune` while a loop runs."


class ObjectsGone(StepError):
    """Git had found it in its store, then somebody took it: the files have to be read again."""


class Do(Protocol):
    """Runs a git command that must succeed."""

    def __call__(
        self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> bytes:
        """What it printed."""
        ...


class ObjectStore:
    """Where objects are files of their own; those of a run are held under a second name.

    Until a ref leads to an object anybody's `git prune` may take it, and one that began before the
    ref moved may take it later. So all that a run stores is in its own folder first, which our git
    commands read as a store too, and is put back from there. A clone that borrows `objects` has
    others of its `own`.
    """

    def __init__(self, objects: Path, own: Path | None = None) -> None:
        # Text: many a story, and pathlib's table of names would grow with them.
        self.folder = str(objects)
        self._own = str(own or objects)
        self.held = ""
        self._new: list[str] = []
        self._before: list[str] = []

    def hold(self, run_folder: Path) -> None:
        """From now on hold what is stored: beside the folders of runs, whose files are private."""
        home = run_folder.parent.parent
        self.held = f"{home}/held/{run_folder.name}" if run_folder.is_dir() else ""

    @property
    def incoming(self) -> str:
        """Where git may write objects before they are taken in; empty if none are held."""
        folder = f"{self.held}/incoming"
        return folder if self.held and self._has_folder(folder) else ""

    def incoming_for(self, verb: str, environment: Mapping[str, str]) -> dict[str, str]:
        """Where a command that stores objects is to put them, until we have taken them in."""
        stores = verb in STORES and OBJECTS not in environment
        folder = self.incoming if stores else ""
        others = also_read(self._own, self.folder, self.held)
        return {OBJECTS: folder, ALSO_READ: others} if folder else {}

    def has(self, name: str) -> bool:
        """Whether it is a file of the store."""
        return os.path.lexists(_path(self.folder, name))

    def holds(self, name: str) -> bool:
        """Whether it can be put back."""
        return bool(self.held) and os.path.lexists(_path(self.held, name))

    def store_commit(self, body: bytes) -> str:
        """Store a commit, synced; returns its name."""
        return self._store("commit", body, body.find(b"\n") - len("tree "))

    def store_blob(self, body: bytes, digits: int) -> str:
        """Store a file's bytes as they are, synced; returns their name."""
        return self._store("blob", body, digits)

    def store_trees(self, bodies: Mapping[str, bytes]) -> None:
        """Store trees, each after what it names: a kill leaves none with a gap.

        One sync for all, as git does it with `core.fsyncMethod=batch`: what was written out before
        is made safe by the sync of the last.
        """
        missing = [name for name in bodies if not self.has(name)]
        for name in bodies:
            sync = os.fsync if missing and name == missing[-1] else write_out
            self._store("tree", bodies[name], len(name), sync)

    def take_in(self, source: str, name: str) -> None:
        """Store an object that git has written elsewhere; if it has not, the store had it."""
        if not os.path.lexists(source):
            self._hold_stored(name)
        elif self._has_folder(f"{self.held}/{name[:2]}"):
            os.rename(source, _path(self.held, name))  # noqa: PTH104
            self._new.append(name)
            self._put_back(name)
        else:
            target = _path(self.folder, name)
            _make_object_folder(self.folder, target.rpartition("/")[0])
            move_file(Path(source), Path(target))

    def take_in_all(self, folder: str) -> None:
        """Store all that git has written into a folder: objects, and packs of large files."""
        for name in _names_in(folder):
            self.take_in(_path(folder, name), name)
        self.take_in_packs(f"{folder}/pack")

    def take_in_packs(self, folder: str) -> None:
        """Store packs, each with its index last: then it can be read."""
        packs = Path(folder)
        files = sorted(packs.iterdir(), key=lambda f: f.suffix == ".idx") if packs.is_dir() else ()
        for file in files:
            move_file(file, Path(self.folder, "pack", file.name))

    def _put_back(self, name: str) -> None:
        """Under its name in the store what we hold."""
        target = _path(self.folder, name)
        for _ in range(_TRIES):
            try:
                os.link(_path(self.held, name), target)
            except FileExistsError:
                return None
            except FileNotFoundError:
                _make_object_folder(self.folder, target.rpartition("/")[0])  # or somebody took it
            except OSError:
                return _copy_object(_path(self.held, name), target)  # no second names on this disk
            else:
                return None
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), target)

    def lost(self, names: Sequence[str], do: Do) -> list[str]:
        """Which of these objects the repository does not have, but for what we hold."""
        unsure = [name for name in names if not self.has(name)]
        if not unsure:
            return []
        out = do("cat-file", "--batch-check", stdin=_lines(unsure), env={ALSO_READ: ""}).decode()
        return [row.split(" ")[0] for row in out.splitlines() if row.endswith(" missing")]

    def settle(self, do: Do) -> None:
        """A ref leads to what was stored lately, and all of it is there; only now it counts."""
        self.put_back_lost([*self._before, *self._new], do)
        self._before, self._new = self._new, []

    def put_back_lost(self, names: Sequence[str], do: Do) -> None:
        """Look whether somebody took some of these; then store them again.

        From then on all of them in a pack, too: what such a command, still at work, may take is
        files of single objects.
        """
        lost = self.lost(names, do)
        for name in lost:
            if not self.holds(name):
                raise ObjectsGone(f"Somebody has removed an object of the run: {name}", hint=ADVICE)
            self._put_back(name)
        mark = f"{self.held}/tidied"
        if lost:
            Path(mark).touch()
        if self.held and os.path.lexists(mark) and (held := [n for n in names if self.holds(n)]):
            os.makedirs(f"{self.incoming}/pack", exist_ok=True)  # noqa: PTH103
            do("pack-objects", "-q", f"{self.incoming}/pack/pack", stdin=_lines(held))

    def all_held(self) -> list[str]:
        """What this run and its commands have stored, as far as it is held."""
        return _names_in(self.held) if self.held else []

    def let_go(self, do: Do) -> None:
        """At the end of a command: all is there; what runs before it held is safe long since.

        No longer: what somebody removes on purpose must not come back.
        """
        if self.held:
            self.put_back_lost(self.all_held(), do)
            shutil.rmtree(Path(self.held).parent, ignore_errors=True)

    def _store(
        self, kind: str, body: bytes, digits: int, sync: Callable[[int], None] = os.fsync
    ) -> str:
        data = whole(kind, body)
        name = hashed(data, digits)
        if self.has(name):
            self._hold_stored(name)
            return name
        held = self._has_folder(f"{self.held}/{name[:2]}")
        store = self.held if held else self.folder
        _write_object(store, name, data, sync)
        if held:
            self._new.append(name)
            self._put_back(name)
        return name

    def _hold_stored(self, name: str) -> None:
        """Hold what was there before: nothing may lead to it."""
        self._new.append(name)
        if self._has_folder(f"{self.held}/{name[:2]}"):
            with contextlib.suppress(OSError):  # held already, or not a file of its own
                os.link(_path(self.folder, name), _path(self.held, name))

    def _has_folder(self, path: str) -> bool:
        """Whether there is such a folder for what we hold; without the run's own there is none."""
        if not self.held:
            return False
        if os.path.isdir(path):  # noqa: PTH112
            return True
        try:
            try:
                _make_folders(path)  # mostly only this one is missing
            except FileNotFoundError:
                _make_folders(self.held.rpartition("/")[0], self.held, path)
        except OSError:
            self.held = ""  # somebody has removed the run's folder, or the disk is full
        return bool(self.held)


def _make_folders(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)  # noqa: PTH102


def _write_object(store: str, name: str, data: bytes, sync: Callable[[int], None]) -> None:
    """A new object as a file of its own, whole or not at all."""
    target = _path(store, name)
    folder = target.rpartition("/")[0]
    # By this name `git prune` knows what a kill has left.
    draft = f"{folder}/tmp_obj_{os.getpid()}_{name[2:10]}"  # noqa: S108 - in the object store
    packed = zlib.compress(data, _FASTEST)
    for left in reversed(range(_TRIES)):
        try:
            if not os.path.isdir(folder):  # noqa: PTH112
                _make_object_folder(store, folder)
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o444)
            try:
                if os.write(fd, packed) != len(packed):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), draft)
                sync(fd)
            finally:
                os.close(fd)
            os.rename(draft, target)  # noqa: PTH104
        except FileNotFoundError:  # a `git prune` took the empty folder, or the draft
            if not left:
                raise
        else:
            return


def _copy_object(source: str, target: str) -> None:
    part = f"{target.rpartition('/')[0]}/tmp_obj_{os.getpid()}"  # noqa: S108 - as above
    shutil.copy2(source, part)
    sync_folder(Path(part))
    os.replace(part, target)  # noqa: PTH105


def _make_object_folder(objects: str, folder: str) -> None:
    """One of the 256 folders of a store, with the store's mode: a group may share it."""
    with contextlib.suppress(FileExistsError, FileNotFoundError):
        os.mkdir(folder)  # noqa: PTH102
        os.chmod(folder, os.stat(objects).st_mode & 0o7777)  # noqa: PTH101, PTH116


def _names_in(store: str) -> list[str]:
    try:
        folders = [folder.name for folder in os.scandir(store) if len(folder.name) == 2]
    except FileNotFoundError:
        return []
    return [
        f"{folder}{name}"
        for folder in folders
        for name in os.listdir(f"{store}/{folder}")  # noqa: PTH208
        if not name.startswith("tmp_obj_")
    ]


def _path(store: str, name: str) -> str:
    return f"{store}/{name[:2]}/{name[2:]}"


def also_read(*folders: str) -> str:
    """Folders as git lists them in a variable."""
    listed = dict.fromkeys(filter(None, folders))
    quoted = (folder.replace("\\", "\\\\").replace('"', '\\"') for folder in listed)
    return os.pathsep.join(f'"{folder}"' for folder in quoted)


def _lines(names: Sequence[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode()
