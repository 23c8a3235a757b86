"""A real repository for a test: one base commit, git on the command line, our git adapter."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.template_folder import copy_of
from untildone.adapters.checkpoints.branch import BranchCheckpoint
from untildone.adapters.checkpoints.finish import Closing
from untildone.adapters.git.git import Git
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import discover, exclude_own_files
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.records.run_folder import RunFolder
from untildone.domain.run.fact import Opened
from untildone.domain.run.run import Origin


def shell_git(folder: Path, *args: str, stdin: str = "", index: Path | None = None) -> str:
    """Git as a person types it, or with an index of its own."""
    environment = os.environ | ({"GIT_INDEX_FILE": str(index)} if index else {})
    done = subprocess.run(
        ["git", *args],
        cwd=folder,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.removesuffix("\n")


@dataclass
class Worktree:
    """A repository on `feature/x` with `a.txt`, and the run `r1` of the change `demo` in it."""

    top: Path
    processes: Processes
    place: Place

    def sh(self, *args: str, stdin: str = "") -> str:
        """A git command at the top."""
        return shell_git(self.top, *args, stdin=stdin)

    def write(self, name: str, text: str = "") -> Path:
        """A file with its folders."""
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def files(self) -> dict[str, str]:
        """All files but git's."""
        return {
            str(path.relative_to(self.top)): path.read_text()
            for path in sorted(self.top.rglob("*"))
            if path.is_file() and ".git" not in path.relative_to(self.top).parts
        }

    def git(self, interrupted: Callable[[], bool] = lambda: False) -> Git:
        """Our adapter."""
        git = Git(self.processes, self.top, interrupted)
        git.use_common_dir(self.place.common_dir)
        return git

    @property
    def folder(self) -> RunFolder:
        """The run's folder."""
        return RunFolder(self.place.git_dir / "untildone", "r1")

    @property
    def origin(self) -> Origin:
        """Where HEAD is."""
        return Origin(self.sh("branch", "--show-current"), self.sh("rev-parse", "HEAD"))

    def closing(self) -> Closing:
        """The end of the run; every stamp is a new one."""
        stamps = iter(f"T{n}" for n in range(1, 100))
        return Closing(self.git(), self.place, "demo", "r1", lambda: next(stamps))

    def checkpoint(self) -> BranchCheckpoint:
        """A checkpoint as a new process makes it."""
        git = self.git()
        stamps = iter(f"C{n}" for n in range(1, 100))
        closing = Closing(git, self.place, "demo", "r1", lambda: next(stamps))
        return BranchCheckpoint(git, self.place, "demo", closing)

    def open(self) -> tuple[BranchCheckpoint, Opened]:
        """The workspace of the run."""
        self.folder.make()
        exclude_own_files(self.place)
        checkpoint = self.checkpoint()
        return checkpoint, checkpoint.open(self.origin, "T0")

    def attempt(self, name: str) -> dict[str, str]:
        """The files of a stored attempt."""
        return self.tree(f"refs/ralph/attempts/demo/{name}")

    def tree(self, commit: str) -> dict[str, str]:
        """The files of a commit."""
        names = self.sh("ls-tree", "-r", "-z", "--name-only", commit).split("\0")
        return {name: self.sh("show", f"{commit}:{name}") for name in names if name}

    def aside(self) -> list[str]:
        """The texts of the files that were moved aside."""
        folder = self.folder.path / "aside"
        return [path.read_text() for path in folder.glob("*") if path.is_file()]


def made(folder: Path) -> Worktree:
    """A new repository in a folder."""
    top = folder / "repo"
    folder.mkdir(parents=True, exist_ok=True)
    copy_of(_fill, top)
    shell_git(top, "update-index", "-q", "--refresh")
    processes = Processes(WakePipe().fd)
    return Worktree(top, processes, discover(processes, top))


def _fill(top: Path) -> None:
    shell_git(top, "init", "-q", "-b", "feature/x")
    (top / "a.txt").write_text("a\n")
    shell_git(top, "add", "-A")
    shell_git(top, "commit", "-q", "-m", "base")
