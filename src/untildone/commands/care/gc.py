"""Removing what ended runs have stored, once it is older than the retention."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct

from untildone.adapters.git.disk_usage import bytes_of_folder, bytes_of_objects
from untildone.adapters.git.git import Git, RefUpdate
from untildone.adapters.records.lock import WorktreeLock
from untildone.adapters.records.run_folder import run_ids
from untildone.commands.control import refuse_agent
from untildone.commands.undo import finish_begun
from untildone.domain.errors import UserError
from untildone.domain.run import retention
from untildone.domain.run.retention import Recorded, Rule, SavedRef
from untildone.domain.run.run import Run
from untildone.settings.load import load
from untildone.wiring.repository import Repository, homes, replayed

# Many more would lead to before the year 1, which is no date in Python.
LONGEST_DAYS = 100_000
REMOVED = "removed"


class OldRun(Struct, frozen=True):
    """A run that goes, with its folder."""

    run: Recorded
    folder: Path
    bytes: int


class Old(Struct, frozen=True):
    """Everything that goes; `object_bytes` is None if git cannot tell."""

    runs: tuple[OldRun, ...]
    refs: tuple[SavedRef, ...]
    object_bytes: int | None

    @property
    def folder_bytes(self) -> int:
        return sum(old.bytes for old in self.runs)

    def __bool__(self) -> bool:
        return bool(self.runs or self.refs)


def keep_days(repository: Repository, flag: str | None) -> int:
    """How many days are kept: the flag's, or the configured number."""
    return load(repository.place.top, os.environ, {"keep_days": flag}).keep_days


def rule(repository: Repository, days: int, change: str = "", *, everything: bool = False) -> Rule:
    """The retention as a rule of this moment."""
    if everything:
        return Rule(datetime.max.replace(tzinfo=UTC), change, newest_too=True)
    return Rule(repository.clock.now() - timedelta(days=min(days, LONGEST_DAYS)), change)


@contextmanager
def locked(repository: Repository) -> Iterator[frozenset[Path]]:
    """No run starts meanwhile; yields the folders of other worktrees where a loop is at work."""
    repository.lock.take("gc")
    locks = {root: WorktreeLock(root / "lock") for root in _others(repository)}
    busy = busy_homes(repository)
    try:
        finish_begun(repository)
        for root in locks.keys() - busy:
            locks[root].take("gc")
        yield busy
    finally:
        for lock in (repository.lock, *locks.values()):
            lock.release()


def busy_homes(repository: Repository) -> frozenset[Path]:
    """Our folders of other worktrees where a loop is at work now."""
    roots = _others(repository)
    return frozenset(root for root in roots if WorktreeLock(root / "lock").is_held())


def find(repository: Repository, wanted: Rule, busy: frozenset[Path]) -> Old:
    """What the rule lets go; nothing is touched."""
    git = repository.git()
    # Refs first: the run of every ref seen here has its journal on disk by now.
    refs = _saved_refs(git)
    known = {run.run_id: (run, folder) for run, folder in recorded(repository, busy)}
    records = [run for run, _ in known.values()]
    if wanted.change:
        _refuse_unknown(wanted.change, refs, records)
    leaving = retention.old_refs(refs, records, wanted)
    gone = {ref.name for ref in leaving}
    staying = [ref.commit for ref in refs if ref.name not in gone]
    old = [known[run.run_id] for run in retention.old_runs(records, wanted)]
    return Old(
        tuple(OldRun(run, folder, bytes_of_folder(folder)) for run, folder in old),
        leaving,
        bytes_of_objects(git, [ref.commit for ref in leaving], staying) if leaving else 0,
    )


def remove(repository: Repository, old: Old) -> None:
    """Delete the refs together, then the folders; cut short, the next call does the rest."""
    for row in old.runs:
        refuse_agent(row.run.run_id)
    updates: list[RefUpdate] = [(ref.name, "", ref.commit) for ref in old.refs]
    if updates:
        repository.git().update_refs(updates, "untildone: gc")
    for row in old.runs:
        # By one rename it is no run any more, however long the rest takes.
        removed = row.folder.parent.parent / REMOVED
        removed.mkdir(exist_ok=True)
        row.folder.rename(removed / row.run.run_id)
    for root in homes(repository):
        _delete(root / REMOVED)


def _saved_refs(git: Git) -> list[SavedRef]:
    run_id = "%(contents:trailers:key=Untildone-Run,valueonly,separator=%2C)"
    form = f"--format=%(refname)%00%(objectname)%00%(committerdate:unix)%00{run_id}"
    rows = os.fsdecode(git.do("for-each-ref", form, retention.PREFIX)).splitlines()
    found = (row.split("\0") for row in rows if row)
    return [
        SavedRef(name, commit, datetime.fromtimestamp(int(at or 0), UTC), own.strip())
        for name, commit, at, own in found
    ]


def recorded(repository: Repository, busy: frozenset[Path]) -> Iterator[tuple[Recorded, Path]]:
    """Every run with a journal, in all worktrees, and its folder."""
    # The run of a linked worktree moves to the main one at its end: seen there, if not here.
    for root in reversed(homes(repository)):
        seen: set[str] = set()
        for run_id in run_ids(root):
            folder = root / "runs" / run_id
            last_sign = datetime.fromtimestamp((folder / "journal.jsonl").stat().st_mtime, UTC)
            run = _readable(root, run_id)
            if run is None:  # nobody can tell what it was: it stays
                yield Recorded(run_id, "", last_sign, last_sign, resumable=True), folder
                continue
            change = run.plan.change_id
            # Only the newest run of a change in its worktree can go on.
            goes_on = root in busy or (run.resumable and change not in seen)
            seen.add(change)
            yield Recorded(run_id, change, run.started_at, last_sign, goes_on), folder


def _readable(root: Path, run_id: str) -> Run | None:
    try:
        return replayed(root, run_id)
    except (KeyError, TypeError, ValueError, AssertionError):
        return None  # written by another version


def _refuse_unknown(change: str, refs: list[SavedRef], runs: list[Recorded]) -> None:
    labels = [label for ref in refs if (label := retention.label_of(ref))]
    known = {label.change for label in labels} | {run.change for run in runs}
    if change not in known:
        listed = ", ".join(sorted(known - {""}))
        raise UserError(
            f"Nothing is stored for this change: {change}",
            state="Nothing was changed.",
            hint=f"Changes with something stored: {listed}" if listed else "untildone run",
        )


def _others(repository: Repository) -> list[Path]:
    return [root for root in homes(repository) if root != repository.home]


def _delete(folder: Path) -> None:
    if not folder.exists():
        return
    for path, folders, _ in os.walk(folder):
        for name in folders:  # what was moved aside may hold folders that nobody may write
            inside = Path(path) / name
            if not inside.is_symlink():
                inside.chmod(stat.S_IRWXU)
    shutil.rmtree(folder)
