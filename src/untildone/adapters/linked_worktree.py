"""A worktree of our own beside the user's: made for one run, put away after it."""

import errno
import os
from pathlib import Path

from untildone.adapters.git import Git
from untildone.adapters.git_door import Place
from untildone.adapters.repository import home, slug
from untildone.domain.errors import UserError

NOTE = "made_for"
LOCK_REASON = "untildone made it for: "


def make(git: Git, place: Place, change: str, commit: str) -> Path:
    """A linked worktree without files beside the user's top folder; returns where it is.

    It is locked with our reason: git's first note about it, so that a start that is cut short is
    known as ours, and `git worktree remove` cannot take the run's record along.
    """
    path = place.top.parent / f"{place.top.name}-ralph-{slug(change) or 'run'}"
    if os.path.lexists(path):
        raise UserError(
            f"The folder for the run exists already: {path}",
            state="Nothing was changed.",
            hint="`untildone status` says if another run is there; else move it away",
        )
    reason = f"{LOCK_REASON}{place.top}"
    where = ("--no-checkout", "--detach", "--lock", "--reason", reason, str(path), commit)
    answer = git.ask("worktree", "add", "-q", *where)
    if not answer.ok:
        raise UserError(
            f"The worktree for the run cannot be made: {answer.stderr.decode().strip()}",
            state="Nothing was changed.",
            hint="Mend that, or use `--checkpoint branch`, which needs no second folder.",
        )
    return path


def note_user(linked: Place, user: Place) -> None:
    """Write down in a worktree of ours whose it is."""
    home(linked).mkdir(exist_ok=True)
    (home(linked) / NOTE).write_bytes(os.fsencode(user.top))


def user_of(linked: Place) -> Path | None:
    """The user's own worktree that this one was made for; None for an ordinary worktree."""
    note, lock = home(linked) / NOTE, linked.git_dir / "locked"
    if note.exists():
        return Path(os.fsdecode(note.read_bytes()))
    reason = os.fsdecode(lock.read_bytes()).strip() if lock.exists() else ""
    return Path(reason.removeprefix(LOCK_REASON)) if reason.startswith(LOCK_REASON) else None


def retire(linked: Place, user: Place, run_id: str) -> str:
    """Put a worktree away: its files and git's notes about it beside its runs, at the user's own.

    Nothing is deleted. Each step leaves what the next call finds and goes on with.
    """
    own, runs = home(linked) / "runs", home(user) / "runs"
    for folder in (own / run_id, runs):
        folder.mkdir(parents=True, exist_ok=True)
    moved = _move_files(linked.top, own / run_id / "worktree")
    for folder in sorted(own.iterdir()):
        if not (runs / folder.name).exists():
            folder.rename(runs / folder.name)
    linked.git_dir.rename(runs / run_id / "worktree.git")
    kept = runs / run_id / "worktree" if moved else linked.top
    return f"The worktree of the run is put away, with ignored files and all, in: {kept}"


def _move_files(top: Path, kept: Path) -> bool:
    """The folder into ours, no worktree of git's any more; on another disk it stays in place."""
    moved = True
    if top.exists():
        try:
            top.rename(kept)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            moved = False
    ((kept if moved else top) / ".git").unlink(missing_ok=True)
    return moved
