"""Worktrees that were made for a run: which one has a change's run, and what becomes of it."""

from collections.abc import Iterator
from pathlib import Path

from untildone.adapters.git import Place
from untildone.adapters.linked_worktree import make, note_user, retire, user_of
from untildone.domain.run import Choice, Origin, Run
from untildone.wiring.repository import Repository, at, here


def here_for(change: str) -> Repository:
    """The worktree around the current folder, or the one that was made for the change's run."""
    return holder(here(), change)


def holder(repo: Repository, change: str) -> Repository:
    """Whoever has the newest run of the change: this worktree, or one made for it."""
    return next((other for other in others(repo) if change and other.latest(change)), repo)


def others(repo: Repository) -> Iterator[Repository]:
    """The worktrees that were made for runs of this one."""
    for pointer in sorted((repo.place.common_dir / "worktrees").glob("*/gitdir")):
        top = Path(pointer.read_text().strip()).parent
        place = Place(top, pointer.parent, repo.place.common_dir)
        if user_of(place) == repo.place.top:
            yield at(place)


def move_out(repo: Repository, change: str, origin: Origin) -> Repository:
    """Make a worktree for a run and go there."""
    path = make(repo.git(repo.inbox.signalled), repo.place, change, origin.commit)
    linked = here(path)
    note_user(linked.place, repo.place)
    return linked


def user_place(linked: Place) -> Place | None:
    """The user's own worktree, if this one was made for it."""
    top = user_of(linked)
    return here(top).place if top else None


def put_away(repo: Repository, run: Run) -> str:
    """After cleanup: the worktree is of no use any more. Says where its files are now."""
    ended = run.abandoned or (run.closed and run.choice is Choice.CLEANUP)
    user = user_place(repo.place) if ended else None
    if user is None:
        return ""
    said = retire(repo.place, user, run.plan.run_id)
    if not at(user).alive():
        at(user).write_dead(run, repo.clock.now())
    return said
