"""A worktree of our own beside the user's: made for one run, put away after it."""

import errno
import os
import shutil
from pathlib import Path

from untildone.adapters.git import Git, Place
from untildone.adapters.repository import home, slug
from untildone.domain.errors import UserError

NOTE = "made_for"


def make(git: Git, place: Place, change: str, commit: str) -> Path:
    """A linked worktree without files beside the user's top folder; returns where it is."""
    path = place.top.parent / f"{place.top.name}-ralph-{slug(change) or 'run'}"
    if path.exists():
        raise UserError(
            f"The folder for the run exists already: {path}",
            state="Nothing was changed.",
            hint=f"`untildone doctor --fix` clears leftovers; else `git worktree remove {path}`",
        )
    git.do("worktree", "add", "-q", "--no-checkout", "--detach", str(path), commit)
    return path


def note_user(linked: Place, user: Place) -> None:
    """Write down in a worktree of ours whose it is."""
    home(linked).mkdir(exist_ok=True)
    (home(linked) / NOTE).write_bytes(os.fsencode(user.top))


def user_of(linked: Place) -> Path | None:
    """The user's own worktree that this one was made for; None for an ordinary worktree."""
    note = home(linked) / NOTE
    return Path(os.fsdecode(note.read_bytes())) if note.exists() else None


def retire(linked: Place, user: Place, run_id: str) -> str:
    """Put a finished worktree away: its runs to the user's own, its files beside them.

    Nothing is deleted but git's own notes about the worktree. Can be repeated after a crash.
    """
    runs = home(user) / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    for folder in sorted((home(linked) / "runs").glob("*")):
        if not (runs / folder.name).exists():
            folder.rename(runs / folder.name)
    kept = runs / run_id / "worktree"
    if linked.top.exists():
        try:
            linked.top.rename(kept)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            (linked.top / ".git").unlink(missing_ok=True)  # another disk: it stays, as plain files
            kept = linked.top
    shutil.rmtree(linked.git_dir)
    return f"The worktree of the run is put away, with ignored files and all, in: {kept}"
