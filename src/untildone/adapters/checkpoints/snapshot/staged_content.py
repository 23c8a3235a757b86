"""What was staged when a snapshot took the index's place: its bytes may be nowhere else."""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from untildone.adapters.git.git import Git, git_failed
from untildone.adapters.git.index import drop_from_index, link_or_copy
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import install_index

SUBJECT = "staged when it was stored"
# What the machine says, not the index: the same git command may succeed a moment later.
MACHINE = tuple(
    os.strerror(number).encode()
    for number in (
        *(errno.EEXIST, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO),
        *(errno.EACCES, errno.ENOMEM, errno.EMFILE, errno.ENFILE),
    )
)

Ignored = Callable[[str, list[str]], Iterable[str]]


def _none_ignored(base: str, paths: list[str]) -> Iterable[str]:
    del base, paths
    return ()


class ReplacedIndexes:
    """Indexes that were not ours, kept as files until what they hold is behind a ref."""

    def __init__(self, git: Git, folder: Path) -> None:
        self._git = git
        self._folder = folder
        self._noted: list[Path] = []

    def keep(self, index: Path) -> None:
        """Keep an index that is about to be replaced; this costs no git process."""
        k = 0
        while os.path.lexists(target := self._folder / f"index.found.{k}"):
            k += 1
        with contextlib.suppress(FileNotFoundError):
            link_or_copy(index, target)
            self._noted.append(target)

    def commits(
        self, base: str, tree: str, beside: Iterable[str] = (), ignored: Ignored = _none_ignored
    ) -> tuple[str, ...]:
        """What was staged beyond the base and the stored files, as commits on the base.

        Files `beside` git stay out of it, unless another version of them was staged; new ones that
        are `ignored` do in any case.
        """
        trees = dict.fromkeys(self._tree(index, tuple(beside)) for index in self._found())
        if trees.keys() <= {"", tree}:
            return ()
        known = {"", tree, self._git.tree_of(base)}
        left = dict.fromkeys(
            self._without_ignored(base, t, ignored) for t in trees if t not in known
        )
        message = f"{SUBJECT}\n\nUntildone-Run: {self._folder.name}\n"
        return tuple(self._git.commit_tree(t, [base], message) for t in left if t not in known)

    def _without_ignored(self, base: str, tree: str, ignored: Ignored) -> str:
        new = [change.path for change in self._git.diff_trees(base, tree) if change.status == "A"]
        dropped = ignored(base, new) if new else ()
        if not dropped:
            return tree
        index = self._folder / "index.look"
        self._git.do("read-tree", tree, index=index)
        drop_from_index(self._git, dropped, index=index)
        left = self._git.write_tree(index=index)
        index.unlink()
        return left

    def copy_newest(self, name: str) -> str:
        """The newest of them under a name that stays, for whoever wants it back."""
        # A process that was killed may have noted it.
        shutil.copy2((self._noted or self._found())[-1], self._folder / name)
        return name

    def put_back(self, place: Place) -> None:
        """The index as it was before our snapshot, since nothing came of it."""
        if self._noted:
            install_index(place, self._noted[-1])

    def forget(self) -> None:
        """All of it is stored, or belongs to work that is done."""
        for index in {*self._noted, *self._folder.glob("index.found.*")}:
            index.unlink(missing_ok=True)
        self._noted = []

    def forget_noted(self) -> None:
        """The same for what this process has noted, which it knows without a look."""
        if self._noted:
            self.forget()

    def has_any(self) -> bool:
        """Whether some are left, be it of a process that was killed."""
        return bool(self._found())

    def _found(self) -> list[Path]:
        return sorted(self._folder.glob("index.found.*[0-9]"))

    def _tree(self, index: Path, beside: tuple[str, ...]) -> str:
        left_out = self._staged_as_on_disk(index, beside)
        return staged_tree(self._git, index, self._folder, left_out)

    def _staged_as_on_disk(self, index: Path, paths: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the paths that are staged with the very bytes of the file."""
        if not paths:
            return ()
        specs = (f":(top,literal){path}" for path in paths)
        rows = os.fsdecode(self._git.ask("ls-files", "-s", "-z", "--", *specs, index=index).stdout)
        parts = (row.partition("\t") for row in rows.split("\0") if row)
        blobs = {path: meta.split(" ")[1] for meta, _, path in parts}
        return tuple(path for path, blob in blobs.items() if self._blob(path) == blob)

    def _blob(self, path: str) -> str:
        return os.fsdecode(self._git.ask("hash-object", "--", path).stdout).strip()


def staged_tree(git: Git, index: Path, folder: Path, left_out: Iterable[str] = ()) -> str:
    """An index as a tree; empty if git cannot read it or its bytes are gone.

    Unmerged paths are left out: what they stand for comes from commits. A git that was killed, or
    that the machine had nothing for, says nothing about the index: that is a StepError.
    """
    copy = folder / "index.look"
    shutil.copy2(index, copy)
    unmerged = git.question("ls-files", "-u", "-z", index=copy)
    rows = os.fsdecode(unmerged.stdout).split("\0")
    dropped = {*left_out, *(row.partition("\t")[2] for row in rows if row)}
    if dropped:
        drop_from_index(git, sorted(dropped), index=copy)
    answer = git.question("write-tree", index=copy) if unmerged.ok else unmerged
    if not answer.ok and any(words in answer.stderr for words in MACHINE):
        raise git_failed(("write-tree",), answer)
    copy.unlink()
    return os.fsdecode(answer.stdout).strip() if answer.ok else ""
