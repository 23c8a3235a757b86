"""A worker's own copy of a repository: bare, fetched into and never tidied up."""

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from untildone.adapters.git.git import Git
from untildone.adapters.git.place import Place
from untildone.adapters.git.push import RemoteBranches, UsersGit, shown_address
from untildone.adapters.git.repository import slug
from untildone.adapters.process.process import Captured, Processes
from untildone.adapters.records.lock import plan_lock
from untildone.domain.errors import StepError

FETCH_WAIT_S = 600.0
TRAILER = "%(trailers:key=Untildone-Story,valueonly,separator=%x00)"


class Mirror:
    """One repository as a worker has it; slots borrow its objects."""

    def __init__(
        self, root: Path, address: str, processes: Processes, interrupted: Callable[[], bool]
    ) -> None:
        self.address = address
        name = slug(address.rstrip("/").rpartition("/")[2].removesuffix(".git"), 30) or "repository"
        folder = root / "mirrors" / f"{zlib.crc32(address.encode()):08x}" / name
        self.place = Place(folder, folder, folder)
        self._lock = folder.parent / "lock"
        self._make(processes, interrupted)
        self.git = Git(processes, folder, interrupted)
        self.git.use_common_dir(folder)
        self.git.use_git_dir(folder)
        self.remote = UsersGit(processes, folder, interrupted)

    def _make(self, processes: Processes, interrupted: Callable[[], bool]) -> None:
        folder = self.place.top
        if (folder / "HEAD").exists():
            return
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._alone():
            if not (folder / "HEAD").exists():
                git = Git(processes, folder.parent, interrupted)
                git.do("init", "-q", "--bare", str(folder))
                git.do(f"--git-dir={folder}", "config", "gc.auto", "0")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Other workers of this host fetch into the same folder."""
        with plan_lock(self._lock, FETCH_WAIT_S):
            yield

    def branches(self, names: Sequence[str]) -> RemoteBranches:
        """Where these branches of the remote are now."""
        found = self.remote.branches(self.address, [name for name in names if name])
        if isinstance(found, Captured):
            raise self.refused("did not answer", found)
        return found

    def fetch(self, tips: dict[str, str]) -> None:
        """These branches, with all that they need."""
        missing = {n: c for n, c in tips.items() if self.git.resolve(f"refs/heads/{n}") != c}
        if not missing:
            return
        with self._alone():
            specs = [f"+refs/heads/{name}:refs/heads/{name}" for name in missing]
            answer = self.remote.fetch(self.address, specs)
            if not answer.ok:
                raise self.refused("could not be fetched from", answer)

    def stories_on(self, base: str, tip: str) -> dict[str, str]:
        """The stories whose commits are on a branch and not on its base, each with its commit."""
        out = self.git.do("log", "-z", f"--format=%H%x00{TRAILER}%x00", tip, f"^{base}")
        fields = os.fsdecode(out).split("\0")
        found: dict[str, str] = {}
        commit = ""
        for text in fields:
            if len(text) in (40, 64) and not text.strip("0123456789abcdef"):
                commit = text
            elif text.strip():
                found.setdefault(text.strip(), commit)
        return found

    def refused(self, what: str, answer: Captured) -> StepError:
        said = answer.stderr.decode(errors="replace").strip() or f"exit code {answer.exit_code}"
        return StepError(f"{shown_address(self.address)} {what}: {shown_address(said)}")
