"""What a stash run leaves outside its folder: entries in the stash list, private commits."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from untildone.adapters.checkpoints.stash import archive_work, work_ref
from untildone.adapters.checkpoints.stash_entries import StashEntries, change_of_entry, stash_list
from untildone.adapters.git.place import Place
from untildone.domain.errors import UserError
from untildone.domain.run.run import Choice, Run
from untildone.wiring.repository import Repository, at
from untildone.wiring.worktrees import top_of


class Traces(Struct, frozen=True):
    """What is left of one change: how many stash entries, and whether there are commits."""

    change: str
    entries: int
    commits: bool

    def __str__(self) -> str:
        parts = [f"stash entries `ralph:{self.change}:…`: {self.entries}"] if self.entries else []
        parts += [f"private commits: {work_ref(self.change)}"] if self.commits else []
        return ", ".join(parts)


def leftovers(repository: Repository) -> list[Traces]:
    """Traces of runs that nobody can go on with, in no worktree; runs that can are left alone."""
    git = repository.git()
    entries = [change for stash in stash_list(git) if (change := change_of_entry(stash))]
    commits = {name.removeprefix(work_ref("")) for name in git.refs(work_ref(""))}
    return [
        Traces(change, entries.count(change), change in commits)
        for change in sorted({*entries, *commits})
        if not any(_in_use(run) for _, run in _newest(repository, change))
    ]


def clear(repository: Repository) -> Iterator[str]:
    """Remove those traces; only entries that carry our mark, and no commit is lost."""
    git = repository.git()
    for traces in leftovers(repository):
        StashEntries(git, traces.change).drop_own()
        yield f"Leftovers of an ended run were removed, {traces}"
        yield from archive_work(git, traces.change, repository.stamp())


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
