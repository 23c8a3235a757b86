"""What the scripted model does, in no protocol's words: stories, tokens and bad days."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPLETE = "<promise>COMPLETE</promise>"


@dataclass(frozen=True)
class Tokens:
    """Tokens of one answer, counted as untildone does.

    `input` is without what was read from or written to a cache, `output` includes the reasoning.
    """

    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0

    @property
    def prompt(self) -> int:
        """All tokens of the prompt, wherever they came from."""
        return self.input + self.cache_read + self.cache_write

    @property
    def billed(self) -> int:
        """What untildone calls the total: without the tokens of a cache."""
        return self.input + self.output

    def unwritten(self) -> Tokens:
        """The same in a protocol that knows no writing to a cache."""
        return replace(self, input=self.input + self.cache_write, cache_write=0)

    def uncached(self) -> Tokens:
        """The same for a reader that does not tell the tokens of a cache apart."""
        return replace(self, input=self.prompt, cache_read=0, cache_write=0)

    def unreasoned(self) -> Tokens:
        """The same in a protocol that does not tell reasoning apart."""
        return replace(self, reasoning=0)

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input + other.input,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.output + other.output,
            self.reasoning + other.reasoning,
        )


def tokens_of(n: int) -> Tokens:
    """Tokens of the n-th answer: no two alike, so that a sum cannot be right by luck."""
    return Tokens(1000 + 7 * n, 300 + 11 * n, 100 + 13 * n, 40 + 3 * n, 10 + n)


@dataclass(frozen=True)
class Write:
    """The model writes a file; an absolute path suits every tool."""

    path: str
    text: str


@dataclass(frozen=True)
class Run:
    """The model runs a shell command."""

    command: str


@dataclass(frozen=True)
class Use:
    """The model uses a tool that it knows by name, such as one of an MCP server."""

    tool: str
    arguments: dict[str, object]


Action = Write | Run | Use


@dataclass(frozen=True)
class Story:
    """What the model does when `marker` stands in the prompt: one action per turn, then words."""

    marker: str
    actions: tuple[Action, ...] = ()
    say: str = f"The file is written.\n{COMPLETE}"


class Day(StrEnum):
    """What can go wrong."""

    RATE_LIMIT = "429"
    OVERLOADED = "529 or what the vendor has for it"
    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    USAGE_LIMIT = "the limit of a subscription is reached"
    QUOTA = "credit or quota used up"
    CONTEXT = "the prompt is too long"
    BAD_KEY = "401"
    HANG = "the request is taken, no answer comes"
    CUT = "the connection ends in mid-stream"
    EARLY_END = "the stream ends in the middle, cleanly"
    MALFORMED = "events that are no JSON"
    REFUSAL = "the model refuses"


@dataclass(frozen=True)
class BadDay:
    """A trouble for the first `times` main requests, or for all; `reset_s` if a reset is stated.

    With `lasts_s` it is over so long after the first of them.
    """

    day: Day
    times: int | None = None
    reset_s: float | None = None
    lasts_s: float = math.inf


@dataclass
class Script:
    """All stories of a test and at most one bad day."""

    stories: Sequence[Story] = ()
    bad_day: BadDay | None = None
    _left: int | None = field(init=False, default=None)
    _over: float | None = field(init=False, default=None)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._left = self.bad_day.times if self.bad_day else 0

    def story_in(self, text: str) -> Story | None:
        """The story whose marker stands in this text."""
        return next((story for story in self.stories if story.marker in text), None)

    def trouble(self) -> BadDay | None:
        """The trouble of the next main request."""
        with self._lock:
            if self.bad_day and self._over is None:
                self._over = time.monotonic() + self.bad_day.lasts_s
            if self._left == 0 or (self._over and time.monotonic() > self._over):
                return None
            if self._left is not None:
                self._left -= 1
            return self.bad_day
