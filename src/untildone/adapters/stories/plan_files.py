"""The files that stories stand in, as bytes: for edits that outlive an attempt."""

import contextlib
import stat
from collections.abc import Iterable
from pathlib import Path

from untildone.adapters.stories.story_file import StoryFile


class PlanFiles:
    """The files of a worktree whose top folder is `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Those that are ordinary files; a plan may also be a folder, or be kept elsewhere."""
        found = {}
        for name in sorted(paths):
            path = self._root / name
            with contextlib.suppress(OSError):
                if stat.S_ISREG(path.stat().st_mode):
                    found[name] = path.read_bytes()
        return found

    def write(self, path: str, data: bytes | None) -> None:
        """Replace the file, make it, or remove it."""
        target = self._root / path
        if data is None:
            target.unlink(missing_ok=True)
            return
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
        StoryFile(self._root, path, "").write(data)
