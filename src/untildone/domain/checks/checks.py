"""The loop's own checks: how they are written, which belong to a story, and what one run gave."""

import re
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from untildone.domain.markdown import opened_fence
from untildone.domain.stories.story import Story

AUTO = "auto"
# Bold or a list marker around the word is fine. A command has code ticks around it: without them
# such a line is more often a sentence for people.
_LINE = r"\s*(?:[-*+]\s+)?(?:\*\*|__)?{word}:?(?:\*\*|__)?:?\s+(.*\S)\s*"
_VERIFY = re.compile(_LINE.format(word="Verify"))
_ALLOW_EMPTY = re.compile(_LINE.format(word="Allow empty"), re.IGNORECASE)
_TICKED = re.compile(r"(`+)\s?(.+?)\s?\1")


class Level(StrEnum):
    """What a failing check means."""

    REQUIRED = "required"
    WARN = "warn"
    OFF = "off"


_LEVEL = re.compile(rf"({'|'.join(Level)}):\s*(.*)", re.DOTALL)


class Check(Struct, frozen=True):
    """A command and what its failure means; `own` is the check of one story only."""

    command: str
    level: Level = Level.REQUIRED
    own: bool = False


class Checked(Struct, frozen=True):
    """What one run of a check gave: no reason if it passed, else why not, with the output's tail.

    `how` is how it ended, in words that can be compared; `output` is what it printed, bounded.
    """

    reason: str = ""
    how: str = ""
    output: str = ""
    interrupted: bool = False


class Failing(Struct, frozen=True):
    """A check that fails, how it ended, and the failing tests if it names any."""

    command: str
    how: str
    names: tuple[str, ...] = ()


def parse(text: str, *, own: bool = False) -> Check:
    """A check as it is written: `CMD`, or `warn: CMD`."""
    found = _LEVEL.fullmatch(text.strip())
    if found is None:
        return Check(text.strip(), own=own)
    return Check(found[2], Level(found[1]), own)


def in_force(shared: Iterable[str], own: Iterable[str] = ()) -> tuple[Check, ...]:
    """The checks to run, in order, each once: those of the run, then the story's own."""
    found: dict[str, Check] = {}
    for check in (*map(parse, shared), *(parse(text, own=True) for text in own)):
        if check.command:
            found.setdefault(check.command, check)
    return tuple(check for check in found.values() if check.level is not Level.OFF)


def own_checks(story: Story | None, configured: Iterable[str]) -> tuple[str, ...]:
    """A story's own checks: from its text, then `ID=CMD` pairs of the configuration."""
    if story is None:
        return ()
    lines = (found[1] for row in _rows(story) if (found := _VERIFY.fullmatch(row)))
    told = [ticked[2] for line in lines if (ticked := _TICKED.fullmatch(line))]
    pairs = (text.partition("=") for text in configured)
    return (*told, *(command.strip() for key, _, command in pairs if key.strip() == story.id))


def may_be_empty(story: Story, allowed: Iterable[str]) -> bool:
    """Whether the story may be complete without a change: by its text, its id, or for all."""
    if not {"*", story.id}.isdisjoint(allowed):
        return True
    words = (found[1] for row in _rows(story) if (found := _ALLOW_EMPTY.fullmatch(row)))
    return any(word.strip("`*_. ").lower() in ("yes", "true") for word in words)


def is_setting(row: str) -> bool:
    """Whether a line of text is one that is read here, wherever in a story it stands."""
    return bool(_VERIFY.fullmatch(row) or _ALLOW_EMPTY.fullmatch(row))


def _rows(story: Story) -> list[str]:
    """The lines of a story's own text, without code blocks."""
    text = "\n".join([story.body, *(task.detail for task in story.tasks)])
    rows: list[str] = []
    fence = None
    for row in text.split("\n"):
        if fence:
            fence = None if fence.closed_by(row) else fence
        elif not (fence := opened_fence(row)):
            rows.append(row)
    return rows
