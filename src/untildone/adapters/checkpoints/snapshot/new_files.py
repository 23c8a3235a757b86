"""New files that should stay out of git, found at the right moment and at a small price."""

import os
import shutil
import stat

from untildone.adapters.checkpoints.guard.git_filters import unfiltered
from untildone.adapters.checkpoints.guard.secrets_and_sizes import Flag, Guard, listed
from untildone.adapters.checkpoints.snapshot.ignored_at_start import Frozen
from untildone.adapters.checkpoints.snapshot.intent_to_add import new_files
from untildone.adapters.git.git import Change, Git
from untildone.adapters.git.index import untracked_files
from untildone.adapters.git.place import Place
from untildone.domain.errors import StepError


class Watch:
    """Looks with the guard's eyes at what git has found or is about to read."""

    def __init__(self, git: Git, place: Place, guard: Guard, frozen: Frozen) -> None:
        self._git = git
        self._top = place.top
        self.guard = guard
        self._frozen = frozen
        self._free_bytes: int | None = None

    def looked(self) -> int:
        """What is here now needs no look at its size: the bytes that the disk has left."""
        self._free_bytes = shutil.disk_usage(self._top).free
        return self._free_bytes

    def large(self, draft: Git) -> tuple[Flag, ...]:
        """New files over the limit, so that git need not read them.

        A listing costs a scan, so we list only when the disk has less room than at the last look,
        by so much that there may be such a file. One that comes in unseen is found by `flagged`.
        """
        before = self._free_bytes
        free = self.looked()
        if before is not None and before - free <= self.guard.limit:
            return ()
        try:
            new = untracked_files(draft)
        except StepError:  # a broken index is mended when files are added
            return ()
        loose = (path for path in new if not self._frozen.covers(path))
        return unfiltered(draft, self.guard.larger(self._top, loose))

    def is_ordinary(self, path: str) -> bool:
        """Whether a file or link is there, and nothing about it is for the guard to stop."""
        try:
            mode = os.lstat(self._top / path).st_mode
        except OSError:
            return False
        return stat.S_ISLNK(mode) or (
            stat.S_ISREG(mode) and self.guard.look(self._top, path) is None
        )

    def flagged(
        self, changes: tuple[Change, ...], large: tuple[Flag, ...]
    ) -> tuple[tuple[Flag, ...], list[str]]:
        """New files that stay out of git, and remarks. What an attempt committed is in git."""
        known = {flag.path for flag in large}
        added = (c.path for c in changes if c.status == "A" and c.new_mode.startswith("100"))
        seen = self.guard.look_at_all(self._top, (path for path in added if path not in known))
        found = unfiltered(self._git, seen)
        in_git = set(self._git.files_at("HEAD")) if found and self._git.resolve("HEAD") else set()
        flagged = (*large, *(flag for flag in found if flag.path not in in_git))
        committed = [flag for flag in found if flag.path in in_git]
        remarks = []
        if flagged:
            remarks.append(f"Left out of git: {listed(flagged)}")
        if committed:
            remarks.append(f"The agent itself has committed: {listed(committed)}")
        return flagged, remarks

    def untracked(self, known: str = "") -> tuple[Flag, ...]:
        """Untracked files of the user that should stay out; those of the commit `known` pass."""
        taken = set(self._git.files_at(known)) if known else set()
        new = (path for path in new_files(self._git, self._top) if path not in taken)
        return unfiltered(self._git, self.guard.look_at_all(self._top, new))
