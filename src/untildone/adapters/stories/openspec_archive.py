"""Archiving a finished OpenSpec change, as `openspec archive` does it.

A change without spec deltas is only moved, which needs no program. Merging deltas into the main
specs is for the real program: half of its rules would be worse than none.
"""

import re
from pathlib import Path

from untildone.adapters.stories.documents.tracker_program import Program
from untildone.adapters.stories.openspec import CHANGES, OpenSpec, archived
from untildone.domain.errors import StoriesError
from untildone.domain.regex import regex
from untildone.plain_files import read_bytes

OPENSPEC = Program("openspec", "Install it with `npm install -g @fission-ai/openspec`.")
_DATED = regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-")
_SKIP = regex(rb"^skip_specs[ \t]*:[ \t]*true\b", re.MULTILINE)


def place(change: str, today: str) -> str:
    """Where the change goes; a name that has a date keeps it."""
    name = change if _DATED.match(change) else f"{today}-{change}"
    return f"{CHANGES}/archive/{name}"


def check(root: Path, change: str) -> None:
    """What would be known only after the last story is said before the first."""
    if _has_deltas(root, change) and (why := OPENSPEC.missing()):
        raise StoriesError(
            f"The change has spec deltas, and merging them needs `openspec`: {why}",
            state="Nothing was changed.",
            hint=f"Install it, or run without `--archive`: `untildone run {change}`",
        )


def archive(root: Path, change: str, today: str) -> str:
    """Archive it; the folder it is in now. Refused while a box is open."""
    if there := archived(root, change):
        return there  # by the agent, or by a process that died before it could say so
    target = place(change, today)
    book = OpenSpec(root, change).load()
    left = book.total - book.complete
    if left or not book.total:
        raise StoriesError(f"{left} of its {book.total} boxes are open")
    if (root / target).exists():
        raise StoriesError(f"There is one of this name already: {target}")
    if _has_deltas(root, change):
        check(root, change)
        OPENSPEC.ask(root, "archive", change, "--yes", "--json")
        return archived(root, change) or target
    try:
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        (root / CHANGES / change).rename(root / target)
    except OSError as error:
        raise StoriesError(f"It cannot be moved. {error.strerror}: {target}") from error
    return target


def _has_deltas(root: Path, change: str) -> bool:
    home = root / CHANGES / change
    try:
        skips = bool(_SKIP.search(read_bytes(home / ".openspec.yaml")))
    except OSError:
        skips = False
    return not skips and any((home / "specs").rglob("spec.md"))
