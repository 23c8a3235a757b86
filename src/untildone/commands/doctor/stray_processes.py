"""Processes that a killed loop left running: found by `doctor`, ended by `doctor --fix`."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from untildone.adapters.records.run_folder import run_ids
from untildone.wiring.repository import Repository
from untildone.wiring.worktrees import others

MARK = "UNTILDONE_RUN_ID"


def everywhere(repository: Repository) -> Counter[str]:
    """Those of this worktree, and of the ones that were made for its runs."""
    found = _strays(repository)
    for other in others(repository):
        found += Counter() if other.alive() else _strays(other)
    return found


def end(repository: Repository) -> Iterator[str]:
    """End those of one worktree; one sentence for each run."""
    for run_id in _strays(repository):
        ended = repository.end_leftovers(run_id)
        yield f"Processes that a killed loop had left running were ended: {len(ended)}"


def end_in_worktrees(repository: Repository) -> Iterator[str]:
    """The agents of runs with a worktree of their own, before the folder is moved under them."""
    for other in others(repository):
        if other.alive() or not _strays(other):
            continue
        other.lock.take("doctor")
        try:
            yield from end(other)
        finally:
            other.lock.release()


def _strays(repository: Repository) -> Counter[str]:
    """Processes that carry the mark of a run of this worktree, by run (Linux)."""
    known = set(run_ids(repository.home)) - {os.environ.get(MARK, "")}
    found: Counter[str] = Counter()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            pairs = (os.fsdecode(pair).split("=", 1) for pair in path.read_bytes().split(b"\0"))
        except OSError:
            continue
        found.update({pair[1] for pair in pairs if pair[0] == MARK} & known)
    return found
