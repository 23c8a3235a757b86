"""Saved attempts of a change: list, show, bring back."""

import os

from untildone.adapters.checkpoints.guard.secrets_and_sizes import Flag, Guard, sized
from untildone.adapters.checkpoints.snapshot.withheld_files import kept_files, kept_folder, kept_of
from untildone.adapters.git.git import Git
from untildone.domain.errors import UserError
from untildone.domain.plain_text import plain
from untildone.wiring.build import build_closing
from untildone.wiring.repository import Repository

PREFIX = "refs/ralph/attempts/"


def attempts(repository: Repository, change: str) -> list[dict[str, object]]:
    """Every saved attempt, oldest first, with what is known about it."""
    git = repository.git()
    known = {it.saved_ref: it for it in repository.needed(change).iterations}
    form = "--format=%(refname)%00%(objectname)%00%(committerdate:iso-strict)"
    out = os.fsdecode(git.do("for-each-ref", "--sort=committerdate", form, _folder(change)))
    rows: list[dict[str, object]] = []
    for line in out.splitlines():
        ref, commit, at = line.split("\0")
        iteration = known.get(ref)
        rows.append(
            {
                "attempt": ref.removeprefix(_folder(change)),
                "ref": ref,
                "commit": commit,
                "at": at,
                "outcome": iteration.outcome if iteration and iteration.outcome else "saved",
                "reason": _first(iteration.reason) if iteration else "",
                "files": len(git.diff_trees(f"{commit}^1", commit)),
                "kept": kept_rows(repository, change, ref),
            }
        )
    return rows


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
