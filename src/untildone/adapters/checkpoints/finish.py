"""The end of a run: cleanup, restore, and bringing back a saved attempt."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import PurePath

from untildone.adapters.checkpoints.guard.secrets_and_sizes import DEFAULT, Guard
from untildone.adapters.checkpoints.snapshot.readonly_folders import check_gone, unlock
from untildone.adapters.checkpoints.snapshot.skipped_files import (
    restore_index_flags,
    write_skipped_files,
)
from untildone.adapters.checkpoints.snapshot.snapshot import Snapshots
from untildone.adapters.checkpoints.snapshot.unconverted_bytes import DiskBlobs
from untildone.adapters.checkpoints.snapshot.withheld_files import (
    give_back,
    kept_of,
    plan_give_back,
)
from untildone.adapters.git.git import Git, RefUpdate, git_failed
from untildone.adapters.git.index import fill_index, overlay, reset_index
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import head_of, head_ref, home, install_index, is_here
from untildone.adapters.records.operations import Operation, OperationLog, RepoState
from untildone.adapters.records.run_folder import USERS_INDEX
from untildone.domain.errors import CloseRefused, StepError, UserError
from untildone.domain.run.run import Origin


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
                return _where_stored(json.loads(self._done.read_text()))
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
        self._marker.write_text(json.dumps({"archive": archive, "tip": tip, "moved": moved}))
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

    def restore(self, origin: Origin, backup_ref: str, *, branch: bool = True) -> tuple[str, ...]:
        """HEAD, index, files and branch exactly as before the run; returns where all is stored.

        A run without a `branch` of its own leaves an earlier `ralph/CHANGE` alone.
        """
        git, backup = self.git, self._backup(origin, backup_ref)
        index = self.copy_index()
        with self.index_kept_on_error(index):
            kept = [self.store_current("restore", git.resolve("HEAD"))]
        own = branch and not self._other_worktree_with(self._ref)
        before = {self._ref: git.resolve(self._ref)} if own else {}
        updates = self._original_branch_back(origin)
        kept += [ref for ref, _, old in updates if old is None]
        before |= {ref: old for ref, _, old in updates if old is not None}
        was = RepoState(head_ref(self._place), before, git.resolve(kept[0]), index)
        moved = {ref: new for ref, new, _ in updates if new}
        back = {ref: moved.get(ref, "") for ref in before}
        self._note("restore", was, RepoState(origin.head, back, backup, USERS_INDEX))
        wanted = self.snapshots.unconverted.of(backup)
        with self.index_kept_on_error(index):
            self.checkout_files(was.files, git.tree_of(backup), index, wanted)
        if updates:
            git.update_refs(updates, f"untildone: restore {self._change}")
        self._head_to(origin, f"untildone: restore {self._change}")
        self.install_saved(USERS_INDEX, git.resolve(f"{backup_ref}^2"))
        if tip := before.get(self._ref):
            ref = f"refs/ralph/archive/{self._change}/{self._stamp()}-branch"
            drop: list[RefUpdate] = [(ref, tip, None), (self._ref, "", tip)]
            git.update_refs(drop, f"untildone: restore {self._change}")
            kept.append(ref)
        return tuple(kept)

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

    def _original_branch_back(self, origin: Origin) -> list[RefUpdate]:
        """To the commit it was at; where it is now is stored."""
        if not origin.branch:
            return []
        name = f"refs/heads/{origin.branch}"
        now = self.git.resolve(name)
        back: RefUpdate = (name, origin.commit, now)
        if now in ("", origin.commit):
            return [back]
        return [
            (f"refs/ralph/archive/{self._change}/{self._stamp()}-{origin.branch}", now, None),
            back,
        ]

    def restore_attempt(self, attempt_ref: str) -> str:
        """The files of a saved attempt into the working tree, as uncommitted edits."""
        git = self.git
        commit = git.resolve(attempt_ref)
        if not commit:
            raise UserError(
                f"There is no such attempt: {attempt_ref.removeprefix('refs/ralph/attempts/')}",
                hint=f"untildone attempts {self._change}",
            )
        copy = self.copy_index()
        with self.index_kept_on_error(copy):
            stored = self.store_current("attempt", git.resolve("HEAD"))
            made = git.diff_trees(f"{commit}^1", commit)
            index = self.folder / "attempt.index"
            now = git.tree_of(stored)
            tree = overlay(git, now, made, index, with_deletions=True)
            index.unlink()
            here, files = head_ref(self._place), git.resolve(stored)
            label = attempt_ref.removeprefix(f"refs/ralph/attempts/{self._change}/")
            kept = kept_of(self.folder.parent, label, git.message(commit))
            replaced = self.folder / "beside" / self._stamp()
            was, will = plan_give_back(self._place.top, kept, replaced, self.folder.parent)
            after = RepoState(here, {}, self.store_after("attempt", tree, files), beside=will)
            self._note("attempt --restore", RepoState(here, {}, files, copy, was), after)
            self.checkout_files(
                files, tree, copy, self.snapshots.unconverted.with_attempt(commit, files, made)
            )
        install_index(self._place, self.folder / copy)
        give_back(self._place.top, kept, self.snapshots.obstacles, replaced)
        return stored

    # -----------------------------------------------------------------------------------------

    def _on_branch(self) -> bool:
        return head_of(self._place.git_dir)[0] == self._branch

    def _other_worktree_with(self, ref: str) -> str:
        """The other worktree that has this branch checked out."""
        found = self.git.refs(ref).get(ref)
        top = found.worktree if found else ""
        return "" if not top or is_here(self._place, top) else top

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
        marker, notes = json.loads(self._marker.read_text()), list[str]()
        if marker["moved"]:
            notes += self._stage_again()
        else:
            self.install_saved(USERS_INDEX, origin.commit)
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

    def install_saved(self, name: str, fallback: str) -> None:
        """A copy of an index from earlier in its place, or else an index of the fallback."""
        saved = self.folder / name
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

    @contextlib.contextmanager
    def index_kept_on_error(self, copy: str) -> Generator[None, None, None]:
        """On any error the index comes back from its copy: storing had filled it."""
        try:
            yield
        except BaseException:
            install_index(self._place, self.folder / copy)
            raise

    def copy_index(self) -> str:
        name = f"index.{self._stamp()}"
        if not (self._place.git_dir / "index").exists():
            fill_index(self.git, "HEAD")
        shutil.copy2(self._place.git_dir / "index", self.folder / name)
        return name

    def _note(self, name: str, before: RepoState, after: RepoState) -> None:
        self._log.add(Operation(name, self._change, self._run_id, before, after))

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

    def store_current(self, what: str, head: str, also: Iterable[str] = ()) -> str:
        """All files as a commit under a ref, and further commits that must not be lost with it."""
        snapshot = self.snapshots.take(head, with_hidden=True)
        staged = self.snapshots.staged.commits(head, snapshot.tree)
        message = f"before {what}\n\nUntildone-Run: {self._run_id}\n"
        parents = dict.fromkeys((head, *staged, *filter(None, also)))
        commit = self.git.commit_tree(snapshot.tree, parents, message)
        self.snapshots.unconverted.keep(commit, snapshot.disk_blobs)
        ref = f"refs/ralph/archive/{self._change}/{self._stamp()}-{what}"
        self.git.update_refs([(ref, commit, None)], f"untildone: store before {what}")
        self.snapshots.staged.forget()
        return ref

    def store_after(self, what: str, tree: str, before: str) -> str:
        """The files after an operation as a commit under a ref: without them there is no undo."""
        message = f"after {what}\n\nUntildone-Run: {self._run_id}\n"
        commit = self.git.commit_tree(tree, [before], message)
        ref = f"refs/ralph/archive/{self._change}/{self._stamp()}-after-{what}"
        self.git.update_refs([(ref, commit, None)], f"untildone: store after {what}")
        return commit

    def checkout_files(self, now: str, tree: str, index: str, wanted: DiskBlobs) -> None:
        """Bring files and index from a commit that is stored to a tree, with its bytes on disk.

        If that cannot be done, the copy of the index comes back.
        """
        changes = self.git.diff_trees(now, tree)
        unlock(self._place.top, (change.path for change in changes))
        self.snapshots.move_unconverted(changes)
        for path in (
            *self.snapshots.obstacles.overwritten_by(now, tree),
            *self._leaving_repositories(now, tree),
        ):
            self.snapshots.obstacles.move_aside(self._place.top / path)
        answer = self.git.checkout_tree(tree)
        if not answer.ok:
            install_index(self._place, self.folder / index)
            failed = git_failed(("read-tree",), answer)
            raise StepError(failed.message, state="What was there is stored under refs/ralph.")
        gone = (change.path for change in changes if change.status == "D")
        check_gone(self._place.top, gone, answer)
        write_skipped_files(self.git, self._place.top, self.folder)
        self.snapshots.unconverted.put_back(tree, wanted, self.snapshots.unconverted.of(now))

    def _leaving_repositories(self, now: str, tree: str) -> tuple[str, ...]:
        """Repositories inside this one of which nothing stays: git takes their files for ours."""
        gone = [change.path for change in self.git.diff_trees(now, tree) if change.status == "D"]
        above = {str(folder) for path in gone for folder in PurePath(path).parents} - {"."}
        found: list[str] = []
        for path in sorted(above):
            inner = any(path.startswith(f"{outer}/") for outer in found)
            if not inner and os.path.lexists(self._place.top / path / ".git"):
                stays = self.git.do("ls-tree", "-z", tree, "--", f"{path}/")
                found += [] if stays else [path]
        return tuple(found)


def _where_stored(marker: dict[str, str]) -> tuple[str, ...]:
    return (f"The run's commits are stored as: {marker['archive']}",)
