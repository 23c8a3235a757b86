"""The worktree as a tree: what a snapshot is, and how a draft compares with its base."""

from msgspec import Struct

from untildone.adapters.checkpoints.guard import Flag
from untildone.adapters.checkpoints.snapshot.unconverted_bytes import DiskBlobs
from untildone.adapters.git.git import FOLDER, GITLINK, Change, Git


class Snapshot(Struct, frozen=True):
    """The worktree as a tree; `changes` against the base it was taken for.

    `disk_blobs` are bytes that git would not give back, to be kept with the commit of the tree.
    `added` are the paths that git has taken, where trees were not compared.
    """

    tree: str
    changes: tuple[Change, ...]
    nested: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    flagged: tuple[Flag, ...] = ()
    disk_blobs: DiskBlobs | None = None
    added: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Everything that is not as in the base."""
        return self.added or tuple(change.path for change in self.changes)

    @property
    def changed_tree(self) -> str:
        """The tree, or nothing if it is the base's own."""
        return self.tree if self.changes else ""


class DraftDiff:
    """A draft's index as a tree, compared with the base."""

    def __init__(self, draft: Git, base: str) -> None:
        self._draft = draft
        self.base = base
        self.refreshed = 0
        self._read()

    def refresh(self) -> None:
        """Read it again, after the index was changed."""
        self.refreshed += 1
        self._read()

    def _read(self) -> None:
        self.tree = self._draft.write_tree()
        rows = self._draft.diff_trees(self.base, self.tree, folders=True)
        self.changes = tuple(c for c in rows if FOLDER not in (c.old_mode, c.new_mode))
        self.objects = [self.tree]
        self.objects += [c.blob for c in rows if c.status != "D" and c.new_mode != GITLINK]


def is_new_link(change: Change) -> bool:
    """A repository inside this one, where there was none."""
    return change.new_mode == GITLINK and change.old_mode != GITLINK
