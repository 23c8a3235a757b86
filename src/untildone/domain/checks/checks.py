"""The loop's own checks: how they are written, which belong to a story, and what one run gave."""

import re
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from untildone.domain.checks.counted_tests import Counts
from untildone.domain.regex import regex
from untildone.domain.stories import story_text
from untildone.domain.stories.story import Story

AUTO = "auto"
MAY_SHRINK, MAY_CHANGE = "may shrink", "may change"
_VERIFY = story_text.setting_line("Verify")
_ALLOW_EMPTY = story_text.setting_line("Allow empty", any_case=True)
_TESTS = story_text.setting_line("Tests", any_case=True)
_BUDGET = story_text.setting_line("Budget")
_AMOUNT = regex(r"(?:story-)?(tokens|cost|time|iterations)=(\S+)")


class Level(StrEnum):
    """What a failing check means."""

    REQUIRED = "required"
    WARN = "warn"
    OFF = "off"


_LEVEL = regex(rf"({'|'.join(Level)}):\s*(.*)", re.DOTALL)


class Proof(StrEnum):
    """What stands behind finished work."""

    NONE = ""
    VERIFIED = "verified"
    UNCHANGED = "unchanged"
    OWN_TESTS = "own_tests"


class Check(Struct, frozen=True):
    """A command and what its failure means; `own` is the check of one story only.

    With `earlier_tests` it runs on the work of an attempt with the tests as they were before it.
    """

    command: str
    level: Level = Level.REQUIRED
    own: bool = False
    earlier_tests: bool = False

    @property
    def written(self) -> str:
        """As a person writes it."""
        return self.command if self.level is Level.REQUIRED else f"{self.level}: {self.command}"


class Checked(Struct, frozen=True):
    """What one run of a check gave: no reason if it passed, else why not, with the output's tail.

    `how` is how it ended, in words that can be compared; `output` is what it printed, bounded;
    `tests` are those that its runner counted, `reported` those in a file that it wrote for us.
    """

    reason: str = ""
    how: str = ""
    output: str = ""
    interrupted: bool = False
    tests: Counts | None = None
    reported: Counts | None = None


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


def written_checks(story: Story) -> tuple[str, ...]:
    """The checks that a story's own text names."""
    lines = (found[1] for row in _rows(story) if (found := _VERIFY.fullmatch(row)))
    return tuple(filter(None, map(story_text.command, lines)))


def configured_checks(story_id: str, configured: Iterable[str]) -> tuple[str, ...]:
    """A story's checks by `ID=CMD` pairs of the configuration."""
    pairs = (text.partition("=") for text in configured)
    return tuple(command.strip() for key, _, command in pairs if key.strip() == story_id)


def may_be_empty(story: Story) -> bool:
    """Whether the story's text says that it may be complete without a change."""
    words = (found[1] for row in _rows(story) if (found := _ALLOW_EMPTY.fullmatch(row)))
    return any(_bare(word) in ("yes", "true") for word in words)


def may_shrink(story: Story) -> bool:
    """Whether the story's text says that fewer tests are no failure."""
    return MAY_SHRINK in _about_tests(story)


def may_change(story: Story) -> bool:
    """Whether the story's text says that it changes tests that are there."""
    return MAY_CHANGE in _about_tests(story)


def written_budget(story: Story) -> tuple[str, ...]:
    """What the story's text says that its own work may cost, as `story-cost=2`."""
    lines = (found[1] for row in _rows(story) if (found := _BUDGET.fullmatch(row)))
    return next(filter(None, map(amounts, lines)), ())


def amounts(text: str) -> tuple[str, ...]:
    """`cost=2, tokens=300k` as budgets of a story; a line with anything else in it says nothing."""
    parts = [_AMOUNT.fullmatch(part.strip(" `*_").lower()) for part in text.split(",")]
    return tuple(f"story-{p[1]}={p[2]}" for p in parts if p) if all(parts) else ()


def _about_tests(story: Story) -> set[str]:
    return {word for row in _rows(story) for word in _said_of_tests(row)}


def is_setting(row: str) -> bool:
    """Whether a line of text is one that is read here, wherever in a story it stands."""
    mine = _VERIFY.fullmatch(row) or _ALLOW_EMPTY.fullmatch(row) or _said_of_tests(row)
    cost = _BUDGET.fullmatch(row)
    return bool(mine or (cost and amounts(cost[1]))) or story_text.is_setting(row)


def _said_of_tests(row: str) -> set[str]:
    """`Tests: may shrink`, `Tests: may change, may shrink`; any other line is for people."""
    found = _TESTS.fullmatch(row)
    words = {_bare(word) for word in found[1].split(",")} if found else set()
    return words if words <= {MAY_SHRINK, MAY_CHANGE} else set()


def _bare(word: str) -> str:
    return word.strip("`*_. ").lower()


def _rows(story: Story) -> list[str]:
    """The lines of a story's own text, without code blocks."""
    return story_text.rows([story.body, *(task.detail for task in story.tasks)])
