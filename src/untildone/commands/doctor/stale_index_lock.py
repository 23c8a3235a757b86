"""An old `index.lock` that keeps git from working: whose it is, and out of the way with it."""

from collections.abc import Iterator
from pathlib import Path

from untildone.domain.run.run import Run
from untildone.wiring.repository import Repository

STALE_S = 5 * 60


def find(repository: Repository) -> Path | None:
    """An index.lock that is too old for a git command at work."""
    lock = repository.place.git_dir / "index.lock"
    now = repository.clock.now().timestamp()
    return lock if lock.exists() and now - lock.stat().st_mtime > STALE_S else None


def owner(repository: Repository, lock: Path) -> Run | None:
    """The run in whose time the lock was made: then it is ours, or that of our agent."""
    run = repository.latest()
    if run is None:
        return None
    last = repository.folder(run.plan.run_id).journal.stat().st_mtime
    ours = run.started_at.timestamp() - 1 <= lock.lstat().st_mtime <= last + STALE_S
    return run if ours else None


def move(repository: Repository) -> Iterator[str]:
    """Move such a lock into the folder of the run that it belongs to; says where."""
    lock = find(repository)
    run = owner(repository, lock) if lock else None
    if lock and run:
        aside = repository.folder(run.plan.run_id).path / "aside"
        aside.mkdir(exist_ok=True)
        target = aside / f"index.lock-{repository.clock.now():%Y%m%dT%H%M%S%f}"
        lock.rename(target)
        yield f"The old index.lock was moved to: {target}"
