"""A repository with slots for tests, and agents that are lines of shell."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.adapters.worktree import Worktree, shell_git
from untildone.adapters.slots.slot import CLONE
from untildone.adapters.slots.slots import Prepared, Slots

MESSAGE = "checkpoint: {0}\n\nUntildone-Run: r1\nUntildone-Story: {0}\nUntildone-Attempt: 1\n"


@dataclass
class Lanes:
    """Slots of a repository, below `root`; the run `r1` of the change `demo`."""

    repo: Worktree
    root: Path
    kind: str = CLONE
    slots: Slots = field(init=False)

    def __post_init__(self) -> None:
        self.slots = self.anew()

    def anew(self) -> Slots:
        """As a new process has them."""
        return Slots(self.repo.processes, self.repo.git(), self.repo.place, self.root, self.kind)

    def restart(self) -> None:
        """A new process, after the old one has died."""
        for lane in range(4):
            self.slots.release(lane)
        self.slots = self.anew()

    @property
    def head(self) -> str:
        return self.repo.sh("rev-parse", "HEAD")

    def prepare(self, lane: int = 0, base: str = "") -> Prepared:
        return self.slots.prepare(lane, "demo", "r1", base or self.head)

    def attempt(self, prepared: Prepared, script: str, base: str = "") -> None:
        """What an agent does in the slot."""
        prepared.workspace.ensure_at(base or self.head, "1")
        shell(prepared.slot.top, script)

    def save(self, prepared: Prepared, story: str = "1", base: str = "") -> str:
        """The story's work as a commit, stored in the user's repository."""
        base = base or self.head
        prepared.workspace.commits(base)
        message = MESSAGE.format(story)
        return prepared.workspace.save(prepared.slot.lane, base, message, only_changes=False).commit

    def story(self, script: str, lane: int = 0, base: str = "", story: str = "1") -> str:
        """Prepare, work, save: the commit."""
        prepared = self.prepare(lane, base)
        self.attempt(prepared, script, base)
        return self.save(prepared, story, base)

    def file(self, commit: str, path: str) -> str:
        return self.repo.sh("show", f"{commit}:{path}")

    def refs(self, prefix: str = "refs/") -> dict[str, str]:
        rows = self.repo.sh("for-each-ref", "--format=%(refname) %(objectname)", prefix)
        return dict(row.split(" ") for row in rows.splitlines())


def shell(folder: Path, script: str) -> None:
    """An agent's commands; what fails in it fails the test."""
    subprocess.run(["sh", "-ec", script], cwd=folder, check=True, capture_output=True)


def files(top: Path) -> dict[str, bytes]:
    """All files of a folder but git's."""
    found = (path for path in sorted(top.rglob("*")) if ".git" not in path.relative_to(top).parts)
    return {str(path.relative_to(top)): path.read_bytes() for path in found if path.is_file()}


def everything(repo: Worktree) -> tuple[object, ...]:
    """What an agent in a slot must not reach: refs but ours, stash, settings, index and files."""
    refs = repo.sh("for-each-ref", "refs/heads", "refs/tags", "refs/stash", "refs/remotes")
    config = (repo.place.common_dir / "config").read_bytes()
    hooks = sorted(path.name for path in (repo.place.common_dir / "hooks").glob("*"))
    stash = repo.sh("stash", "list")
    return refs, config, hooks, stash, repo.sh("status", "--porcelain"), files(repo.top)


def is_sound(folder: Path) -> bool:
    """Whether git finds every object that the refs of a repository need."""
    shell_git(folder, "rev-list", "--objects", "--all", "--quiet")
    shell_git(folder, "fsck", "--full", "--no-dangling")
    return True
