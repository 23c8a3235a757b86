"""What ended or killed runs leave behind: worktrees, stash entries, processes, an index.lock.

`doctor` names them, `doctor --fix` removes them; `run` and `finish` remove worktrees.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from untildone.adapters.checkpoints.stash import archive_work, work_ref
from untildone.adapters.checkpoints.stash_entries import StashEntries, change_of_entry, stash_list
from untildone.adapters.git.own_worktree import retire, retiring
from untildone.adapters.git.place import Place
from untildone.adapters.records.run_folder import new_run_id, run_ids
from untildone.domain.errors import UserError
from untildone.domain.run.run import Choice, Run
from untildone.wiring.repository import Repository, at
from untildone.wiring.worktrees import has_ended, others, remove_worktree, top_of

MARK = "UNTILDONE_RUN_ID"
STALE_S = 5 * 60


class StashLeftovers(Struct, frozen=True):
    """What is left of one change: how many stash entries, and whether there are commits."""

    change: str
    entries: int
    commits: bool

    def __str__(self) -> str:
        parts = [f"stash entries `ralph:{self.change}:…`: {self.entries}"] if self.entries else []
        parts += [f"private commits: {work_ref(self.change)}"] if self.commits else []
        return ", ".join(parts)


def _why_left(repo: Repository, run: Run | None) -> str:
    """Why a worktree that was made for a run is of no use any more; nothing if it is."""
    if run is None:
        return "no run was started in it"
    if has_ended(run):
        return f"the run of `{run.plan.change_id}` has ended"
    if repo.place.top.exists():
        return ""
    resume = f"`untildone resume {run.plan.change_id}` puts it back"
    return f"its folder was deleted: {repo.place.top}; {resume}"


def leftover_worktrees(repo: Repository) -> Iterator[tuple[str, str]]:
    """What `doctor` says about worktrees that were made for runs, with the command to type."""
    for other in others(repo):
        run = other.latest()
        why = _why_left(other, run)
        if other.alive():
            continue
        if why:
            text = f"The worktree {other.place.git_dir.name} is left over, {why}"
            yield text, "untildone doctor --fix"
        elif run and not run.closed:
            change = run.plan.change_id
            text = f"The run of `{change}` can be resumed and is left alone in: {other.place.top}"
            yield text, f"untildone resume {change}"


def remove_worktrees(repo: Repository) -> Iterator[str]:
    """Remove every leftover; a run that is alive or can be resumed stays."""
    for other in others(repo):
        run = other.latest()
        why = _why_left(other, run)
        if not why or other.alive():
            continue
        other.lock.take("doctor")
        try:
            if run and not has_ended(run):
                run = other.abandon(run, why)
            if run:
                yield remove_worktree(other, run)
            else:
                name = retiring(other.place) or new_run_id(repo.home, repo.clock.now())
                yield retire(other.place, repo.place, name)
        finally:
            other.lock.release()


def stash_entries_of(repository: Repository, change: str) -> list[str]:
    """The entries of a change in the stash list, as git names them and as they are called."""
    git = repository.git()
    listed = enumerate(stash_list(git))
    return [f"stash@{{{n}}} {s.name}" for n, s in listed if change_of_entry(git, s) == change]


def stash_leftovers(repository: Repository) -> list[StashLeftovers]:
    """Traces of runs that nobody can go on with, in no worktree; runs that can are left alone."""
    git = repository.git()
    entries = [change for stash in stash_list(git) if (change := change_of_entry(git, stash))]
    commits = {name.removeprefix(work_ref("")) for name in git.refs(work_ref(""))}
    return [
        StashLeftovers(change, entries.count(change), change in commits)
        for change in sorted({*entries, *commits})
        if not any(_in_use(run) for _, run in _newest(repository, change))
    ]


def remove_stash_leftovers(repository: Repository) -> Iterator[str]:
    """Remove those traces; only entries that carry our mark, and no commit is lost."""
    git = repository.git()
    for left in stash_leftovers(repository):
        StashEntries(git, left.change).drop_own()
        yield f"Leftovers of an ended run were removed, {left}"
        yield from archive_work(git, left.change, repository.stamp())


def refuse_elsewhere(repository: Repository, change: str) -> None:
    """Stash list and private commits are common to all worktrees: one unfinished run at a time."""
    common = repository.place.common_dir
    for git_dir, run in _newest(repository, change, but=repository.place.git_dir):
        top = git_dir.parent if git_dir == common else top_of(git_dir)
        if _in_use(run) and run.resumable and top.exists():
            raise UserError(
                f"The run of `{change}` in another worktree has not ended: {top}",
                state="Nothing was changed.",
                hint=f"cd {top} && untildone status",
            )


def _newest(
    repository: Repository, change: str, but: Path | None = None
) -> Iterator[tuple[Path, Run]]:
    """The newest run of the change in each worktree, by git folder; `but` one of them."""
    common = repository.place.common_dir
    for git_dir in (common, *sorted((common / "worktrees").glob("*"))):
        if git_dir == but:
            continue
        run = at(Place(repository.place.top, git_dir, common)).latest(change)
        if run:
            yield git_dir, run


def _in_use(run: Run) -> bool:
    over = run.abandoned or (run.closed and run.choice is Choice.CLEANUP)
    return run.plan.checkpoint == "stash" and not over


def stray_processes(repository: Repository) -> Counter[str]:
    """Those of this worktree, and of the ones that were made for its runs."""
    found = _strays(repository)
    for other in others(repository):
        found += Counter() if other.alive() else _strays(other)
    return found


def end_processes(repository: Repository) -> Iterator[str]:
    """End those of one worktree; one sentence for each run."""
    for run_id in _strays(repository):
        ended = repository.end_leftovers(run_id)
        yield f"Processes that a killed loop had left running were ended: {len(ended)}"


def end_processes_in_worktrees(repository: Repository) -> Iterator[str]:
    """The agents of runs with a worktree of their own, before the folder is moved under them."""
    for other in others(repository):
        if other.alive() or not _strays(other):
            continue
        other.lock.take("doctor")
        try:
            yield from end_processes(other)
        finally:
            other.lock.release()


def _strays(repository: Repository) -> Counter[str]:
    """Processes that carry the mark of a run of this worktree, by run (Linux)."""
    known = set(run_ids(repository.home)) - {os.environ.get(MARK, "")}
    found: Counter[str] = Counter()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environ = (process / "environ").read_bytes()
            pairs = (os.fsdecode(pair).split("=", 1) for pair in environ.split(b"\0"))
        except OSError:
            continue
        found.update({pair[1] for pair in pairs if pair[0] == MARK} & known)
    return found


def stale_index_lock(repository: Repository) -> Path | None:
    """An index.lock that is too old for a git command at work."""
    lock = repository.place.git_dir / "index.lock"
    now = repository.clock.now().timestamp()
    return lock if lock.exists() and now - lock.stat().st_mtime > STALE_S else None


def run_of_lock(repository: Repository, lock: Path) -> Run | None:
    """The run in whose time the lock was made: then it is ours, or that of our agent."""
    run = repository.latest()
    if run is None:
        return None
    last = repository.folder(run.plan.run_id).journal.stat().st_mtime
    ours = run.started_at.timestamp() - 1 <= lock.lstat().st_mtime <= last + STALE_S
    return run if ours else None


def move_index_lock(repository: Repository) -> Iterator[str]:
    """Move such a lock into the folder of the run that it belongs to; says where."""
    lock = stale_index_lock(repository)
    run = run_of_lock(repository, lock) if lock else None
    if lock and run:
        aside = repository.folder(run.plan.run_id).path / "aside"
        aside.mkdir(exist_ok=True)
        target = aside / f"index.lock-{repository.clock.now():%Y%m%dT%H%M%S%f}"
        lock.rename(target)
        yield f"The old index.lock was moved to: {target}"
