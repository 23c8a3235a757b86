"""Saved attempts of a change: list, show, bring back."""

import os
from datetime import datetime
from operator import itemgetter
from pathlib import Path

from untildone.adapters.checkpoints.guard import Flag, Guard, sized
from untildone.adapters.checkpoints.snapshot.staged_content import SUBJECT
from untildone.adapters.checkpoints.snapshot.withheld_files import kept_files, kept_folder, kept_of
from untildone.adapters.git.git import Git
from untildone.adapters.records.run_folder import RunFolder
from untildone.commands.undo import finish_begun
from untildone.domain.errors import UserError
from untildone.domain.plain_text import plain
from untildone.domain.run.run import Iteration, Run
from untildone.wiring.build import build_closing
from untildone.wiring.repository import Repository, homes, replayed

PREFIX = "refs/ralph/attempts/"
TRAILER = "Untildone-Run: "


def attempts(repository: Repository, change: str) -> list[dict[str, object]]:
    """Every saved attempt of every run, oldest first, with what is known about it."""
    repository.needed(change)
    git, runs = repository.git(), _Runs(repository)
    trailer = f"%(trailers:key={TRAILER.partition(':')[0]},valueonly,separator=%x2C)"
    form = f"--format=%(refname)%00%(objectname)%00%(committerdate:iso-strict)%00{trailer}"
    out = os.fsdecode(git.do("for-each-ref", "--sort=committerdate", form, _folder(change)))
    rows: list[tuple[datetime, dict[str, object]]] = []
    for line in out.splitlines():
        ref, commit, at, run_ids = line.split("\0")
        run_id = run_ids.rpartition(",")[2]
        run, iteration = runs.run(run_id), runs.iteration(run_id, ref)
        row: dict[str, object] = {
            "attempt": ref.removeprefix(_folder(change)),
            "ref": ref,
            "commit": commit,
            "at": at,
            "run_id": run_id,
            "run_started": run.started_at.isoformat(timespec="seconds") if run else None,
            "outcome": iteration.outcome if iteration and iteration.outcome else "saved",
            "reason": _first(iteration.reason) if iteration else "",
            "files": len(git.diff_trees(f"{commit}^1", commit)),
            "kept": kept_rows(repository, change, ref),
        }
        rows.append((run.started_at if run else datetime.fromisoformat(at), row))
    # Git's times are seconds, and two runs may begin in one.
    return [row for _, row in sorted(rows, key=itemgetter(0))]


class _Runs:
    """The runs that attempts belong to, each replayed once."""

    def __init__(self, repository: Repository) -> None:
        self._homes = homes(repository)
        self._known: dict[str, Run | None] = {}

    def run(self, run_id: str) -> Run | None:
        """The run of this id; None if nothing is recorded of it any more."""
        if run_id not in self._known:
            roots = (r for r in self._homes if run_id and RunFolder(r, run_id).journal.exists())
            found = (replayed(root, run_id) for root in roots)
            self._known[run_id] = next((run for run in found if run), None)
        return self._known[run_id]

    def iteration(self, run_id: str, ref: str) -> Iteration | None:
        """The last call of the run that was saved as this ref."""
        run = self.run(run_id)
        mine = [it for it in run.iterations if it.saved_ref == ref] if run else []
        return mine[-1] if mine else None


def kept(repository: Repository, change: str, ref: str) -> tuple[Flag, ...]:
    """Files of an attempt that are kept beside git, with the reason."""
    runs, label = repository.home / "runs", ref.removeprefix(_folder(change))
    if not any(kept_folder(run, label).is_dir() for run in runs.iterdir()):
        return ()
    folder = kept_of(runs, label, repository.git().message(ref))
    guard = Guard.of(repository.needed(change).plan.limits.max_file_mb)
    return tuple(guard.check(folder, path) or sized(folder, path) for path in kept_files(folder))


def kept_rows(repository: Repository, change: str, ref: str) -> list[dict[str, object]]:
    """The same for scripts."""
    flags = kept(repository, change, ref)
    return [{"path": plain(f.path), "size": f.size, "reason": f.reason} for f in flags]


def bring_back(repository: Repository, change: str, name: str) -> str:
    """An attempt's files into the working tree; returns where the present state is stored."""
    git = repository.git()
    existing(git, change, name)
    repository.lock.take(change)
    finish_begun(repository)
    run = repository.needed(change)
    return build_closing(repository, run.plan).restore_attempt(_folder(change) + name)


def existing(git: Git, change: str, name: str) -> str:
    """The commit of a saved attempt; an unknown one is a UserError that names those there are."""
    folder = _folder(change)
    refs = git.refs(folder)
    if folder + name in refs:
        return refs[folder + name].commit
    known = ", ".join(ref.removeprefix(folder) for ref in refs)
    raise UserError(
        f"There is no such attempt: {name}",
        state="Nothing was changed.",
        hint=f"Saved attempts of {change}: {known or 'none'}",
    )


def _folder(change: str) -> str:
    return f"{PREFIX}{change}/"


def _first(text: str) -> str:
    return plain(text).strip().partition("\n")[0][:120]


def details(repository: Repository, change: str, name: str) -> dict[str, object]:
    """What an attempt was: how it ended, why, its commits and files, and its log."""
    repository.needed(change)
    git = repository.git()
    commit = existing(git, change, name)
    ref = f"{PREFIX}{change}/{name}"
    run_id = _run_id(git, commit)
    iteration = _Runs(repository).iteration(run_id, ref)
    log = iteration.log_file if iteration else ""
    return {
        "attempt": name,
        "story_id": iteration.story_id if iteration else name.rpartition("/")[0],
        "outcome": iteration.outcome if iteration and iteration.outcome else "saved",
        "reason": plain(iteration.reason).strip() if iteration else "",
        "at": os.fsdecode(git.do("show", "-s", "--format=%cI", commit)).strip(),
        "run_id": run_id,
        "ref": ref,
        "commit": commit,
        "checkpoint": git.resolve(f"{commit}^1"),
        "commits": _commits(git, commit),
        "files": _files(git, commit),
        "kept": kept_rows(repository, change, ref),
        "log_file": log if log and Path(log).exists() else "",
    }


def patch(repository: Repository, change: str, name: str, other: str = "") -> bytes:
    """From the checkpoint to an attempt, or from one attempt to another, for `git apply`."""
    repository.needed(change)
    git = repository.git()
    commit = existing(git, change, name)
    pair = (commit, existing(git, change, other)) if other else (f"{commit}^1", commit)
    # Plumbing: no setting of the user changes its form.
    form = ("--patch", "--binary", "--full-index", "-M", "--no-color", "--no-ext-diff")
    return git.do("diff-tree", "-r", *form, "--no-textconv", *pair)


def _run_id(git: Git, commit: str) -> str:
    rows = [row for row in git.message(commit).splitlines() if row.startswith(TRAILER)]
    return rows[-1].removeprefix(TRAILER) if rows else ""


def _commits(git: Git, commit: str) -> list[dict[str, str]]:
    """The agent's own commits, oldest first; a second look and what was staged are ours."""
    form = ("--reverse", "--topo-order", "--no-commit-header", "--format=%H%x00%s")
    out = git.do("rev-list", *form, commit, f"^{commit}^1").decode(errors="replace")
    ours = git.message(commit).partition("\n")[0], SUBJECT
    rows = [row.split("\0", 1) for row in out.splitlines()]
    return [{"commit": sha, "subject": plain(said)} for sha, said in rows if said not in ours]


def _files(git: Git, commit: str) -> list[dict[str, object]]:
    """Changed files with lines added and deleted; None for both where git counts no lines."""
    out = git.do("diff-tree", "-r", "--numstat", "-z", "--no-renames", f"{commit}^1", commit)
    rows = [row.split("\t", 2) for row in os.fsdecode(out).split("\0") if row]
    return [
        {"path": plain(path), "added": _number(added), "deleted": _number(deleted)}
        for added, deleted, path in rows
    ]


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None
