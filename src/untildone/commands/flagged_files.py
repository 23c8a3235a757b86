"""Untracked files of the user that a start would take into git, and that look wrong there."""

from collections.abc import Callable

from msgspec import Struct

from untildone.adapters.checkpoints.guard.new_files import new_files, unfiltered
from untildone.adapters.checkpoints.guard.secrets_and_sizes import Flag, Guard
from untildone.adapters.git.git import Git
from untildone.adapters.terminal import Person
from untildone.domain.errors import UserError
from untildone.wiring.repository import Repository


class Asking(Struct, frozen=True):
    """Whether somebody can be asked, and whether the process was told to end meanwhile."""

    at_terminal: bool
    signalled: Callable[[], bool]


def refuse_flagged(repo: Repository, git: Git, max_file_mb: float, asking: Asking) -> None:
    """Large files and secrets need a person's yes; nothing is written to find them.

    A signal at the question is no answer: it is in the inbox, for the caller to see.
    """
    guard, top = Guard.of(max_file_mb), repo.place.top
    flags = unfiltered(git, guard.look_at_all(top, new_files(git, top)))
    if not flags:
        return
    person = Person(repo.inbox, "ask", at_terminal=asking.at_terminal)
    agreed = asking.at_terminal and person.agrees(_question(flags))
    if not agreed and not asking.signalled():
        raise _refusal(flags)


def _question(flags: tuple[Flag, ...]) -> str:
    rows = "".join(f"  {flag}\n" for flag in flags)
    return (
        f"These untracked files would be committed as part of the initial state:\n{rows}"
        "Take them along? (y, or n: nothing is changed) "
    )


def _refusal(flags: tuple[Flag, ...]) -> UserError:
    rows = "".join(f"\n  {flag}" for flag in flags)
    return UserError(
        f"Untracked files that are large or look like secrets would be committed:{rows}",
        state="Nothing was changed.",
        hint="Add them to .gitignore (or .git/info/exclude; after `git add -N` also `git rm "
        "--cached`), or take them along with `--include-flagged`; `--max-file-mb` sets the largest "
        "size",
    )
