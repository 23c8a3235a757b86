"""Untracked files of the user that a start would take into git, and that look wrong there."""

from untildone.adapters.checkpoints.filters import unfiltered
from untildone.adapters.checkpoints.guard import Flag, Guard
from untildone.adapters.git import Git, Place
from untildone.domain.errors import UserError


def flagged_files(git: Git, place: Place, max_file_mb: float) -> tuple[Flag, ...]:
    """Untracked files that are large or look like secrets; nothing is written to find them."""
    return unfiltered(git, Guard.of(max_file_mb).look_at_all(place.top, git.untracked_files()))


def flagged_question(flags: tuple[Flag, ...]) -> str:
    """What the person at the terminal is asked."""
    rows = "".join(f"  {flag}\n" for flag in flags)
    return f"These untracked files would be committed as part of the initial state:\n{rows}" + (
        "Take them along? (y, or n: nothing is changed) "
    )


def flagged_refusal(flags: tuple[Flag, ...]) -> UserError:
    """Why the run does not start, with the two ways out."""
    rows = "".join(f"\n  {flag}" for flag in flags)
    return UserError(
        f"Untracked files that are large or look like secrets would be committed:{rows}",
        state="Nothing was changed.",
        hint="Add them to .gitignore (or .git/info/exclude), or take them along with "
        "`--include-flagged`; `--max-file-mb` sets the largest size",
    )
