"""One change of HEAD, refs, index and files; if it is cut short, it can be carried out again."""

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePath

from msgspec import Struct

from untildone.adapters.checkpoints.guard import Guard
from untildone.adapters.checkpoints.snapshot.file_modes import (
    check_gone,
    modes_kept,
    unlock,
)
from untildone.adapters.checkpoints.snapshot.skipped_files import write_skipped_files
from untildone.adapters.checkpoints.snapshot.snapshot import Snapshots
from untildone.adapters.checkpoints.snapshot.withheld_files import put_beside
from untildone.adapters.git.git import Change, Git, RefUpdate, git_failed
from untildone.adapters.git.index import copy_index, fill_index
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import head_ref, install_index
from untildone.adapters.records.operations import Operation, RepoState
from untildone.domain.errors import StepError


class Stored(Struct, frozen=True):
    """Where all was before: the ref and the commit of the files, a copy of the index."""

    ref: str
    commit: str
    index: str


class StateChange:
    """Goes from the present state, which is stored first, to another one.

    It works with an index of its own: until the last moment the user's is as it was.
    """

    def __init__(
        self,
        git: Git,
        place: Place,
        folder: Path,
        change: str,
        stamp: Callable[[], str],
        guard: Guard,
    ) -> None:
        own = folder / "changing"
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir(parents=True)
        self.git = git.with_index(own / "index")
        self._index = own / "index"
        self._place = place
        self._folder = folder
        self._change = change
        self._stamp = stamp
        users = place.git_dir / "index"
        if users.exists():
            copy_index(self.git, place, users, self._index)
        else:
            fill_index(self.git, "HEAD")
        self._as_found = f"index.{stamp()}"
        shutil.copy2(self._index, folder / self._as_found)
        self.snapshots = Snapshots.of_run(self.git, place, folder, guard)
        self.snapshots.staged.keep(users)

    def store(self, what: str, head: str, also: Iterable[str] = ()) -> Stored:
        """All files as a commit under a ref, what is staged and further commits behind it."""
        snapshot = self.snapshots.take(head, with_hidden=True)
        staged = self.snapshots.staged.commits(head, snapshot.tree)
        message = f"before {what}\n\nUntildone-Run: {self._folder.name}\n"
        parents = dict.fromkeys((head, *staged, *filter(None, also)))
        commit = self.git.commit_tree(snapshot.tree, parents, message)
        self.snapshots.unconverted.keep(commit, snapshot.disk_blobs)
        ref = f"refs/ralph/archive/{self._change}/{self._stamp()}-{what}"
        self.git.update_refs([(ref, commit, None)], f"untildone: store before {what}")
        self.snapshots.staged.forget()
        return Stored(ref, commit, self._as_found)

    def move(self, operation: Operation) -> None:
        """Refs, HEAD and index; each is left alone where it is as it should be."""
        after, why = operation.after, f"untildone: {operation.name} {operation.change}"
        updates = self._updates(operation.before, after)
        if moves := [update for update in updates if update[1]]:
            self.git.update_refs(moves, why)
        self._head_to(after.head, why)
        self._install_index(after)
        # Last: a branch that HEAD is on must not go.
        if gone := [update for update in updates if not update[1]]:
            self.git.update_refs(gone, why)
        states = operation.before.beside, after.beside
        put_beside(self._place.top, self._folder.parent, *states, self.snapshots.obstacles)

    def moved_by_others(self, operation: Operation) -> list[str]:
        """Refs, or HEAD, that are neither where they were before nor where they should be."""
        before, after = operation.before, operation.after
        moved = [
            ref
            for ref, new in after.refs.items()
            if self.git.resolve(ref) not in (new, before.refs.get(ref))
        ]
        here = head_ref(self._place) in (before.head, after.head)
        return moved if here else [*moved, "HEAD"]

    def _updates(self, before: RepoState, after: RepoState) -> list[RefUpdate]:
        return [
            (ref, new, before.refs.get(ref, ""))
            for ref, new in after.refs.items()
            if self.git.resolve(ref) != new
        ]

    def _head_to(self, head: str, why: str) -> None:
        if head_ref(self._place) == head:
            return
        if head.startswith("refs/heads/"):
            self.git.point_head(head.removeprefix("refs/heads/"), why)
        else:
            self.git.detach_head(head, why)

    def _install_index(self, after: RepoState) -> None:
        """The index of that time, or else one of what was staged then, or of HEAD."""
        saved = self._folder / after.index
        if after.index and saved.is_file():
            # Files that were only announced (`git add -N`) stand for an empty blob that no tree
            # holds: a `git gc` may have removed it.
            self.git.do("hash-object", "-w", "--stdin")
        else:
            staged = self.git.resolve(f"{after.files}^2") if after.index else ""
            saved = self._index
            self.git.do("read-tree", "-m", staged or "HEAD")
        install_index(self._place, saved)

    def check_out(self, now: str, then: str) -> None:
        """Bring the files from a commit that is stored to another one, with its bytes on disk."""
        tree = self.git.tree_of(then)
        changes = self.git.diff_trees(now, tree)
        raw = self.snapshots.unconverted
        then_raw, now_raw = raw.of(then), raw.of(now)
        paths = {*(change.path for change in changes), *then_raw, *now_raw}
        with modes_kept(self._place.top, paths):
            self._check_out(now, tree, changes)
            raw.put_back(tree, then_raw, now_raw)
        self.snapshots.modes.put_back_start(paths)

    def _check_out(self, now: str, tree: str, changes: Sequence[Change]) -> None:
        git = self.git
        unlock(self._place.top, (change.path for change in changes))
        self.snapshots.move_unconverted(changes)
        for path in (
            *self.snapshots.obstacles.overwritten_by(now, tree),
            *self._leaving_repositories(now, tree),
        ):
            self.snapshots.obstacles.move_aside(self._place.top / path)
        answer = git.checkout_tree(tree)
        if not answer.ok:
            failed = git_failed(("read-tree",), answer)
            raise StepError(failed.message, state="What was there is stored under refs/ralph.")
        gone = (change.path for change in changes if change.status == "D")
        check_gone(self._place.top, gone, answer)
        write_skipped_files(git, self._place.top, self._folder)

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
