"""A copy of a worktree that is thrown away: what an agent does there reaches nobody's files.

It has the files as they are now, the user's edits too, and a git folder that borrows the history.
What is changed in it is found with a git folder that the agent does not know.
"""

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from untildone.adapters.checkpoints.guard import Guard
from untildone.adapters.checks.clean_checkout import NAMES, note_folder, remove_noted
from untildone.adapters.git.git import Git, paths_in
from untildone.adapters.git.index import untracked_files
from untildone.adapters.git.place import Place
from untildone.adapters.process.process import Captured, Processes
from untildone.adapters.slots import clone
from untildone.domain.errors import UserError

# Nobody reads larger files to plan.
LARGEST = 5 * 1024 * 1024
BRANCH = "refs/heads/draft"


class Throwaway:
    """The copy; `folder` is ours and private, its note there is for who comes after a kill."""

    def __init__(
        self,
        users: Git,
        place: Place,
        processes: Processes,
        folder: Path,
        interrupted: Callable[[], bool],
    ) -> None:
        self._users, self._user = users, place
        self._processes, self._interrupted = processes, interrupted
        self._note = folder / "copy"
        self._measure = folder / "measure.git"
        self._tree = ""
        self.place = place

    def make(self, also: Iterable[str] = ()) -> None:
        """Copy what git knows or would take in; and `also` these paths, whatever git thinks."""
        remove_noted(self._note)
        try:
            # Noted before it is made, so that a kill leaves nothing that nobody knows.
            base = Path(tempfile.gettempdir()) / f"{NAMES[1]}{secrets.token_hex(4)}"
            note_folder(self._note, base)
            base.mkdir(mode=0o700)
            top = base / (self._user.top.name or "project")
            top.mkdir()
            self._copy_files(top, also)
        except OSError as error:
            self.remove()
            raise UserError(
                f"A copy of the project cannot be made: {error}",
                state="Nothing was changed.",
                hint="Look at `df .` and at TMPDIR, make room, then try again.",
            ) from error
        self.place = Place(top, base / "git", base / "git")
        self._make_git_folder()
        self._tree = self._now()

    def _copy_files(self, top: Path, also: Iterable[str]) -> None:
        known = set(paths_in(self._users.do("ls-files", "-z", "--cached")))
        guard = Guard(LARGEST)
        new = untracked_files(self._users)
        flagged = {flag.path for flag in guard.check_all(self._user.top, new)}
        wanted = {*known, *new, *_below(self._user.top, also)} - flagged
        for path in sorted(wanted):
            _copy(self._user.top / path, top / path)

    def _make_git_folder(self) -> None:
        head = self._users.resolve("HEAD")
        settings = clone.UsersSettings(self._users)
        if head:
            clone.make(settings, self._user, self.place, BRANCH, head)
            self.git().ask("read-tree", "HEAD")
        else:
            words = ("init", "-q", "--template=", f"--separate-git-dir={self.place.git_dir}")
            Git(self._processes, self.place.top).do(*words, str(self.place.top))
        Git(self._processes, self._note.parent).do(
            "init", "-q", "--template=", "--bare", str(self._measure)
        )
        borrowed = self._measure / "objects" / "info" / "alternates"
        borrowed.parent.mkdir(exist_ok=True)
        borrowed.write_bytes(os.fsencode(self._user.common_dir / "objects") + b"\n")

    def git(self) -> Git:
        """Git as the agent sees it."""
        git = Git(self._processes, self.place.top, self._interrupted)
        git.use_common_dir(self.place.common_dir)
        git.use_git_dir(self.place.git_dir)
        return git

    def changed(self) -> tuple[str, ...]:
        """The paths that differ from the copy as it was made, but for what git ignores."""
        now = self._now()
        words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", self._tree, now)
        return paths_in(self._ask(*words).stdout) if now != self._tree else ()

    def put_back(self, paths: Iterable[str]) -> None:
        """These files as they were when the copy was made."""
        for path in paths:
            target = self.place.top / path
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target, ignore_errors=True)
            else:
                target.unlink(missing_ok=True)
            self._ask("checkout", "-q", "-f", self._tree, "--", f":(top,literal){path}")

    def remove(self) -> None:
        """Nothing of it stays."""
        remove_noted(self._note)
        shutil.rmtree(self._measure, ignore_errors=True)

    def _now(self) -> str:
        self._ask("add", "-A", "--ignore-errors")
        return self._ask("write-tree").stdout.decode().strip()

    def _ask(self, *words: str) -> Captured:
        here = {"GIT_DIR": str(self._measure), "GIT_WORK_TREE": str(self.place.top)}
        git = Git(self._processes, self.place.top, self._interrupted)
        git.use_common_dir(self._measure)
        return git.ask(*words, env=here)


def _below(top: Path, paths: Iterable[str]) -> list[str]:
    """The files at these paths and in folders that they name."""
    found = []
    for path in paths:
        if (top / path).is_dir():
            files = (file for file in (top / path).rglob("*") if not file.is_dir())
            found += [file.relative_to(top).as_posix() for file in files]
        elif (top / path).is_file():
            found.append(path)
    return found


def _copy(source: Path, target: Path) -> None:
    """An ordinary file or a link; what is gone, special or large is left out."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        found = source.lstat()
        kept = stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST
        if kept or stat.S_ISLNK(found.st_mode):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
