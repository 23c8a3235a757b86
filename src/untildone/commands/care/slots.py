"""The slots of lanes: what each holds, whose it is, and deleting what is proven to be elsewhere."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from untildone.adapters.git.place import Place
from untildone.adapters.slots.slot import Note, Slot, deleted_in, slots_folder, slots_in, weight
from untildone.adapters.slots.slots import Slots
from untildone.adapters.slots.workspace import PINS, holder_of
from untildone.commands.care.gc import busy_homes, recorded
from untildone.domain.plain_text import amount
from untildone.domain.run.retention import Rule
from untildone.wiring.repository import Repository

IN_USE, RESUMABLE, ONLY_COPY, SPARE = "in use", "resumable", "only copy", "spare"


class SlotRow(Struct, frozen=True):
    """One slot. All that a spare one holds is elsewhere, by this `proof`.

    One that is the only copy of something holds it for these `reasons`.
    """

    lane: int
    folder: Path
    top: Path
    kind: str
    change: str
    run_id: str
    bytes: int
    used: datetime
    state: str
    proof: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def named(self) -> str:
        """What it is called for people."""
        return f"the slot of lane {self.lane} of `{self.change}` ({amount(self.bytes)})"

    @property
    def look(self) -> str:
        """The command that shows what is in it."""
        return f"git -C {self.top} status"


def slots(repository: Repository) -> list[SlotRow]:
    """Those of this repository, of all its worktrees."""
    going_on = _going_on(repository)
    return [_row(repository, slot, note, going_on) for slot, note in _own(repository)]


def elsewhere() -> tuple[Path, ...]:
    """Slots of repositories that are not there any more: nobody can prove anything about them."""
    noted = ((slot, slot.note()) for slot in slots_in(slots_folder()))
    gone = (slot.folder for slot, note in noted if note and not _repository_of(note).is_dir())
    return tuple(gone)


def old(repository: Repository, rule: Rule) -> list[SlotRow]:
    """Slots that nobody has used since the time of a rule and whose run is over."""
    return [
        row
        for row in slots(repository)
        if row.state in (SPARE, ONLY_COPY)
        and row.used <= rule.before
        and rule.change in ("", row.change)
    ]


def spare(rows: list[SlotRow]) -> list[SlotRow]:
    """Those of which everything is elsewhere."""
    return [row for row in rows if row.state == SPARE]


def delete(repository: Repository, rows: list[SlotRow]) -> list[SlotRow]:
    """Delete those that are proven to be spare; looked at once more. Returns what is gone."""
    gone = []
    wanted = {row.folder: row for row in spare(rows)}
    for slot, note in list(_own(repository)):
        if slot.folder in wanted and _of(repository, note).delete(slot.lane).deleted:
            gone.append(wanted[slot.folder])
    return gone


def leftover_pins(repository: Repository) -> dict[str, str]:
    """Refs that hold what a slot borrows, where there is no such slot any more; their commits."""
    root, refs = slots_folder(), repository.git().refs(PINS)
    found = {}
    for name, ref in refs.items():
        key, lane, _ = name.removeprefix(PINS).split("/", 2)
        if not any(root.glob(f"*-{key}/lane-{lane}")):
            found[name] = ref.commit
    return found


def remove_leftovers(repository: Repository) -> Iterator[str]:
    """Delete slots of ended runs, each with the proof; refs of slots that are gone go with them.

    Such a ref may be the last that holds a commit: then it stays.
    """
    for row in delete(repository, slots(repository)):
        yield f"Deleted {row.named}, all of it is elsewhere: {'; '.join(row.proof)}"
    for folder in slots_folder().glob("*/"):
        for gone in deleted_in(folder):
            note = gone.note()
            if note and _repository_of(note) == repository.place.common_dir.resolve():
                _of(repository, note).finish(gone)
                yield f"Removed what was left of a slot that was being deleted: {gone.folder}"
    git = repository.git()
    for name, commit in leftover_pins(repository).items():
        holder = holder_of(git, commit)
        if holder:
            git.update_refs([(name, "", commit)], "untildone: a slot is gone")
            yield f"Removed {name}: its slot is gone, and {holder} holds the commit"


def _own(repository: Repository) -> Iterator[tuple[Slot, Note]]:
    common = repository.place.common_dir.resolve()
    for slot in slots_in(slots_folder()):
        note = slot.note()
        if note and _repository_of(note) == common:
            yield slot, note


def _repository_of(note: Note) -> Path:
    """The git folder that is common to the worktrees of a slot's owner."""
    owner = Path(note.owner).resolve()
    return owner.parent.parent if owner.parent.name == "worktrees" else owner


def _of(repository: Repository, note: Note) -> Slots:
    """The slots of the worktree that a slot was made for, which may be gone."""
    place = Place(Path(note.top), Path(note.owner), repository.place.common_dir)
    return Slots(repository.processes, repository.git(), place, slots_folder(), note.kind)


def _going_on(repository: Repository) -> set[str]:
    runs = recorded(repository, busy_homes(repository))
    return {run.run_id for run, _ in runs if run.resumable}


def _row(repository: Repository, slot: Slot, note: Note, going_on: set[str]) -> SlotRow:
    state, proof, reasons = _state(repository, slot, note, going_on)
    return SlotRow(
        lane=slot.lane,
        folder=slot.folder,
        top=slot.top,
        kind=note.kind,
        change=note.change,
        run_id=note.run_id,
        bytes=weight(slot.folder),
        used=datetime.fromtimestamp(slot.used, UTC),
        state=state,
        proof=proof,
        reasons=reasons,
    )


def _state(
    repository: Repository, slot: Slot, note: Note, going_on: set[str]
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    if slot.lock.is_held():
        return IN_USE, (), ()
    if note.run_id in going_on:  # `resume` is the first to look into it
        return RESUMABLE, (), ()
    found = _of(repository, note).delete(slot.lane, only_look=True)
    return ONLY_COPY if found.reasons else SPARE, found.proof, found.reasons
