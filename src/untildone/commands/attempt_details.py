"""One saved attempt: what it was, and its patch."""

import os
from pathlib import Path

from untildone.adapters.checkpoints.snapshot.staged_content import SUBJECT
from untildone.adapters.git.git import Git
from untildone.adapters.records.run_folder import RunFolder
from untildone.commands.attempts import PREFIX, existing, kept_rows
from untildone.commands.status import homes, replayed
from untildone.domain.plain_text import plain
from untildone.domain.run.run import Iteration
from untildone.wiring.repository import Repository

TRAILER = "Untildone-Run: "


def details(repository: Repository, change: str, name: str) -> dict[str, object]:
    """What an attempt was: how it ended, why, its commits and files, and its log."""
    repository.needed(change)
    git = repository.git()
    commit = existing(git, change, name)
    ref = f"{PREFIX}{change}/{name}"
    run_id = _run_id(git, commit)
    iteration = _iteration(repository, run_id, ref)
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


def _iteration(repository: Repository, run_id: str, ref: str) -> Iteration | None:
    found: list[Iteration] = []
    for root in homes(repository):
        if run_id and RunFolder(root, run_id).journal.exists():
            run = replayed(root, run_id)
            found += [it for it in run.iterations if it.saved_ref == ref] if run else []
    return found[-1] if found else None


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
