"""The end of a run: cleanup, restore, and bringing back a saved attempt."""

import contextlib
import json
from collections.abc import Callable, Generator, Iterator

from msgspec.structs import replace

from untildone.adapters.checkpoints.guard import DEFAULT, Guard
from untildone.adapters.checkpoints.snapshot.file_modes import modes_kept
from untildone.adapters.checkpoints.snapshot.skipped_files import (
    restore_index_flags,
    write_skipped_files,
)
from untildone.adapters.checkpoints.snapshot.snapshot import Snapshots
from untildone.adapters.checkpoints.snapshot.unconverted_bytes import DiskBlobs
from untildone.adapters.checkpoints.snapshot.withheld_files import (
    kept_of,
    plan_give_back,
)
from untildone.adapters.checkpoints.state_change import StateChange, Stored
from untildone.adapters.checkpoints.undo import Undoing
from untildone.adapters.git.git import Git, RefUpdate
from untildone.adapters.git.index import overlay, reset_index
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import head_of, head_ref, home, install_index, is_elsewhere
from untildone.adapters.records.durable import replace_file
from untildone.adapters.records.operations import Begun, Operation, OperationLog, RepoState
from untildone.adapters.records.run_folder import USERS_INDEX
from untildone.domain.errors import CloseRefused, Interrupted, StepError, UserError
from untildone.domain.run.run import Origin
from untildone.plain_files import read_text

# Tells the run's journal of an operation that came about, before it is called ended.
Told = Callable[[Begun], None]


def _untold(begun: Begun) -> None:
    del begun


class Closing:
    """Ends a run on `ralph/CHANGE`; whatever is replaced is stored under a ref first."""

    def __init__(
        self,
        git: Git,
        place: Place,
        change: str,
        run_id: str,
        stamp: Callable[[], str],
        guard: Guard = DEFAULT,
    ) -> None:
        self.git = git
        self._place = place
        self._change = change
        self._run_id = run_id
        self._stamp = stamp
        self._branch = f"ralph/{change}"
        self._ref = f"refs/heads/{self._branch}"
        self.folder = home(place) / "runs" / run_id
        self.snapshots = Snapshots.of_run(git, place, self.folder, guard)
        self._marker = self.folder / "closing.json"
        self._done = self.folder / "closed.json"
        self._log = OperationLog(home(place))

    def cleanup(self, origin: Origin) -> tuple[str, ...]:
        """Original branch, all changes of the run as uncommitted edits, `ralph/CHANGE` deleted."""
        if not self._on_branch():
            if self._done.exists():
                # A crash came before the record.
                return _where_stored(json.loads(read_text(self._done)))
            if self._marker.exists():
                return self._finish_cleanup(origin)  # a crash came between HEAD and the rest
        self._check_origin(origin)
        self._done.unlink(missing_ok=True)  # of a cleanup that was undone
        tip = self.git.resolve(self._ref)
        with self.staged_kept_on_error():
            self._move_to_original_branch(origin, tip)
        return self._finish_cleanup(origin)

    def _move_to_original_branch(self, origin: Origin, tip: str) -> None:
        work, tree, staged = self.work_at(tip)
        now = self.git.resolve(f"refs/heads/{origin.branch}") if origin.branch else origin.commit
        files, index = work, USERS_INDEX
        if now != origin.commit:
            merged = self._merge(now, work, tree)
            files, index = self.store_after("cleanup", merged, work), ""
        copy = self.snapshots.staged.copy_newest(f"index.{self._stamp()}") if staged else ""
        before = RepoState(self._ref, {self._ref: tip}, work, copy)
        self._note("cleanup", before, RepoState(origin.head, {self._ref: ""}, files, index))
        archive = f"refs/ralph/archive/{self._change}/{self._stamp()}"
        self.git.update_refs([(archive, work, "")], "untildone: keep the run's commits")
        moved = now != origin.commit
        note = json.dumps({"archive": archive, "tip": tip, "moved": moved}).encode()
        replace_file(self._marker, [note], self._marker.with_suffix(".draft"))
        self._head_to(origin, f"untildone: cleanup {self._change}")
        self.snapshots.staged.forget()

    @contextlib.contextmanager
    def staged_kept_on_error(self) -> Generator[None, None, None]:
        """A cleanup that is refused leaves staged what was."""
        try:
            yield
        except BaseException:
            self.snapshots.staged.put_back(self._place)
            raise

    def restore(
        self,
        origin: Origin,
        backup_ref: str,
        *,
        branch: bool = True,
        told: Told = _untold,
    ) -> tuple[str, ...]:
        """HEAD, index, files and branch exactly as before the run; returns where all is stored.

        A run without a `branch` of its own leaves an earlier `ralph/CHANGE` alone.
        """
        git, backup = self.git, self._backup(origin, backup_ref)
        change = self._state_change()
        found = change.store("restore", git.resolve("HEAD"))
        own = self._ref if branch and not self._other_worktree_with(self._ref) else ""
        original = f"refs/heads/{origin.branch}" if origin.branch else ""
        before = {ref: git.resolve(ref) for ref in (own, original) if ref}
        after = {ref: origin.commit if ref == original else "" for ref in before}
        kept = [found.ref, *self._store_tips(before, after)]
        was = RepoState(head_ref(self._place), before, found.commit, found.index)
        then = RepoState(origin.head, after, backup, USERS_INDEX)
        self._carry_out(Begun(self._operation("restore", was, then)), change, found, told)
        return tuple(kept)

    def _store_tips(self, before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
        """Branches that are about to move or go, under refs that stay."""
        for ref in sorted(before, key=lambda ref: ref == self._ref):
            if before[ref] not in ("", after[ref]):
                label = "branch" if ref == self._ref else ref.removeprefix("refs/heads/")
                stored = f"refs/ralph/archive/{self._change}/{self._stamp()}-{label}"
                self.git.update_refs([(stored, before[ref], None)], "untildone: keep a branch")
                yield stored

    def undo(self, operation: Operation, facts: int, told: Told) -> None:
        """Take an operation back, which is an operation too; edits made since are kept."""
        raw = self.snapshots.unconverted
        undoing = Undoing(self.git, raw, self._place, self.folder.parent)
        undoing.check(operation)
        change = self._state_change()
        git, after, before = self.git, operation.after, operation.before
        found = change.store("undo", git.resolve("HEAD"), after.refs.values())
        tree, disk_blobs = undoing.target(operation, found.commit)
        files = self.store_after("undo", tree, found.commit, disk_blobs)
        now = RepoState(after.head, after.refs, found.commit, found.index, after.beside)
        then = RepoState(before.head, before.refs, files, before.index, before.beside)
        begun = Begun(self._operation("undo", now, then, facts), operation)
        self._carry_out(begun, change, found, told)

    def advance(self, name: str, story: str, to: str, facts: int, told: Told) -> str:
        """The branch to a commit on top of it, with its files; edits that are not in it are kept.

        Returns where all was stored before.
        """
        git, tip, change = self.git, self.git.resolve(self._ref), self._state_change()
        found = change.store(name.partition(" ")[0], tip)
        tree, conflicts = git.merged_tree(found.commit, to)
        if conflicts:
            raise UserError(
                f"Your edits here conflict with this {name}, in: "
                f"{', '.join(dict.fromkeys(conflicts))}",
                state="Nothing was changed.",
                hint="Commit or undo your edits of these files, then try again.",
            )
        changed = {one.path for one in git.diff_trees(found.commit, tree)}
        here = self.snapshots.unconverted.of(found.commit)
        kept = {path: blob for path, blob in here.items() if path not in changed}
        files = self.store_after(name.partition(" ")[0], tree, found.commit, kept)
        before = RepoState(self._ref, {self._ref: tip}, found.commit, found.index)
        after = RepoState(self._ref, {self._ref: to}, files)
        operation = replace(self._operation(name, before, after, facts), story=story)
        self._carry_out(Begun(operation), change, found, told)
        return found.ref

    def _backup(self, origin: Origin, ref: str) -> str:
        """The commit of the user's files; a UserError if it is gone or cannot be put in place."""
        backup = self.git.resolve(ref)
        if not backup:
            raise UserError(
                f"The backup of this run is gone: {ref}",
                hint=f"git for-each-ref refs/ralph/archive/{self._change}",
            )
        if origin.branch and (other := self._other_worktree_with(f"refs/heads/{origin.branch}")):
            raise UserError(
                f"The original branch `{origin.branch}` is checked out in another worktree: "
                f"{other}",
                state="Nothing was changed.",
                hint=f"git -C {other} checkout --detach",
            )
        return backup

    def restore_attempt(self, attempt_ref: str) -> str:
        """The files of a saved attempt into the working tree, as uncommitted edits."""
        git = self.git
        commit = git.resolve(attempt_ref)
        if not commit:
            raise UserError(
                f"There is no such attempt: {attempt_ref.removeprefix('refs/ralph/attempts/')}",
                hint=f"untildone attempts {self._change}",
            )
        change = self._state_change()
        found = change.store("attempt", git.resolve("HEAD"))
        made = git.diff_trees(f"{commit}^1", commit)
        index = self.folder / "attempt.index"
        tree = overlay(git, git.tree_of(found.commit), made, index, with_deletions=True)
        index.unlink()
        label = attempt_ref.removeprefix(f"refs/ralph/attempts/{self._change}/")
        kept, runs = kept_of(self.folder.parent, label, git.message(commit)), self.folder.parent
        replaced = self.folder / "beside" / self._stamp()
        was, will = plan_give_back(self._place.top, kept, replaced, runs)
        disk_blobs = self.snapshots.unconverted.with_attempt(commit, found.commit, made)
        files = self.store_after("attempt", tree, found.commit, disk_blobs)
        here = head_ref(self._place)
        before = RepoState(here, {}, found.commit, found.index, was)
        after = RepoState(here, {}, files, found.index, will)
        operation = self._operation("attempt --restore", before, after)
        self._carry_out(Begun(operation), change, found)
        return found.ref

    def finish(self, begun: Begun, told: Told) -> str:
        """Carry out what a killed command has begun; says where the files as found are stored."""
        operation, change = begun.operation, self._state_change()
        if moved := change.moved_by_others(operation):
            self._log.drop()
            raise UserError(
                f"The {operation.name} of `{self._change}` was cut short and cannot be finished, "
                f"this has changed since: {', '.join(moved)}",
                state=f"The files before it are stored as commit {operation.before.files[:12]}.",
                hint="Look at `git status`; the next command takes all as it is.",
            )
        found = change.store(operation.name.partition(" ")[0], self.git.resolve("HEAD"))
        change.check_out(found.commit, operation.after.files)
        change.move(operation)
        told(begun)
        self._log.end(begun)
        self.git.store.let_go(self.git.do)
        return found.ref

    def _carry_out(
        self, begun: Begun, change: StateChange, found: Stored, told: Told = _untold
    ) -> None:
        """If this is cut short, the next command finishes it."""
        self._log.begin(begun)
        try:
            change.check_out(found.commit, begun.operation.after.files)
        except Interrupted:
            raise
        except StepError:  # git refuses before it touches a file
            self._log.drop()
            raise
        change.move(begun.operation)
        told(begun)
        self._log.end(begun)
        self.git.store.let_go(self.git.do)

    def _state_change(self) -> StateChange:
        guard = self.snapshots.new_files.guard
        return StateChange(self.git, self._place, self.folder, self._change, self._stamp, guard)

    # -----------------------------------------------------------------------------------------

    def _on_branch(self) -> bool:
        return head_of(self._place.git_dir)[0] == self._branch

    def _other_worktree_with(self, ref: str) -> str:
        """The other worktree that has this branch checked out."""
        found = self.git.refs(ref).get(ref)
        top = found.worktree if found else ""
        return top if is_elsewhere(self.git, self._place, top) else ""

    def _check_origin(self, origin: Origin) -> None:
        state = f"Nothing was changed and `{self._branch}` is kept."
        if not self._on_branch():
            raise CloseRefused(
                f"The worktree is not on `{self._branch}` any more",
                state=state,
                hint=f"git checkout {self._branch} && untildone finish {self._change} cleanup",
            )
        if not origin.branch:
            return
        name = f"refs/heads/{origin.branch}"
        if not self.git.resolve(name):
            raise CloseRefused(
                f"The original branch is gone: {origin.branch}",
                state=state,
                hint=f"git branch {origin.branch} {origin.commit[:12]}",
            )
        if elsewhere := self._other_worktree_with(name):
            raise CloseRefused(
                f"The original branch `{origin.branch}` is checked out in another worktree: "
                f"{elsewhere}",
                state=state,
                hint=f"Leave it there, or use `untildone finish {self._change} keep`",
            )

    def _merge(self, now: str, work: str, tree: str) -> str:
        merged, conflicts = self.git.merged_tree(now, work)
        state = f"Nothing was changed and `{self._branch}` is kept."
        hint = f"`git merge {self._branch}` by hand, or `untildone finish {self._change} keep`"
        if conflicts:
            files = ", ".join(dict.fromkeys(conflicts))
            raise CloseRefused(
                f"The original branch has moved and conflicts in: {files}", state=state, hint=hint
            )
        hidden = self.snapshots.obstacles.overwritten_by(tree, merged)
        if hidden:
            raise CloseRefused(
                f"The moved original branch would overwrite ignored files: {', '.join(hidden)}",
                state=state,
                hint=f"Move them away, then `untildone finish {self._change} cleanup`",
            )
        rewritten = (change.path for change in self.git.diff_trees(tree, merged))
        with modes_kept(self._place.top, rewritten):
            answer = self.git.checkout_tree(merged) if merged != tree else None
        if answer and not answer.ok:
            said = answer.stderr.decode(errors="replace").strip()
            raise CloseRefused(
                f"The files of the moved original branch do not fit in: {said}",
                state=state,
                hint=hint,
            )
        write_skipped_files(self.git, self._place.top, self.folder)
        return merged

    def _finish_cleanup(self, origin: Origin) -> tuple[str, ...]:
        marker, notes = json.loads(read_text(self._marker)), list[str]()
        if marker["moved"]:
            notes += self._stage_again()
        else:
            self._install_users_index(origin.commit)
        if self.git.resolve(self._ref):
            updates: list[RefUpdate] = [(self._ref, "", marker["tip"])]
            self.git.update_refs(updates, f"untildone: cleanup {self._change}")
        self._marker.replace(self._done)
        return (*_where_stored(marker), *notes)

    def _head_to(self, origin: Origin, why: str) -> None:
        if origin.branch:
            self.git.point_head(origin.branch, why)
        else:
            self.git.detach_head(origin.commit, why)

    def _install_users_index(self, fallback: str) -> None:
        """The index of before the run in its place, or else an index of the fallback."""
        saved = self.folder / USERS_INDEX
        if not saved.is_file():
            reset_index(self.git, fallback)
            return
        # Files that were only announced (`git add -N`) stand for an empty blob that no tree
        # holds: a `git gc` may have removed it.
        self.git.do("hash-object", "-w", "--stdin")
        install_index(self._place, saved)

    def _stage_again(self) -> Iterator[str]:
        """What the user had staged, on top of the moved branch; what does not fit is named."""
        git, staged = self.git, f"refs/ralph/backup/{self._change}/{self._run_id}^2"
        some = git.resolve(staged) and git.tree_of(staged) != git.tree_of(f"{staged}^1")
        merged, conflicts = git.merged_tree("HEAD", staged) if some else ("HEAD", ())
        reset_index(git, "HEAD" if conflicts else merged)
        restore_index_flags(git, self.folder / USERS_INDEX)
        if conflicts:
            files = ", ".join(dict.fromkeys(conflicts))
            yield f"The moved original branch changed what you had staged: {files}"
            yield f"It is not staged again, the index before the run is stored as: {staged}"

    def _operation(
        self, name: str, before: RepoState, after: RepoState, facts: int = -1
    ) -> Operation:
        return Operation(name, self._change, self._run_id, before, after, facts)

    def _note(self, name: str, before: RepoState, after: RepoState) -> None:
        self._log.add(self._operation(name, before, after))

    def work_at(self, tip: str) -> tuple[str, str, bool]:
        """The files as a commit on the tip, their tree, and whether others are staged.

        The commit is the tip itself if it has all there is.
        """
        snapshot = self.snapshots.take(tip)
        staged = self.snapshots.staged.commits(tip, snapshot.tree)
        commit = tip
        if snapshot.changes or staged:
            message = f"work at cleanup\n\nUntildone-Run: {self._run_id}\n"
            commit = self.git.commit_tree(snapshot.tree, [tip, *staged], message)
        self.snapshots.unconverted.keep(commit, snapshot.disk_blobs)
        return commit, snapshot.tree, bool(staged)

    def store_after(
        self, what: str, tree: str, before: str, disk_blobs: DiskBlobs | None = None
    ) -> str:
        """The files after an operation as a commit under a ref: without them there is no undo."""
        message = f"after {what}\n\nUntildone-Run: {self._run_id}\n"
        commit = self.git.commit_tree(tree, [before], message)
        self.snapshots.unconverted.keep(commit, disk_blobs or None)
        ref = f"refs/ralph/archive/{self._change}/{self._stamp()}-after-{what}"
        self.git.update_refs([(ref, commit, None)], f"untildone: store after {what}")
        return commit


def _where_stored(marker: dict[str, str]) -> tuple[str, ...]:
    return (f"The run's commits are stored as: {marker['archive']}",)
