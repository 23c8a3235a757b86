"""Saved attempts of a change: list, show, bring back."""

import os

from untildone.adapters.git import Git
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
            }
        )
    return rows


def show(repository: Repository, change: str, name: str) -> str:
    """The diff of an attempt against the checkpoint it started from."""
    git = repository.git()
    commit = _existing(git, change, name)
    out = git.do("diff", "--stat", "--patch", "--no-color", "--no-ext-diff", f"{commit}^1", commit)
    return plain(out.decode(errors="replace"))


def bring_back(repository: Repository, change: str, name: str) -> str:
    """An attempt's files into the working tree; returns where the present state is stored."""
    git = repository.git()
    _existing(git, change, name)
    repository.lock.take(change)
    run = repository.needed(change)
    return build_closing(repository, run.plan).bring_back(_folder(change) + name)


def _existing(git: Git, change: str, name: str) -> str:
    commit = git.resolve(_folder(change) + name)
    if not commit:
        raise UserError(f"There is no such attempt: {name}", hint=f"untildone attempts {change}")
    return commit


def _folder(change: str) -> str:
    return f"{PREFIX}{change}/"


def _first(text: str) -> str:
    return plain(text).strip().partition("\n")[0][:120]
