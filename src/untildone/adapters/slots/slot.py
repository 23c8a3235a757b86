"""Where the slots of a repository are, what is noted about each, and who uses it."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from untildone.adapters.clock import pause
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import slug
from untildone.adapters.records.durable import replace_file, sync_folder
from untildone.adapters.records.lock import WorktreeLock
from untildone.domain.errors import UserError
from untildone.plain_files import read_bytes

CLONE, WORKTREE = "clone", "worktree"
NOTE = "slot.json"
DELETED = "deleted-"
LOOKING = "a look into the slot"  # who holds the lock of a slot and does no work in it
TRIES, PAUSE_S = 100, 0.1
BLOCK = 512  # the unit of `st_blocks`, whatever the disk's own is


class Note(Struct, frozen=True, omit_defaults=True):
    """What is known about a slot; written before what it says is done.

    `base` is where its files were brought to last. Before it is `ready` no agent has seen it, and
    nothing in it is worth keeping. `ports` is the first of its block.
    """

    owner: str
    top: str
    kind: str
    git_dir: str
    change: str = ""
    run_id: str = ""
    base: str = ""
    ready: bool = False
    ports: int = 0
    set_up: str = ""


class Slot(Struct, frozen=True):
    """The folder of one lane: its files in `top`, and beside them what agents need not see."""

    lane: int
    folder: Path
    top: Path

    @property
    def git_dir(self) -> Path:
        """The git folder of a private clone: beside the files, so that `rm -rf .git` spares it."""
        return self.folder / "git"

    @property
    def temporary(self) -> Path:
        """The lane's own TMPDIR."""
        return self.folder / "tmp"

    @property
    def damaged(self) -> Path:
        """Git folders that git could not read any more."""
        return self.folder / "damaged"

    @property
    def lock(self) -> WorktreeLock:
        """Whoever works in the slot holds it."""
        return WorktreeLock(self.folder / "untildone" / "lock")

    def is_busy(self) -> bool:
        """Whether a loop works in it; somebody who only looks is soon gone."""
        refusal = self.lock.refusal()
        return refusal is not None and LOOKING not in refusal.message

    def take(self, label: str) -> WorktreeLock:
        """Make the folder and lock it for this process."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock, tries = self.lock, TRIES
        while True:
            try:
                lock.take(label)
                return lock
            except UserError as busy:
                tries -= 1
                if not tries or LOOKING not in busy.message:
                    raise UserError(
                        f"Another loop works in the slot of lane {self.lane}: {self.folder}",
                        state="Nothing was changed.",
                        hint="`untildone status` shows it; wait for its end",
                    ) from busy
            pause(PAUSE_S)  # a look does not take long

    def note(self) -> Note | None:
        """What is noted; None for a slot that is not there, or whose note nobody can read."""
        try:
            return msgspec.json.decode(read_bytes(self.folder / NOTE), type=Note)
        except (OSError, msgspec.DecodeError):
            return None

    @property
    def used(self) -> float:
        """When a story was last begun in it, in seconds of the system's clock."""
        return (self.folder / NOTE).stat().st_mtime

    def write(self, note: Note) -> None:
        path = self.folder / NOTE
        replace_file(path, [msgspec.json.encode(note)], path.with_suffix(".draft"), 0o600)
        sync_folder(self.folder)


def slots_folder() -> Path:
    """Where the slots of all repositories are."""
    from platformdirs import user_cache_path  # noqa: PLC0415 - only lanes need it

    return user_cache_path("untildone") / "slots"


def key_of(place: Place) -> str:
    """What tells a worktree of the user's from all others, wherever its remote is."""
    return hashlib.sha256(os.fsencode(place.git_dir.resolve())).hexdigest()[:8]


def slot_of(place: Place, lane: int, root: Path) -> Slot:
    """The slot of a lane; its files are in a folder of the repository's name, as tools expect."""
    name = f"{slug(place.top.name, 20) or 'repository'}-{key_of(place)}"
    folder = root / name / f"lane-{lane}"
    return Slot(lane, folder, folder / place.top.name)


def slots_in(root: Path) -> Iterator[Slot]:
    """All slots that have a note."""
    for path in sorted(root.glob(f"*/lane-*/{NOTE}")):
        number = path.parent.name.removeprefix("lane-")
        slot = Slot(int(number), path.parent, path.parent) if number.isdigit() else None
        note = slot.note() if slot else None
        if slot and note:
            yield msgspec.structs.replace(slot, top=slot.folder / Path(note.top).name)


def deleted_in(folder: Path) -> Iterator[Slot]:
    """Slots of one worktree that were proven to be spare; a kill came before all of it was gone."""
    for path in sorted(folder.glob(f"{DELETED}lane-*")):
        number = path.name.removeprefix(f"{DELETED}lane-").partition(".")[0]
        if number.isdigit():
            yield Slot(int(number), path, path)


def weight(folder: Path) -> int:
    """The bytes that a folder takes from the disk; a file with two names counts once."""
    seen, total = set[tuple[int, int]](), 0
    for at, folders, names in os.walk(folder):
        for name in (*folders, *names):
            try:
                found = os.lstat(f"{at}/{name}")
            except OSError:  # gone in the meantime
                continue
            if (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                total += found.st_blocks * BLOCK
    return total
