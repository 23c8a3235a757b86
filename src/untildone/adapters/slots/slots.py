"""The slots of one repository: made, brought to a base for the next story, listed, deleted."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.checkpoints.finish import Closing
from untildone.adapters.checkpoints.guard import DEFAULT, Guard
from untildone.adapters.checks.clean_checkout import remove_folder
from untildone.adapters.git import own_worktree
from untildone.adapters.git.environment import clean_environment
from untildone.adapters.git.git import Git
from untildone.adapters.git.object_files import content
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import home
from untildone.adapters.process.process import Processes
from untildone.adapters.records.durable import free_name
from untildone.adapters.records.lock import WorktreeLock
from untildone.adapters.records.run_folder import RunFolder
from untildone.adapters.slots import clone
from untildone.adapters.slots.lane_environment import (
    environment,
    free_ports,
    source_variables,
)
from untildone.adapters.slots.setup import (
    KEY_FILES,
    SetUp,
    SetUps,
    copy_folder,
    copy_included,
    setup_key,
)
from untildone.adapters.slots.slot import (
    CLONE,
    DELETED,
    LOOKING,
    NOTE,
    WORKTREE,
    Note,
    Slot,
    deleted_in,
    key_of,
    slot_of,
    slots_in,
)
from untildone.adapters.slots.workspace import (
    Pins,
    SlotSnapshots,
    SlotWorkspace,
    UsersRepository,
)
from untildone.domain.errors import Interrupted, StepError, UserError

LANE_LOCK = "untildone works there, lane "


class Prepared(Struct, frozen=True):
    """A slot at its base; `rescued` are refs of what was still in it from the story before."""

    slot: Slot
    place: Place
    workspace: SlotWorkspace
    rescued: tuple[str, ...] = ()


class Ready(Struct, frozen=True):
    """A slot that an agent may work in, and the variables that its programs get."""

    prepared: Prepared
    variables: dict[str, str]


class Deletion(Struct, frozen=True):
    """Whether a slot is gone: where all that it held is, or why that is not sure."""

    folder: Path
    deleted: bool
    proof: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


class Slots:
    """Slots of the user's worktree `place`, below `root`; one process uses a slot at a time.

    A stop cuts set-ups short, and git commands in a slot while they `may_be_cut`. What a slot
    borrows is held by a ref for each base in use: else `git gc` in the user's repository could
    remove objects that only the slot needs.
    """

    def __init__(
        self,
        processes: Processes,
        users: Git,
        place: Place,
        root: Path,
        kind: str = CLONE,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._processes = processes
        self._users = users
        self._user = place
        self._root = root
        self._kind = kind
        self._interrupted = interrupted
        self._settings = clone.UsersSettings(users)
        self.may_be_cut = False
        self._pins = Pins(users, key_of(place))
        self._runs = home(place)
        self._locks = dict[int, WorktreeLock]()
        # As long as this process has them, they know what nobody has touched since.
        self._begun = dict[int, SlotWorkspace]()

    def use_runs(self, folder: Path) -> None:
        """Our folder that has the run, if it is not that of the user's worktree."""
        self._runs = folder

    def use_settings(self, settings: clone.UsersSettings) -> None:
        """What the slots of all lanes of a run get."""
        self._settings = settings

    def slot(self, lane: int) -> Slot:
        return slot_of(self._user, lane, self._root)

    # -- prepare -------------------------------------------------------------------------------

    def prepare(
        self, lane: int, change: str, run_id: str, base: str, guard: Guard = DEFAULT
    ) -> Prepared:
        """A slot whose files are exactly those of the base, and what is ignored.

        Whatever an agent or a kill has left there is repaired, and stored if only the slot has it.
        """
        slot = self.slot(lane)
        if self._kind == CLONE:
            clone.refuse_what_needs_more(self._users, base)
        self._hold(slot, change)
        note = slot.note()
        if note and note.ready and note.kind != self._kind:
            self._give_up(slot)
            note = None
        self._pins.add(lane, base)
        rescued, none_ignored = tuple[str, ...](), False
        if note and note.ready:
            rescued, none_ignored = self._reuse(slot, note, base, guard)
        else:
            note, none_ignored = self._make(slot, change, run_id, base), True
        note = replace(note, change=change, run_id=run_id, base=base, ready=True)
        workspace = self._begin(slot, note, guard, none_ignored=none_ignored)
        slot.write(note)
        self._pins.remove(lane, but=base)
        _fresh_folder(slot.temporary)
        return Prepared(slot, self._place(slot, note), workspace, rescued)

    def ready(
        self,
        lane: int,
        change: str,
        run_id: str,
        base: str,
        setup: SetUp,
        guard: Guard = DEFAULT,
    ) -> Ready:
        """A slot at its base with its set-up done and its ports taken: all but the agent."""
        prepared = self.prepare(lane, change, run_id, base, guard)
        variables = self.environment(prepared.slot)
        if setup.source:
            self.set_up(prepared, setup, variables)
        return Ready(prepared, variables)

    def workspace(self, lane: int, guard: Guard = DEFAULT) -> SlotWorkspace | None:
        """After a crash: a slot as it was left, to save or to put back what is in it."""
        slot = self.slot(lane)
        note = slot.note()
        if not note or not note.ready:
            return None
        self._hold(slot, note.change)
        self._repair(slot, note)
        return self._workspace(slot, note, guard)

    def left(self, lane: int, run_id: str, base: str, guard: Guard = DEFAULT) -> Prepared | None:
        """A slot in which this run has begun something from this base; else None."""
        note = self.slot(lane).note()
        if not note or (note.run_id, note.base) != (run_id, base):
            return None
        workspace = self._begun.get(lane) or self.workspace(lane, guard)
        slot = self.slot(lane)
        return Prepared(slot, self._place(slot, note), workspace) if workspace else None

    def is_there(self, lane: int) -> bool:
        """Whether nobody has removed a slot that was prepared, or what it cannot be without."""
        slot = self.slot(lane)
        whole = slot.top.is_dir() and (slot.folder / NOTE).is_file()
        return whole and (self._kind != CLONE or slot.git_dir.is_dir())

    def forget(self, lane: int) -> None:
        """As after a crash: nothing that was known of a slot is true any more."""
        self._begun.pop(lane, None)
        if lane in self._locks:
            self._locks.pop(lane).release()

    def environment(self, slot: Slot) -> dict[str, str]:
        """The variables that a lane's programs have beside ours; its ports stay its own."""
        note = self._noted(slot)
        others = [found for found in slots_in(self._root) if found.folder != slot.folder]
        taken = [other.ports for found in others if (other := found.note())]
        ports = free_ports(note.ports, taken)
        if ports != note.ports:
            slot.write(replace(note, ports=ports))
        return environment(slot, ports)

    def set_up(
        self,
        prepared: Prepared,
        setup: SetUp,
        variables: Mapping[str, str],
        key_files: Sequence[str] = KEY_FILES,
    ) -> bool:
        """Run a set-up in a slot unless it was run there for the same key files; whether it was.

        What it does to files of the base is undone (and stored): it is no story's work.
        """
        slot, note = prepared.slot, self._noted(prepared.slot)
        key = setup_key(slot.top, setup, key_files)
        if note.set_up == key:
            return False
        slot.write(replace(note, set_up=""))
        copy_included(setup.top, setup.files, slot.top)
        for folder in setup.folders:
            copy_folder(setup.top / folder, slot.top / folder)
        sources = source_variables(setup.top if setup.top.name else self._user.top, slot)
        own = clean_environment(os.environ) | dict(variables) | dict(sources)
        SetUps(self._processes, self._interrupted).run(setup, slot.top, own)
        moved = f"refs/ralph/moved/{note.change}/lane-{slot.lane}-set-up"
        prepared.workspace.bring_to(note.base, moved)
        prepared.workspace.begin(note.base)
        slot.write(replace(self._noted(slot), set_up=key))
        return True

    def _noted(self, slot: Slot) -> Note:
        note = slot.note()
        if note is None:
            raise StepError(f"The slot is not there any more: {slot.folder}")
        return note

    def release(self, lane: int) -> None:
        if workspace := self._begun.get(lane):
            workspace.let_go()
        self.forget(lane)

    def _hold(self, slot: Slot, change: str) -> None:
        if slot.lane not in self._locks:
            self._locks[slot.lane] = slot.take(f"lane {slot.lane} of {change}")

    def _make(self, slot: Slot, change: str, run_id: str, base: str) -> Note:
        """A new slot; what a kill left of one that no agent has seen goes."""
        for path in (slot.top, slot.git_dir):
            if path.is_dir():
                remove_folder(path)
        owner, git_dir = str(self._user.git_dir), slot.git_dir
        note = Note(owner, str(self._user.top), self._kind, str(git_dir), change, run_id, base)
        slot.write(note)
        if self._kind == WORKTREE:
            note = replace(note, git_dir=str(self._linked(slot, base)))
        else:
            clone.make(self._settings, self._user, self._place(slot, note), _head(slot, note), base)
        git = self._git(self._place(slot, note))
        git.do("read-tree", "--reset", "-u", base)
        return note

    def _linked(self, slot: Slot, base: str) -> Path:
        """The git folder of a linked worktree; one that lost its files is taken again."""
        pointer = os.fsencode(slot.top / ".git")
        for path in (self._user.common_dir / "worktrees").glob("*/gitdir"):
            if content(path).strip() == pointer:
                slot.top.mkdir()
                clone.point(Place(slot.top, path.parent, self._user.common_dir), slot.damaged)
                return path.parent
        reason = f"{LANE_LOCK}{slot.lane}"
        own_worktree.make_at(self._users, self._user, slot.top, base, reason)
        git_dir = content(slot.top / ".git").removeprefix(b"gitdir: ").strip()
        return Path(os.fsdecode(git_dir))

    def _reuse(
        self, slot: Slot, note: Note, base: str, guard: Guard
    ) -> tuple[tuple[str, ...], bool]:
        """Store what only the slot has, then bring its files to the base.

        Returns where it is stored, and whether the slot has the files of the base and no others.
        """
        self._repair(slot, note)
        workspace = self._begun.get(slot.lane) or self._workspace(slot, note, guard)
        moved = f"refs/ralph/moved/{note.change}/lane-{slot.lane}"
        try:
            rescued = workspace.bring_to(base, moved)
        except Interrupted:
            raise
        except StepError:
            if note.kind != CLONE:
                raise
            # The agent has damaged what git keeps: a new git folder sees the files at least.
            self._renew(slot, note)
            workspace = self._workspace(slot, note, guard)
            rescued = workspace.bring_to(base, moved)
        workspace.hand_over((slot.damaged,), slot.lane)
        return rescued, workspace.has_only_tracked

    def _repair(self, slot: Slot, note: Note) -> None:
        place = self._place(slot, note)
        if not slot.top.is_dir():
            slot.top.unlink(missing_ok=True)
            slot.top.mkdir()
        if note.kind == WORKTREE:
            clone.point(place, slot.damaged)
        elif clone.is_whole(place):
            clone.repair(self._settings, self._user, place, _head(slot, note))
        else:
            self._renew(slot, note)

    def _renew(self, slot: Slot, note: Note) -> None:
        """A new git folder beside the old one, which is kept: it may hold what nothing else has."""
        place = self._place(slot, note)
        if os.path.lexists(slot.git_dir):
            slot.damaged.mkdir(exist_ok=True)
            slot.git_dir.rename(free_name(slot.damaged, "git"))
        clone.make(self._settings, self._user, place, _head(slot, note), note.base)

    def _begin(
        self, slot: Slot, note: Note, guard: Guard, *, none_ignored: bool = False
    ) -> SlotWorkspace:
        """Refs, logs and notes of earlier stories are forgotten; the branch is at the base."""
        place, head = self._place(slot, note), _head(slot, note)
        workspace = self._begun.get(slot.lane)
        if workspace and workspace.is_of(note.change, note.run_id):
            workspace.forget_bytes()
        else:
            workspace = None
            if home(place).is_dir():
                remove_folder(home(place))
        if note.kind == CLONE:
            clone.empty(place)
            clone.repair(self._settings, self._user, place, head)
            clone.set_head(place.git_dir, head, note.base)
        else:
            git = self._git(place)
            git.update_refs([(head, note.base, None)], "untildone: a lane's base")
            git.point_head(head.removeprefix("refs/heads/"), "untildone: a lane's base")
        workspace = workspace or self._workspace(slot, note, guard)
        workspace.begin(note.base, none_ignored=none_ignored)
        if note.kind == CLONE:
            workspace.has_one_ref(note.base)
        self._begun[slot.lane] = workspace
        return workspace

    # -- list and delete -----------------------------------------------------------------------

    def delete(self, lane: int, *, store: bool = False, only_look: bool = False) -> Deletion:
        """Delete a slot if all that it holds is elsewhere; `store` puts it there first.

        `only_look` says where all is, and deletes nothing.
        """
        slot = self.slot(lane)
        held = lane in self._locks
        try:
            self._hold(slot, LOOKING)
        except UserError as busy:
            return Deletion(slot.folder, deleted=False, reasons=(busy.message,))
        note = slot.note()
        proof, reasons = self._examined(slot, note, store=store)
        if reasons or only_look:
            if not held:
                self.release(lane)
            return Deletion(slot.folder, deleted=False, proof=proof, reasons=reasons)
        self._remove(slot)
        return Deletion(slot.folder, deleted=True, proof=proof)

    def _examined(
        self, slot: Slot, note: Note | None, *, store: bool
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if not note or not note.ready:
            return ("No agent has worked in it.",), ()
        try:
            return self._where_all_is(slot, note, store=store)
        except Interrupted:
            raise
        except StepError as error:  # an agent has damaged what git keeps: nothing is proven
            return (), (f"Git cannot tell what it holds: {error.message}",)

    def _where_all_is(
        self, slot: Slot, note: Note, *, store: bool
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """For every commit and file of a slot: the ref that holds it, or that none does."""
        if store:
            self._reuse(slot, note, note.base, DEFAULT)
            workspace = self._begin(slot, note, DEFAULT)
        else:
            self._repair(slot, note)
            workspace = self._workspace(slot, note, DEFAULT)
        users = self._users_repository(slot, note)
        stray = workspace.stray_tips()
        reasons = [f"No ref holds the commit {tip[:12]} of it." for tip in sorted(stray)]
        if left := workspace.left_behind():
            more = f" and {len(left) - 5} more" if len(left) > 5 else ""
            reasons.append(f"No commit holds its files: {', '.join(left[:5])}{more}")
        runs = home(self._place(slot, note)) / "runs"
        folders = (slot.damaged, *runs.glob("*/kept"), *runs.glob("*/aside"))
        full = (folder for folder in folders if folder.is_dir() and any(folder.iterdir()))
        reasons += [f"Nothing else holds what was moved aside: {folder}" for folder in full]
        # What a log names and git does not have any more is held by nothing: it is gone already.
        held = ((tip, users.holder(tip)) for tip in sorted(workspace.tips() - stray))
        proof = [f"{tip[:12]} is held by {holder}" for tip, holder in held if holder]
        return tuple(proof), tuple(reasons)

    def _give_up(self, slot: Slot) -> None:
        deletion = self.delete(slot.lane, store=True)
        if not deletion.deleted:
            raise UserError(
                f"The slot of lane {slot.lane} is of another kind and cannot be deleted: "
                f"{' '.join(deletion.reasons)}",
                state="Nothing was changed.",
                hint=f"Look at {slot.folder}, and move away what you want to keep",
            )
        self._hold(slot, "prepare")

    def _remove(self, slot: Slot) -> None:
        # Out of the way as a whole: a kill in mid deletion leaves no half of a slot.
        slot.folder.rename(free_name(slot.folder.parent, f"{DELETED}{slot.folder.name}"))
        self.release(slot.lane)
        self._pins.remove(slot.lane)
        for gone in deleted_in(slot.folder.parent):
            self.finish(gone)
        with contextlib.suppress(OSError):
            slot.folder.parent.rmdir()

    def finish(self, gone: Slot) -> None:
        """Remove what a deletion has put out of the way, the worktree of git's own with it."""
        note = gone.note()
        if note and note.kind == WORKTREE and not _is_taken(Path(note.git_dir)):
            remove_folder(Path(note.git_dir))
            head = _head(gone, note)
            commit = self._users.resolve(head)
            if commit:
                self._users.update_refs([(head, "", commit)], "untildone: a slot was deleted")
        remove_folder(gone.folder)

    # -----------------------------------------------------------------------------------------

    def _place(self, slot: Slot, note: Note) -> Place:
        if note.kind == WORKTREE:
            return Place(slot.top, Path(note.git_dir), self._user.common_dir)
        return Place(slot.top, slot.git_dir, slot.git_dir)

    def _git(self, place: Place) -> Git:
        git = Git(self._processes, place.top, lambda: self.may_be_cut and self._interrupted())
        git.use_common_dir(place.common_dir, self._user.common_dir / "objects")
        git.use_git_dir(place.git_dir)
        return git

    def _users_repository(self, slot: Slot, note: Note) -> UsersRepository:
        folder = RunFolder(self._runs, note.run_id).path
        place = self._place(slot, note)
        return UsersRepository(self._users, self._user, folder, place, _head(slot, note))

    def _workspace(self, slot: Slot, note: Note, guard: Guard) -> SlotWorkspace:
        place = self._place(slot, note)
        RunFolder(home(place), note.run_id).make()
        git = self._git(place)
        self._users.store = git.store  # whichever of them moves a ref looks after what was stored
        closing = Closing(git, place, note.change, note.run_id, lambda: "", guard)
        snapshots = SlotSnapshots.of_run(git, place, closing.folder, guard)
        branch = _head(slot, note).removeprefix("refs/heads/")
        users = self._users_repository(slot, note)
        return SlotWorkspace(closing, snapshots, place, note.change, branch, users)


def _head(slot: Slot, note: Note) -> str:
    """The branch that an agent finds itself on; worktrees of one repository cannot share it."""
    shared = note.kind == WORKTREE
    return (
        f"refs/heads/ralph-lane-{slot.lane}/{note.change}"
        if shared
        else f"refs/heads/ralph/{note.change}"
    )


def _is_taken(git_dir: Path) -> bool:
    """Whether a linked worktree has files (of a new slot by now), or is none any more."""
    pointer = os.fsdecode(content(git_dir / "gitdir").strip())
    return not pointer or os.path.lexists(pointer)


def _fresh_folder(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_folder(path)
    path.unlink(missing_ok=True)
    path.mkdir(mode=0o700)
