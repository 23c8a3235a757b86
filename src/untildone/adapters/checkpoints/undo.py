"""Taking back an operation: refs, HEAD, index and files together, and the present state stored."""

from collections.abc import Iterable

from untildone.adapters.checkpoints.finish import Closing
from untildone.adapters.checkpoints.snapshot.unconverted_bytes import DiskBlobs
from untildone.adapters.checkpoints.snapshot.withheld_files import is_same_as, put_copy
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import head_ref
from untildone.adapters.records.operations import Operation, RepoState
from untildone.domain.errors import UserError


class Undoing:
    """Brings a repository back to where it stood before an operation; later edits are kept."""

    def __init__(self, closing: Closing, place: Place) -> None:
        self._closing = closing
        self._git = closing.git
        self._place = place
        self._runs = closing.folder.parent

    def plan(self, operation: Operation, facts: int) -> tuple[Operation, str]:
        """The undo as an operation of its own, and the tree to bring the files to."""
        self._check(operation)
        git, after, before = self._git, operation.after, operation.before
        index, also = self._closing.copy_index(), tuple(after.refs.values())
        with self._closing.index_kept_on_error(index):
            kept = self._closing.store_current("undo", git.resolve("HEAD"), also)
            tree = self._target(operation, git.tree_of(kept))
            now = RepoState(after.head, after.refs, git.resolve(kept), index, after.beside)
            files = self._closing.store_after("undo", tree, now.files)
        then = RepoState(before.head, before.refs, files, beside=before.beside)
        run = operation.change, operation.run_id
        return Operation("undo", *run, now, then, facts), tree

    def carry_out(self, operation: Operation, undo: Operation, tree: str) -> None:
        """Files first, then refs, HEAD and index; everything replaced is stored already."""
        git, then = self._git, operation.before
        now, index = undo.before.files, undo.before.index
        with self._closing.index_kept_on_error(index):
            self._closing.checkout_files(
                now, tree, index, self._disk_blobs_then(then.files, now, tree)
            )
        why = f"untildone: undo {operation.name} of {operation.change}"
        at = operation.after.refs
        updates = [(ref, old, at[ref]) for ref, old in then.refs.items() if at[ref] != old]
        if updates:
            git.update_refs(updates, why)
        if then.head.startswith("refs/heads/"):
            git.point_head(then.head.removeprefix("refs/heads/"), why)
        else:
            git.detach_head(then.head, why)
        self._closing.install_saved(then.index, "HEAD")
        for path, name in then.beside.items():
            if not is_same_as(self._place.top / path, self._runs, name):
                source = self._runs / name if name else None
                put_copy(self._place.top, path, source, self._closing.snapshots.obstacles)

    def _disk_blobs_then(self, then: str, now: str, tree: str) -> DiskBlobs:
        """As they were on disk then; where later edits are on top, as they are now."""
        git, raw = self._git, self._closing.snapshots.unconverted
        edited = {change.path for change in git.diff_trees(then, tree)}
        wanted = {path: name for path, name in raw.of(then).items() if path not in edited}
        merged = {change.path for change in git.diff_trees(now, tree)} if edited else set()
        here = raw.of(now).items() if edited else ()
        return wanted | {p: name for p, name in here if p in edited and p not in merged}

    def was_carried_out(self, operation: Operation) -> bool:
        """Whether a logged operation came about; a crash may have come first."""
        return self._moved(operation) == []

    def _check(self, operation: Operation) -> None:
        moved = self._moved(operation)
        if moved:
            raise UserError(
                f"This has changed since the {operation.name}: {', '.join(moved)}",
                state="Nothing was changed.",
                hint="`untildone undo --list` shows what every operation moved",
            )
        edited = [path for path in operation.after.beside if self._is_edited(path, operation)]
        if edited:
            raise _conflict(operation, edited)
        if not all(self._git.resolve(s.files) for s in (operation.before, operation.after)):
            raise UserError(
                f"A `git gc` has removed the files of the {operation.name} that undo compares with",
                state="Nothing was changed.",
                hint=f"git for-each-ref refs/ralph/archive/{operation.change}",
            )

    def _moved(self, operation: Operation) -> list[str]:
        after = operation.after
        moved = [ref for ref, to in after.refs.items() if self._git.resolve(ref) != to]
        return moved if head_ref(self._place) == after.head else [*moved, "HEAD"]

    def _target(self, operation: Operation, now: str) -> str:
        """The files before the operation, with whatever was edited since put on top."""
        git = self._git
        after, before = git.tree_of(operation.after.files), git.tree_of(operation.before.files)
        if now == after:
            return before
        base = git.commit_tree(after, [], "after\n")
        ours, theirs = (git.commit_tree(tree, [base], "side\n") for tree in (now, before))
        merged, conflicts = git.merged_tree(ours, theirs)
        if conflicts:
            raise _conflict(operation, conflicts)
        return merged

    def _is_edited(self, path: str, operation: Operation) -> bool:
        known = (stand.beside[path] for stand in (operation.before, operation.after))
        return not any(is_same_as(self._place.top / path, self._runs, name) for name in known)


def _conflict(operation: Operation, paths: Iterable[str]) -> UserError:
    return UserError(
        f"Edits made since the {operation.name} conflict in: {', '.join(dict.fromkeys(paths))}",
        state="Nothing was changed.",
        hint="Commit or undo your edits of these files, then try again.",
    )
