"""Files that an attempt may not change: which they are, and what is said when it does."""

import re
from collections.abc import Iterable
from functools import cache

from msgspec import Struct

from untildone.domain.regex import regex

MOST_NAMED = 20
_MAGIC = frozenset("*?[")


class Violation(Struct, frozen=True):
    """A protected file and what became of it; `kept` says that git can bring it back."""

    path: str
    what: str
    kept: bool = True


def is_pattern(text: str) -> bool:
    """Whether this stands for many files."""
    return not _MAGIC.isdisjoint(text)


def is_protected(path: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern fits the path or a folder above it; all are relative to the top."""
    parts = path.split("/")
    above = ["/".join(parts[:k]) for k in range(len(parts), 0, -1)]
    return any(_compiled(pattern).fullmatch(name) for pattern in patterns for name in above)


# A folder of tests, or a name that runners look for. Prose about tests is none.
_TEST = regex(
    r"(?:^|.*/)(?:(?:tests?|__tests__|spec)/.*"
    r"|test_[^/]*|[^/]*(?:_test|_spec|\.test|\.spec|\.cy|[a-z]Tests?)\.[^/]*)"
)
_PROSE = (".md", ".rst", ".txt", ".adoc")


def tests_among(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths that look like tests of a project."""
    return tuple(p for p in paths if _TEST.fullmatch(p) and not p.endswith(_PROSE))


def complaint(violations: Iterable[Violation]) -> str:
    """The reason of an attempt that changed protected files; each is named. Empty for none."""
    rows = []
    for found in violations:
        lost = "" if found.kept else "; it is not in git, so it was not put back"
        rows.append(f"- {found.path} ({found.what}{lost})")
    more = len(rows) - MOST_NAMED
    shown = [*rows[:MOST_NAMED], *([f"- and {more} more"] if more > 0 else [])]
    listed = "\n".join(shown)
    return f"Protected files were changed. They must stay as they are:\n{listed}" if rows else ""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    text = pattern.removeprefix("./").strip("/")
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?[^]/]+\])", text)
    return re.compile("".join(_WILD.get(part) or _plain(part) for part in parts), re.DOTALL)


_WILD = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _plain(part: str) -> str:
    if len(part) > 2 and part.startswith("[") and part.endswith("]"):
        inside = part[1:-1].replace("\\", r"\\")
        return f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
    return re.escape(part)
