"""Worktrees that were made for a run: which one has a change's run, and what becomes of it."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from untildone.adapters.git.own_worktree import (
    bring_back,
    make,
    note_user,
    retire,
    retiring,
    user_of,
)
from untildone.adapters.git.place import Place
from untildone.adapters.records.run_folder import change_of, run_ids
from untildone.domain.errors import UserError
from untildone.domain.run.run import Choice, Origin, Run
from untildone.plain_files import read_bytes
from untildone.wiring.repository import Repository, at, here, no_run


def here_for(change: str) -> Repository:
    """The worktree around the current folder, or the one that was made for the change's run."""
    return worktree_running(here(), change)


def changes_with_runs(repo: Repository) -> dict[str, Repository]:
    """Every change that has a run, and where: in a worktree that was made for it, or here."""
    found: dict[str, Repository] = {}
    for place in (*others(repo), repo):
        for run_id in run_ids(place.home):
            found.setdefault(change_of(place.home, run_id), place)
    found.pop("", None)
    return found


def the_change(repo: Repository, *, only: bool = False) -> str:
    """The change that is meant when none is named: the only one with a run that can go on.

    With `only` no other change may have a run at all: what is done to it cannot be chosen twice.
    """
    runs = changes_with_runs(repo)
    if len(runs) == 1:
        return next(iter(runs))
    newest = ((name, place.latest(name)) for name, place in runs.items() if not only)
    going = [name for name, run in newest if run and run.resumable]
    if len(going) == 1:
        return going[0]
    if not runs:
        raise no_run(repo, "")
    names = sorted(going or runs)
    reports = ", ".join(f"`untildone report {name}`" for name in names)
    raise UserError(
        f"Which run is meant? Several changes have one: {', '.join(names)}",
        state="Nothing was changed.",
        hint=f"Name the change; how each run went: {reports}",
    )


def worktree_running(repo: Repository, change: str, *, tidy: bool = True) -> Repository:
    """The worktree that has the newest run of the change: this one, or one made for it.

    Without a change: the only one that was made, if this worktree has no open run of its own.
    One that is of no use any more is removed if `tidy`.
    """
    made = [other for other in others(repo) if _holds(other, change, repo.place if tidy else None)]
    own = repo.latest() if made and not change else None
    unclear = not change and (len(made) > 1 or (own and not has_ended(own)))
    found = repo if unclear or not made else made[0]
    if found is not repo:
        _put_folder_back(found, change, tidy=tidy)
    return found


def _put_folder_back(linked: Repository, change: str, *, tidy: bool) -> None:
    """The folder of a run that was deleted while no loop was there, or the loop with it."""
    from untildone.adapters.checkpoints.worktree import is_gone, put_back

    run = linked.latest(change)
    if run is None or linked.alive() or not is_gone(linked.place):
        return
    if not tidy:
        raise UserError(
            f"The worktree of the run was deleted: {linked.place.top}",
            state="Its finished stories are on its branch `ralph/…`. Your files were not touched.",
            hint=f"`untildone resume {run.plan.change_id}` puts it back and goes on",
        )
    put_back(linked.git(), linked.place, linked.folder(run.plan.run_id).path)


def _holds(other: Repository, change: str, user: Place | None) -> bool:
    """Whether a run is there; one that is of no use, where a death came first, goes to the user."""
    run, dead = other.latest(change), not other.alive()
    if run and dead and has_ended(run):
        if user:
            remove_worktree(other, run)
        return False
    if user and dead and not run and (run_id := retiring(other.place)):
        retire(other.place, user, run_id)
    return run is not None


def others(repo: Repository) -> Iterator[Repository]:
    """The worktrees that were made for runs of this one, also where the folder is gone."""
    for git_dir in sorted((repo.place.common_dir / "worktrees").glob("*/")):
        place = Place(top_of(git_dir), git_dir, repo.place.common_dir)
        if user_of(place) == repo.place.top:
            yield at(place)


def top_of(git_dir: Path) -> Path:
    """The top folder of a linked worktree, by its git folder."""
    pointer = git_dir / "gitdir"
    if not pointer.exists():
        return git_dir / "nowhere"  # git was killed while it made the worktree
    text = os.fsdecode(read_bytes(pointer)).strip()
    return Path(os.path.normpath(git_dir / text)).parent  # newer git may write relative paths


def refuse_ignored(repo: Repository, needed: Iterable[str]) -> None:
    """A file that the run reads must be in the new worktree, where ignored ones do not come."""
    for path in needed:
        inside = path and not Path(path).is_absolute()
        if inside and repo.git().ask("check-ignore", "-q", "--", path).ok:
            raise UserError(
                f"The run needs a file that git ignores, so its own worktree would lack it: {path}",
                state="Nothing was changed.",
                hint=f"`git add -f {path}`, or use `--checkpoint branch`",
            )


def move_out(repo: Repository, change: str, origin: Origin) -> Repository:
    """Make a worktree for a run and go there."""
    path = make(repo.git(repo.inbox.signalled), repo.place, change, origin.commit)
    linked = here(path)
    note_user(linked.place, repo.place)
    return linked


def lacks_worktree(repo: Repository, run: Run) -> bool:
    """Whether the end of a run was undone, so that its worktree, which was moved, is needed."""
    return run.plan.checkpoint == "worktree" and not has_ended(run) and not user_of(repo.place)


def brought_back(repo: Repository, run: Run) -> Repository:
    """The worktree of a run whose end was undone, where it was; else the one that it is in."""
    if not lacks_worktree(repo, run):
        return repo
    linked = bring_back(repo.place, run.plan.run_id, f"ralph/{run.plan.change_id}")
    if linked is None:
        raise UserError(
            f"The worktree of the run of `{run.plan.change_id}` is gone",
            state=f"Nothing was changed. Its work is on `ralph/{run.plan.change_id}`.",
            hint=f"git merge --squash ralph/{run.plan.change_id}",
        )
    return at(linked)


def user_place(linked: Place) -> Place | None:
    """The user's own worktree, if this one was made for it."""
    top = user_of(linked)
    return here(top).place if top else None


def has_ended(run: Run) -> bool:
    """Whether nothing of this run is needed in its worktree any more."""
    return run.abandoned or (run.closed and run.choice is Choice.CLEANUP)


def remove_worktree(repo: Repository, run: Run) -> str:
    """After cleanup: the worktree is of no use any more. Says where its files are now."""
    user = user_place(repo.place) if has_ended(run) else None
    if user is None:
        return ""
    mine = at(user)
    newest = mine.latest()
    if not mine.alive() and not (newest and not newest.closed and not newest.abandoned):
        mine.write_dead(run, repo.clock.now())  # unless a run of their own is shown there
    return retire(repo.place, user, run.plan.run_id)
