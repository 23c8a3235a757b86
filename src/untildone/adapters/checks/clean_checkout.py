"""A fresh checkout beside the worktree, for checks that must not see what nobody commits."""

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from untildone.adapters.git.git import Git, git_failed
from untildone.adapters.git.place import Place
from untildone.adapters.process.process import Captured
from untildone.adapters.records.durable import replace_file
from untildone.domain.errors import StepError
from untildone.plain_files import read_bytes

NOTE = "clean-room"  # as earlier releases called it: theirs must be found, too
NAMES = ("untildone-room-", "untildone-draft-")  # how the folders begin that are noted


class CleanCheckout:
    """A folder with the files of one tree and a git folder of its own, which no worktree list has.

    Its path is noted before it is made, so that a later process can remove what a killed one left.
    """

    def __init__(self, git: Git, place: Place, run_folder: Path) -> None:
        self._git = git
        self._place = place
        self._note = run_folder / NOTE
        self._index = run_folder / "clean-room.index"  # which no check has touched
        self._name = f"{NAMES[0]}{run_folder.name}"
        self._folder = run_folder
        self._made: tuple[str, str, tuple[str, ...]] = ("", "", ())

    def make(self, tree: str, parent: str, as_in_parent: Sequence[str] = ()) -> str:
        """Check the tree out as a commit on `parent`, some files as in that; returns where."""
        self.remove()
        import tempfile  # noqa: PLC0415 - few runs need it

        folder = Path(tempfile.gettempdir()) / self._name
        own = folder / ".git"
        commit = self._git.commit_tree(tree, [parent], "what is checked\n")
        try:
            note_folder(self._note, folder)
            folder.mkdir(mode=0o700)
            own.mkdir()
            (own / "HEAD").write_text(f"{commit}\n")
            (own / "commondir").write_bytes(os.fsencode(self._place.common_dir) + b"\n")
        except OSError as error:
            raise StepError(f"The clean room cannot be made: {error}") from error
        self._folder, self._made = folder, (tree, parent, tuple(as_in_parent))
        self._do("read-tree", "--reset", "-u", tree)
        known = self._git.blobs_at(parent, as_in_parent) if as_in_parent else {}
        new = sorted(set(as_in_parent) - set(known))
        if new:
            self._do("rm", "-q", "-f", "--ignore-unmatch", "--", *new)
        if known:
            self._do("checkout", "-q", "-f", parent, "--", *known)
        shutil.copy2(folder / ".git/index", self._index)
        return str(folder)

    def put_back(self) -> None:
        """The files as they were checked out: what one check changes, the next one does not see."""
        if not self._ask("checkout-index", "-q", "-f", "-a", index=self._index).ok:
            self.make(*self._made)  # a check has harmed it

    def _ask(self, *words: str, index: Path | None = None) -> Captured:
        own = self._folder / ".git"
        here = {"GIT_DIR": str(own), "GIT_WORK_TREE": str(self._folder)}
        whole = ("--literal-pathspecs", "-c", "core.sparseCheckout=false")
        return self._git.ask(*whole, *words, index=index or own / "index", env=here)

    def _do(self, *words: str) -> None:
        if not (answer := self._ask(*words)).ok:
            raise git_failed(words, answer)

    def remove(self) -> None:
        remove_noted(self._note)


def note_folder(note: Path, folder: Path) -> None:
    """Note a folder before it is made; whoever reads the note reads all of it or none."""
    replace_file(note, [os.fsencode(folder)], note.with_name(f"{note.name}.draft"))


def remove_noted(note: Path) -> None:
    """Remove the checkout that is noted here; one that is not ours is left alone."""
    try:
        folder = Path(os.fsdecode(read_bytes(note)))
        found = folder.lstat()
    except OSError:
        note.unlink(missing_ok=True)
        return
    # Release 0.1.0 could be killed over the note. An empty one would be the folder we are in.
    named = folder.is_absolute() and folder.name.startswith(NAMES)
    if named and stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
        remove_folder(folder)
    note.unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, but never the one that this process is in."""
    with contextlib.suppress(FileNotFoundError):  # ours was removed under us
        here = Path.cwd()
        if not folder.is_absolute() or folder.resolve() in (here, *here.parents):
            raise StepError(f"This command is in the folder that would be removed: {folder}")
    shutil.rmtree(folder, onerror=_insist)


def _insist(again: Callable[[str], object], path: str, error: object) -> None:
    """Some tools make folders that cannot be written, and so not emptied."""
    del error
    with contextlib.suppress(OSError):
        for target in (os.path.dirname(path), path):  # noqa: PTH120 - text in, text out
            if not os.path.islink(target):  # noqa: PTH114 - as above
                os.chmod(target, 0o700)  # noqa: PTH101 - as above
        again(path)
