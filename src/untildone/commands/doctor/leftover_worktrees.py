"""Worktrees that runs have left behind: found by `doctor`, put away by `doctor --fix` and `run`."""

from collections.abc import Iterator

from untildone.adapters.git.own_worktree import retire, retiring
from untildone.adapters.records.run_folder import new_run_id
from untildone.domain.run.run import Run
from untildone.wiring.repository import Repository
from untildone.wiring.worktrees import has_ended, others, put_away


def leftover(repo: Repository, run: Run | None) -> str:
    """Why a worktree that was made for a run is of no use any more; nothing if it is."""
    if run is None:
        return "no run was started in it"
    if has_ended(run):
        return f"the run of `{run.plan.change_id}` has ended"
    return "" if repo.place.top.exists() else f"its folder was deleted: {repo.place.top}"


def found(repo: Repository) -> Iterator[tuple[str, str]]:
    """What `doctor` says about worktrees that were made for runs, with the command to type."""
    for other in others(repo):
        run = other.latest()
        why = leftover(other, run)
        if other.alive():
            continue
        if why:
            text = f"The worktree {other.place.git_dir.name} is left over, {why}"
            yield text, "untildone doctor --fix"
        elif run and not run.closed:
            change = run.plan.change_id
            text = f"The run of `{change}` can be resumed and is left alone in: {other.place.top}"
            yield text, f"untildone resume {change}"


def sweep(repo: Repository) -> Iterator[str]:
    """Put every leftover away; a run that is alive or can be resumed stays."""
    for other in others(repo):
        run = other.latest()
        why = leftover(other, run)
        if not why or other.alive():
            continue
        other.lock.take("doctor")
        try:
            if run and not has_ended(run):
                run = other.abandon(run, why)
            if run:
                yield put_away(other, run)
            else:
                name = retiring(other.place) or new_run_id(repo.home, repo.clock.now())
                yield retire(other.place, repo.place, name)
        finally:
            other.lock.release()
