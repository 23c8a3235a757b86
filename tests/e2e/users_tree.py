"""What the user sees of their own worktree, down to times and raw bytes of git's files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.e2e.bench import Bench
    from tests.e2e.command import Live, Result

VARIANT = ("--checkpoint", "worktree")
GIT_FILES = ("HEAD", "index", "config", "logs/HEAD", "logs/refs/stash")
OURS = ("refs/ralph/", "refs/heads/ralph/")


def linked(bench: Bench, change: str = "demo") -> Path:
    """Where the worktree of a run is."""
    return bench.root / f"repo-ralph-{change}"


def begin(bench: Bench, *more: str, **options: Any) -> Live:
    """A run of the variant in the background."""
    return bench.begin(*VARIANT, *more, **options)


def loop(bench: Bench, *more: str, **options: Any) -> Result:
    """A run of the variant to its end."""
    return bench.loop(*VARIANT, *more, **options)


def finish(bench: Bench, choice: str = "cleanup", change: str = "demo") -> Result:
    """The completion choice, given in the user's worktree."""
    return bench.run("finish", change, choice)


def users_own(bench: Bench, top: Path | None = None) -> dict[str, Any]:
    """Everything of the user's: files with times, index, HEAD, settings, refs; read, not asked."""
    top = top or bench.repo
    git_dir = top / ".git"
    if git_dir.is_file():
        git_dir = Path(git_dir.read_text().strip().removeprefix("gitdir: "))
    raw = {name: _bytes(git_dir / name) for name in GIT_FILES}
    refs = {name: at for name, at in bench.refs().items() if not name.startswith(OURS)}
    return {"files": files_with_times(top), "git": raw, "refs": refs}


def files_with_times(top: Path) -> dict[str, tuple[object, ...]]:
    """Every file and folder but `.git` with mode, time and content."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, names, files in os.walk(top):
        names[:] = [name for name in names if name != ".git"]
        for name in (*names, *files):
            path = Path(folder) / name
            stat = path.lstat()
            content: object = None
            if path.is_symlink():
                content = path.readlink()
            elif path.is_file():
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            key = str(path.relative_to(top))
            found[key] = (stat.st_mode, stat.st_mtime_ns, content)
    found.pop(".git", None)
    return found


def put_away(bench: Bench) -> list[Path]:
    """Worktrees of ended runs, put away in the user's git folder."""
    return sorted((bench.repo / ".git" / "untildone").glob("runs/*/worktree"))


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
