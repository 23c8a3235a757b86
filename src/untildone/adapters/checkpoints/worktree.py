"""Checkpoints in a linked worktree of our own: the user's tree is touched by cleanup only."""

import os
import shutil
from pathlib import Path, PurePath

from untildone.adapters.checkpoints.branch import BranchCheckpoint
from untildone.adapters.checkpoints.finish import Closing
from untildone.adapters.checkpoints.snapshot.file_modes import modes_kept
from untildone.adapters.checkpoints.snapshot.skipped_files import write_skipped_files
from untildone.adapters.checkpoints.snapshot.snapshot import Snapshots
from untildone.adapters.checkpoints.snapshot.staged_content import staged_tree
from untildone.adapters.checkpoints.start import Opening
from untildone.adapters.git.git import Git, Ref, RefUpdate
from untildone.adapters.git.index import copy_index, fill_index
from untildone.adapters.git.object_files import content
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import (
    STATE_FILE,
    head_of,
    head_ref,
    home,
    missing_index_back,
)
from untildone.adapters.records.durable import replace_file
from untildone.adapters.records.operations import Operation, OperationLog, RepoState
from untildone.adapters.records.run_folder import USERS_INDEX
from untildone.domain.errors import CloseRefused
from untildone.domain.run.fact import Opened
from untildone.domain.run.run import Choice, Origin
from untildone.plain_files import read_text
from untildone.ports import Pending

REMOVED = "The folder of the run was removed during the attempt. Leave the folder where it is."


class WorktreeCheckpoint(BranchCheckpoint):
    """`ralph/CHANGE` is checked out beside the user's worktree; `users` is git in the latter."""

    def __init__(
        self, git: Git, place: Place, change: str, closing: Closing, users: Git, user: Place
    ) -> None:
        super().__init__(git, place, change, closing)
        self._pointer = content(place.top / ".git")
        self._removed = False
        self._users = users
        self._user = user
        self._outside.watch(user.git_dir)
        self._users_files = Snapshots.of_run(
            users, user, self._folder, closing.snapshots.new_files.guard
        )
        users.store = git.store  # whichever of them moves a ref looks after what both have stored
        self._opening = Opening(users, user, self._users_files, self._folder, change)

    def open(self, origin: Origin, stamp: str) -> Opened:
        """The user's files as they are, checked out in our worktree on `ralph/CHANGE`."""
        why = f"untildone: start {self._change}"
        stored = self._opening.store(origin, self._ref, stamp)
        self._git.use_excludes(self._folder / "excludes")
        initial = self._folder / "initial"
        replace_file(initial, [stored.opened.checkpoint.encode()], initial.with_suffix(".draft"))
        self._git.update_refs(stored.updates, why)
        self._git.do("read-tree", "--reset", "-u", stored.opened.checkpoint)
        write_skipped_files(self._git, self._place.top, self._folder)
        raw = self._snapshots.unconverted
        raw.put_back(stored.opened.checkpoint, raw.of(stored.opened.checkpoint), {})
        self._snapshots.modes.put_back()
        self._git.point_head(self._branch, why)  # last: it says that all files are there
        self._snapshots.opened(stored.opened.checkpoint)
        return stored.opened

    def adopt(self, checkpoint: str) -> tuple[str, tuple[str, ...]]:
        """As on a branch; a folder that is gone says nothing about the work."""
        self._put_folder_back()
        return super().adopt(checkpoint)

    def ensure_at(self, checkpoint: str, story_id: str) -> None:
        """As on a branch, in a folder that is there."""
        self._put_folder_back()
        self._removed = False
        super().ensure_at(checkpoint, story_id)

    def commits(self, checkpoint: str) -> tuple[str, ...]:
        """The agent's commits; git must find this very repository first, not one further up."""
        self._put_folder_back()
        return super().commits(checkpoint)

    def pending(self, checkpoint: str) -> Pending:
        """What a checkpoint would hold, also if a check has removed the folder."""
        self._put_folder_back()
        return super().pending(checkpoint)

    def _diverged(self, checkpoint: str, head: str, refs: dict[str, Ref]) -> str:
        return REMOVED if self._removed else super()._diverged(checkpoint, head, refs)

    def _put_settings_back(self) -> tuple[str, ...]:
        self._put_folder_back()
        said = (
            f"The folder of the run was removed; it was put back from `{self._branch}`, without "
            f"the ignored files that were in it: {self._place.top}"
        )
        return (*((said,) if self._removed else ()), *super()._put_settings_back())

    def _put_folder_back(self) -> None:
        pointer = self._place.top / ".git"
        if is_gone(self._place):
            self._removed = True
            put_back(self._git, self._place, self._folder)
        elif self._pointer and content(pointer) != self._pointer:
            if os.path.lexists(pointer):
                self._snapshots.obstacles.move_aside(pointer)
            pointer.write_bytes(self._pointer)

    def close(self, choice: Choice, origin: Origin) -> tuple[str, ...]:
        """Cleanup brings the work into the user's tree; keep leaves it where it is."""
        if choice is Choice.KEEP:
            super().close(choice, origin)
            return (f"The work is on `{self._branch}` in: {self._place.top}",)
        tip = self._git.resolve(self._ref)
        remarks: tuple[str, ...] = ()
        if tip:
            remarks = self._missing_index_back(origin)
            with self._closing.staged_kept_on_error():
                work, *_ = self._closing.work_at(tip)
                self._merge_into_users_tree(work, origin)
            self._archive_branch(tip, work)
        elif not self._git.resolve(self._archive):  # else a crash came after it was let go
            raise CloseRefused(
                f"The branch of the run is gone: {self._branch}",
                state="Nothing was changed.",
                hint=f"git reflog {self._branch}; git for-each-ref refs/ralph",
            )
        return (*remarks, f"The run's commits are stored as: {self._archive}")

    def discard(self) -> tuple[str, ...]:
        """Give the work up: stored, but not brought to the user's tree."""
        tip = self._git.resolve(self._ref)
        if tip:
            self._archive_branch(tip, self._closing.work_at(tip)[0])
        return (self._archive,)

    def _missing_index_back(self, origin: Origin) -> tuple[str, ...]:
        """If the user's index is gone: that of the start, or of the commits that came since."""
        kept = self._folder / USERS_INDEX
        missing = not (self._user.git_dir / "index").is_file()
        if missing and self._users.resolve("HEAD") != origin.commit:
            kept = self._folder / "index.head"
            fill_index(self._users.with_index(kept), "HEAD")
        return missing_index_back(self._user, kept)

    @property
    def _archive(self) -> str:
        return f"refs/ralph/archive/{self._change}/{self._run_id}"

    def _archive_branch(self, tip: str, work: str) -> None:
        """The branch becomes an archive."""
        why = f"untildone: end of {self._change}"
        self._git.detach_head(work, why)
        updates: list[RefUpdate] = [(self._archive, work, None), (self._ref, "", tip)]
        self._git.update_refs(updates, why)
        self._snapshots.staged.forget()

    def _merge_into_users_tree(self, work: str, origin: Origin) -> None:
        """Merge the work into the user's files as they are now, which are stored first.

        In memory first: on a conflict nothing is changed. The user's index stays as it is, and
        what a crash cut short is simply merged again.
        """
        git, state = self._users, f"Nothing was changed and `{self._branch}` is kept."
        if head_of(self._user.git_dir)[0] != origin.branch:
            raise CloseRefused(
                f"Your worktree is not on `{origin.branch or 'its first commit'}` any more",
                state=state,
                hint=f"git checkout {origin.label} && untildone finish {self._change} cleanup",
            )
        before = self._commit_users_files()
        merged, conflicts = git.merged_tree(before, work)
        blocked = conflicts or self._users_files.obstacles.overwritten_by(
            git.tree_of(before), merged
        )
        if blocked:
            raise CloseRefused(
                f"Your files have changed and conflict in: {', '.join(dict.fromkeys(blocked))}",
                state=state,
                hint=f"`git merge {self._branch}` by hand, or `untildone finish "
                f"{self._change} keep`",
            )
        ref = f"{self._archive}-before-{before[:12]}"
        git.update_refs([(ref, before, None)], "untildone: store before cleanup")
        self._note_cleanup(before, self._closing.store_after("cleanup", merged, before))
        index = self._folder / "index.home"
        rewritten = (change.path for change in git.diff_trees(before, merged))
        with modes_kept(self._user.top, rewritten):
            answer = git.checkout_tree(merged, index=index)
        if not answer.ok:
            said = answer.stderr.decode(errors="replace").strip()
            raise CloseRefused(f"Your files changed meanwhile: {said}", state=state)
        write_skipped_files(git, self._user.top, self._folder, index)
        self._write_unconverted(before, work, merged)
        index.unlink()

    def _write_unconverted(self, before: str, work: str, merged: str) -> None:
        """What the run wrote, byte for byte, where the user has not written anything else."""
        raw = self._users_files.unconverted
        first, users, made = (raw.of(c) for c in (self._initial, before, work))
        merged_otherwise = {change.path for change in self._git.diff_trees(work, merged)}
        ours = {
            path
            for path in {*first, *made}
            if made.get(path) != first.get(path) == users.get(path) and path not in merged_otherwise
        }
        wanted = {path: name for path, name in users.items() if path not in ours}
        wanted |= {path: made[path] for path in ours & made.keys()}
        raw.put_back(merged, wanted, users, self._folder / "index.home")

    def _note_cleanup(self, before: str, after: str) -> None:
        """In the user's own log: what cleanup does to the user's files, and to the branch."""
        index, head = "index.cleanup", head_ref(self._user)
        copy_index(self._users, self._user, self._user.git_dir / "index", self._folder / index)
        was = RepoState(head, {self._ref: self._git.resolve(self._ref)}, before, index)
        will = RepoState(head, {self._ref: ""}, after, index)
        log = OperationLog(home(self._user))
        log.home.mkdir(exist_ok=True)
        log.add(Operation("cleanup", self._change, self._run_id, was, will))

    def _commit_users_files(self) -> str:
        """The user's files as a commit on the state that the run began with."""
        git, index = self._users, self._folder / "index.home"
        # With its times: by them git knows which files changed in the second of their staging.
        shutil.copy2(self._user.git_dir / "index", index)
        initial, head = self._initial, git.tree_of("HEAD")
        staged = "" if content(index) == content(self._folder / USERS_INDEX) else self._staged()
        flagged = self._users_files.new_files.untracked(known=initial)
        tree, _, disk_blobs = self._users_files.add_users_files(index, head, flagged)
        trailer, parents = f"\n\nUntildone-Run: {self._run_id}\n", [initial]
        if staged not in ("", tree, head):
            # A commit without history: the merge must find no other base than the start.
            parents.append(git.commit_tree(staged, [], "staged before cleanup" + trailer))
        before = git.commit_tree(tree, parents, "files before cleanup" + trailer)
        self._users_files.unconverted.keep(before, disk_blobs)
        return before

    @property
    def _initial(self) -> str:
        """The first checkpoint: the user's files when the run began."""
        return read_text(self._folder / "initial")

    def _staged(self) -> str:
        return staged_tree(self._users, self._user.git_dir / "index", self._folder)


def is_gone(place: Place) -> bool:
    """Whether somebody removed the folder of a run with all its files, or put another thing there.

    The state file, which the loop itself writes, may have come since.
    """
    if place.top.is_symlink() or not place.top.is_dir():
        return True
    return {path.name for path in place.top.iterdir()} <= {PurePath(STATE_FILE).parts[0]}


def put_back(git: Git, place: Place, run_folder: Path) -> None:
    """Make the folder anew, with the files of the last commit; git's folder for it is elsewhere."""
    snapshots = Snapshots.of_run(git, place, run_folder)
    if place.top.is_symlink() or place.top.is_file():
        snapshots.obstacles.move_aside(place.top)
    place.top.mkdir(exist_ok=True)
    (place.top / ".git").write_bytes(b"gitdir: " + os.fsencode(place.git_dir) + b"\n")
    if not head_of(place.git_dir)[0]:
        return  # the start was cut short before it wrote any file
    snapshots.staged.keep(place.git_dir / "index")
    commit = git.resolve("HEAD")
    git.do("read-tree", "--reset", "-u", commit)
    write_skipped_files(git, place.top, run_folder)
    snapshots.unconverted.put_back(commit, snapshots.unconverted.of(commit), {})
