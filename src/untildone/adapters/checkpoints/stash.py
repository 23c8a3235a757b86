"""Checkpoints that leave HEAD, branch and index alone; `git stash list` shows the state before."""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from untildone.adapters.checkpoints.guard import DEFAULT, Guard
from untildone.adapters.checkpoints.refs_and_settings import STASH
from untildone.adapters.checkpoints.snapshot.snapshot import Snapshots
from untildone.adapters.checkpoints.snapshot.staged_content import staged_tree
from untildone.adapters.checkpoints.stash_entries import StashEntries, StateBefore
from untildone.adapters.checkpoints.workspace import MERGE_LEFT_OPEN, Workspace, trailer
from untildone.adapters.git.git import Git, Ref, RefUpdate
from untildone.adapters.git.index import copy_index
from untildone.adapters.git.object_files import Stamp, content, file_name, is_plain_file, stamp
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import head_of, install_index, missing_index_back
from untildone.adapters.git.trees import Entry, Trees
from untildone.adapters.records.operations import RepoState
from untildone.adapters.records.run_folder import USERS_INDEX
from untildone.domain.errors import Interrupted, StepError, UserError, WorkDiverged
from untildone.domain.run.fact import Opened, Reverted, Saved
from untildone.domain.run.run import Choice, Origin

# As many edited files as it takes to tell a story that undoes an edit from a wiped tree.
SAMPLE = 50
WIPED = (
    "All uncommitted edits of tracked files were taken back, as `git reset`, `git stash` or "
    "`git checkout` do. The finished stories and the user's own edits are uncommitted: leave them."
)


class StashCheckpoint(Workspace):
    """The run works in the user's tree; its commits are private and use an index of their own."""

    def __init__(
        self,
        git: Git,
        place: Place,
        folder: Path,
        change: str,
        origin: Origin,
        guard: Guard = DEFAULT,
    ) -> None:
        snapshots = Snapshots.of_run(git, place, folder, guard)
        super().__init__(git, place, folder, change, work_ref(change), snapshots)
        self._origin = origin
        self._entries = StashEntries(git, change)
        self._trees = Trees(git)
        self._staged_tree: tuple[Stamp | None, str] = (None, "")
        self._same_indexes: tuple[Stamp | None, Stamp | None] | None = None
        self._untouched = b""
        self._edited: tuple[str, str, Sequence[bytes]] = ("", "", ())
        self._put_back_mark = folder / "putting-back"
        if (folder / "index").exists():
            git.use_index(folder / "index")

    def open(self, origin: Origin, stamp: str) -> Opened:
        """Save the user's exact state; nothing that the user sees is touched."""
        stored = self._opening.store(origin, self._ref, stamp)
        self._note("start", stored.before, self._state_at(stored.opened.checkpoint))
        self._git.update_refs(stored.updates, f"untildone: start {self._change}")
        stored.index.replace(self._folder / "index")
        self._git.use_index(self._folder / "index")
        self._snapshots.opened(stored.opened.checkpoint)
        return stored.opened

    def reopened(self, origin: Origin) -> Opened | None:
        """After a crash while opening: what the refs say, or None if they never moved."""
        tip, backup = self._git.resolve(self._ref), self._opening.backup_ref
        complete = (self._folder / "index").exists() and self._git.resolve(backup)
        return Opened(origin, tip, backup) if tip and complete else None

    def adopt(self, checkpoint: str) -> tuple[str, tuple[str, ...]]:
        """Go on; edits made by hand since then are the new checkpoint."""
        if not self._is_at_origin():
            raise UserError(self._left(), state="Nothing was changed.", hint=self._way_back())
        tip = self._git.resolve(self._ref)
        if not tip or not self._git.is_ancestor(checkpoint, tip):
            raise UserError(
                f"The checkpoints of this run are gone: {self._ref}",
                state="Nothing was changed.",
                hint=f"`untildone run {self._change}` starts a new run",
            )
        missing = missing_index_back(self._place, self._users_index)
        self._adopt_index()
        tip, remarks = self._keep_edits(tip)
        edited = () if tip == checkpoint else ("Edits by hand are kept",)
        return tip, (*missing, *edited, *remarks)

    def keep_edits(self, checkpoint: str) -> tuple[str, tuple[str, ...]]:
        """As `adopt`, unless somebody has moved HEAD."""
        return self.adopt(checkpoint) if self._is_at_origin() else (checkpoint, ())

    def ensure_at(self, checkpoint: str, story_id: str) -> None:
        """Before an agent starts: where the user was, the state in the stash list."""
        if not self._is_at_origin() or self._git.resolve(self._ref) != checkpoint:
            raise StepError(self._left(), state="Nothing was changed.", hint=self._way_back())
        before = StateBefore(self._origin, self._staged(), checkpoint)
        moved, self._remarks = self._entries.store(story_id, before)
        self._refs.moved(moved)
        self._snapshots.call_starts(checkpoint)
        self._outside.note(self._refs.now(), self._ref)

    def commits(self, checkpoint: str) -> tuple[str, ...]:
        """The commits that the agent made, wherever HEAD is now."""
        self._remarks = (*self._remarks, *self._outside.put_settings_back())
        return self._git.commits_since(self._origin.commit, self._agents_commits(self._refs.now()))

    def diverged(self, checkpoint: str) -> str:
        """Why saving this work would drop what was there, or nothing."""
        if self._left_in_conflict():
            return MERGE_LEFT_OPEN
        head = self._head_commit(self._refs.last())  # `commits` or `save` has just looked
        if self._git.is_ancestor(self._origin.commit, head):
            return WIPED if self._is_wiped(checkpoint) else ""
        return (
            "The work does not build on the commit that the run started from: HEAD was moved. "
            "Stay on the branch and do not rewrite its history."
        )

    def save(self, lane: int, checkpoint: str, message: str, *, only_changes: bool) -> Saved:
        """A private commit of all work; the agent's own commits are stored, the files stay."""
        remarks = self._put_settings_back()
        refs = self._refs.now()
        if not only_changes and (diverged := self.diverged(checkpoint)):
            raise WorkDiverged(diverged)
        snapshot = self._snapshots.take(checkpoint, listed=False)
        commit = ""
        if not (only_changes and self._git.tree_of(checkpoint) == snapshot.tree):
            commit = self._git.commit_tree(snapshot.tree, [checkpoint], message)
        tip = commit or checkpoint
        self._snapshots.unconverted.keep(tip, snapshot.disk_blobs)
        story = trailer(message, "Untildone-Story")
        if commit:
            self._note("checkpoint", self._state_at(checkpoint), self._state_at(commit), story)
        moved = self._restore_users_state(refs)
        dropped = self._drop_and_move(story, tip, message)
        self._snapshots.saved(tip)
        self._snapshots.modes.note(snapshot.paths)
        remarks = (*remarks, *snapshot.remarks, *moved, *dropped)
        return Saved(lane, commit, tip, remarks, snapshot.tree, snapshot.paths)

    def _drop_and_move(self, story_id: str, tip: str, message: str) -> tuple[str, ...]:
        """Drop the story's entry and move our own ref, the last step: it says that all is done."""
        why = message.partition("\n")[0]
        updates: list[RefUpdate] = [(self._ref, tip, None)]
        if self._users_index.name == USERS_INDEX:
            # The backup has what is staged; what was staged since the start is in entries only.
            updates += self._entries.held(story_id)
        if only := self._entries.only_entry(story_id):
            try:
                self._git.update_refs([*updates, (STASH, "", only)], why)
            except Interrupted:
                raise
            except StepError:  # somebody stashed in that very instant: the list is longer now
                pass
            else:
                self._refs.moved({ref: new for ref, new, _ in updates} | {STASH: ""})
                return ()
        remarks = self._entries.drop(story_id)
        self._git.update_refs(updates, why)
        return remarks

    def saved_as(self, checkpoint: str, story_id: str, attempt: int) -> str:
        """The commit of this attempt, if it was made; its entry, which git drops last, goes too."""
        commit = super().saved_as(checkpoint, story_id, attempt)
        if commit:
            self._entries.drop(story_id)
        return commit

    def revert(self, lane: int, checkpoint: str, story_id: str, attempt: int) -> Reverted:
        """Store the attempt with all its commits and files, then put the tree back."""
        self._put_back_mark.touch()
        remarks = self._put_settings_back()
        ref = self._attempt_ref(story_id, attempt)
        refs = self._refs.now()
        snapshot = self._snapshots.take(checkpoint, with_hidden=True)
        stored = self._attempts.store(ref, snapshot, checkpoint, self._agents_commits(refs))
        before = RepoState(
            self._origin.head, {self._ref: checkpoint}, stored, self._users_index.name
        )
        self._note("put-back", before, self._state_at(checkpoint), story_id)
        moved = self._restore_users_state(refs)
        self._git.update_refs([(self._ref, checkpoint, None)], f"untildone: back to {checkpoint}")
        since = self._outside.noted_at()
        late = self._attempts.put_back(ref, snapshot, checkpoint, since)
        self._put_back_mark.unlink()
        remarks = (*remarks, *snapshot.remarks, *moved, *late)
        return Reverted(lane, ref, remarks, snapshot.changed_tree)

    def close(self, choice: Choice, origin: Origin) -> tuple[str, ...]:
        """The work is in the tree already: only our traces are removed."""
        if choice is Choice.KEEP and not self._folder.is_dir():
            return ()  # as it is, which is all that can be done then
        self._refuse_without_folder()
        if self._put_back_mark.exists():
            return ("The put-back was cut short, so the stash entry is kept: `git stash list`",)
        dropped = self._entries.drop_all()
        tip = self._git.resolve(self._ref)
        if not tip:
            return dropped
        dropped = (*dropped, *missing_index_back(self._place, self._users_index))
        index, copy = self._place.git_dir / "index", self._folder / "index.closed"
        copy_index(self._git, self._place, index, copy)
        now = RepoState(origin.head, {self._ref: tip}, tip, "index.closed")
        if choice is Choice.KEEP:  # `resume` can go on from the private commits
            self._note("keep", now, now)
            return dropped
        self._note("cleanup", now, replace(now, refs={self._ref: ""}))
        return (*dropped, *archive_work(self._git, self._change, self._run_id))

    # -----------------------------------------------------------------------------------------

    def _state_at(self, commit: str) -> RepoState:
        """Where the user is, with the files of one of our commits."""
        return RepoState(self._origin.head, {self._ref: commit}, commit, self._users_index.name)

    def _restore_users_state(self, refs: dict[str, Ref]) -> tuple[str, ...]:
        """Everything of the user's back where it was; what was moved is stored."""
        back, moved = self._outside.refs_back(refs, self._agents_commits(refs), self._ref)
        if back:
            self._git.update_refs(back, "untildone: back where the run started")
        self._head_to_origin()
        return (*moved, *self._restore_index())

    def _is_wiped(self, checkpoint: str) -> bool:
        """Whether no edit of the checkpoint is left, against the commit or what is staged."""
        tree = self._git.tree_of(checkpoint)
        for base in {self._git.tree_of(self._origin.commit), self._staged()}:
            if self._is_edit_on_disk(base, tree, self._untouched):
                continue
            edited = self._edited_files(base, tree)
            self._untouched = self._one_as_saved(base, tree, edited)
            if edited and not self._untouched and _same_on_disk(self._git, base, edited):
                return True
        return False

    def _edited_files(self, base: str, tree: str) -> Sequence[bytes]:
        """Some tracked files that are edited in the tree; asked for twice per story."""
        if self._edited[:2] != (base, tree):
            edited = [d.path for d in self._trees.diff(base, tree) if _is_edit(d.old, d.new)]
            self._edited = (base, tree, edited[:SAMPLE])
        return self._edited[2]

    def _one_as_saved(self, base: str, tree: str, edited: Sequence[bytes]) -> bytes:
        """A file that still has the very bytes of the checkpoint: then nobody wiped the tree."""
        sizes = {path: _size_of(self._place.top, path) for path in edited}
        smallest_first = sorted(edited, key=lambda path: sizes[path])
        found = (path for path in smallest_first if self._is_edit_on_disk(base, tree, path))
        return next(found, b"")

    def _is_edit_on_disk(self, base: str, tree: str, path: bytes) -> bool:
        """Whether a file is edited in the tree, and on disk as the tree has it."""
        if not path:
            return False
        now, file = self._trees.entry(tree, path), self._place.top / os.fsdecode(path)
        if not now or not _is_edit(self._trees.entry(base, path), now) or not is_plain_file(file):
            return False
        return file_name(file, 2 * len(now[1])) == now[1].hex()

    def _agents_commits(self, refs: dict[str, Ref]) -> list[str]:
        """Commits of the agent: under HEAD, and on the user's branch."""
        own = refs.get(f"refs/heads/{self._origin.branch}")
        tips = dict.fromkeys((self._head_commit(refs), own.commit if own else ""))
        return [tip for tip in tips if tip and tip != self._origin.commit]

    def _is_at_origin(self) -> bool:
        branch, _ = head_of(self._place.git_dir)
        return (branch, self._head_commit(self._refs.now())) == (
            self._origin.branch,
            self._origin.commit,
        )

    def _head_to_origin(self) -> None:
        branch, commit = head_of(self._place.git_dir)
        if self._origin.branch and branch != self._origin.branch:
            self._git.point_head(self._origin.branch, "untildone: back where the run started")
        elif not self._origin.branch and commit != self._origin.commit:
            self._git.detach_head(self._origin.commit, "untildone: back where the run started")

    @property
    def _users_index(self) -> Path:
        adopted = self._folder / "index.user"
        return adopted if adopted.exists() else self._folder / USERS_INDEX

    def _staged(self) -> str:
        """What the user has staged, as a tree that is stored: an attempt may have run `git gc`."""
        index = self._folder / "index.staged"
        seen, tree = self._staged_tree
        stored = self._git.objects_folder / tree[:2] / tree[2:]
        is_origins = tree == self._git.tree_of(self._origin.commit)
        if seen is None or seen != stamp(index) or not (is_origins or stored.exists()):
            tree = self._git.write_tree(index=index)
            self._staged_tree = (stamp(index), tree)
        return tree

    def _has_users_index(self) -> bool:
        """Whether the index is the user's; both are read only if one was written since."""
        index, saved = self._place.git_dir / "index", self._users_index
        stamps = (stamp(index), stamp(saved))
        if stamps != self._same_indexes:
            if content(index) != content(saved):
                return False
            self._same_indexes = stamps
        return True

    def _adopt_index(self) -> None:
        """What the user staged since the last attempt is staged after the next ones, too."""
        index = self._place.git_dir / "index"
        if self._has_users_index():
            return
        if self._git.do("ls-files", "-u", "-z", index=index):
            raise UserError(
                "The index has unmerged files",
                state="Nothing was changed.",
                hint=f"`git add` them, then `untildone resume {self._change}`",
            )
        for name in ("index.staged", "index.user"):
            copy_index(self._git, self._place, index, self._folder / f"{name}.new")
            (self._folder / f"{name}.new").replace(self._folder / name)

    def _restore_index(self) -> tuple[str, ...]:
        """The user's index with its staged part; what an attempt staged is stored."""
        saved, index = self._users_index, self._place.git_dir / "index"
        if self._has_users_index():
            return ()
        staged = self._staged()
        found = staged_tree(self._git, index, self._folder) if index.is_file() else ""
        tree = found or staged
        remarks: tuple[str, ...] = ()
        if tree != staged:
            message = f"staged by an attempt\n\nUntildone-Run: {self._run_id}\n"
            commit = self._git.commit_tree(tree, [self._origin.commit], message)
            self._git.update_refs([self._outside.store(commit)], "untildone: keep the index")
            remarks = ("An attempt changed what is staged; your index was put back",)
        install_index(self._place, saved)
        return remarks

    def _left(self) -> str:
        where = self._origin.branch or self._origin.commit[:12]
        return f"The worktree is not on `{where}` at the commit that the run started from"

    def _way_back(self) -> str:
        where = self._origin.branch or self._origin.commit[:12]
        return f"git checkout {where} && untildone resume {self._change}"


def _same_on_disk(git: Git, commit: str, paths: Sequence[bytes]) -> bool:
    specs = [f":(top,literal){os.fsdecode(path)}" for path in paths]
    return git.ask("diff", "--quiet", "--no-ext-diff", commit, "--", *specs).ok


def _size_of(top: Path, path: bytes) -> int:
    try:
        return (top / os.fsdecode(path)).lstat().st_size
    except OSError:
        return 0


def _is_edit(old: Entry | None, new: Entry | None) -> bool:
    """Whether both sides have a file, not the same one, and of the same type."""
    return old is not None and new is not None and old != new and old[0][:3] == new[0][:3]


def work_ref(change: str) -> str:
    """Where the private commits of a change are."""
    return f"refs/ralph/work/{change}"


def remove_traces(git: Git, change: str, run_id: str) -> tuple[str, ...]:
    """Remove all traces that a run has left; its commits are stored."""
    return (*StashEntries(git, change).drop_all(), *archive_work(git, change, run_id))


def archive_work(git: Git, change: str, name: str) -> tuple[str, ...]:
    """The private commits under an archive's name; says where."""
    tip = git.resolve(work_ref(change))
    if not tip:
        return ()
    archive = f"refs/ralph/archive/{change}/{name}"
    updates: list[RefUpdate] = [(archive, tip, None), (work_ref(change), "", tip)]
    git.update_refs(updates, f"untildone: end of {change}")
    return (f"The run's commits are stored as: {archive}",)
