"""What taking back an operation leads to: the files before it, with later edits on top."""

from collections.abc import Iterable
from pathlib import Path

from untildone.adapters.checkpoints.snapshot.unconverted_bytes import DiskBlobs, UnconvertedBytes
from untildone.adapters.checkpoints.snapshot.withheld_files import is_same_as
from untildone.adapters.git.git import Git
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import head_ref
from untildone.adapters.records.operations import Operation
from untildone.domain.errors import UserError


class Undoing:
    """Looks whether an operation can be taken back, and finds the files that this leads to."""

    def __init__(self, git: Git, raw: UnconvertedBytes, place: Place, runs: Path) -> None:
        self._git = git
        self._raw = raw
        self._place = place
        self._runs = runs

    def target(self, operation: Operation, now: str) -> tuple[str, DiskBlobs]:
        """The tree to bring the files to, and their bytes on disk."""
        tree = self._target(operation, self._git.tree_of(now))
        return tree, self._disk_blobs_then(operation.before.files, now, tree)

    def _disk_blobs_then(self, then: str, now: str, tree: str) -> DiskBlobs:
        """As they were on disk then; where later edits are on top, as they are now."""
        git, raw = self._git, self._raw
        edited = {change.path for change in git.diff_trees(then, tree)}
        wanted = {path: name for path, name in raw.of(then).items() if path not in edited}
        merged = {change.path for change in git.diff_trees(now, tree)} if edited else set()
        here = raw.of(now).items() if edited else ()
        return wanted | {p: name for p, name in here if p in edited and p not in merged}

    def check(self, operation: Operation) -> None:
        """A UserError if something else came on top of it."""
        moved = moved_since(self._git, self._place, operation)
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


def moved_since(git: Git, place: Place, operation: Operation) -> list[str]:
    """What is not where a logged operation left it; a crash may have come before it."""
    after = operation.after
    moved = [ref for ref, to in after.refs.items() if git.resolve(ref) != to]
    return moved if head_ref(place) == after.head else [*moved, "HEAD"]


def _conflict(operation: Operation, paths: Iterable[str]) -> UserError:
    return UserError(
        f"Edits made since the {operation.name} conflict in: {', '.join(dict.fromkeys(paths))}",
        state="Nothing was changed.",
        hint="Commit or undo your edits of these files, then try again.",
    )
