"""What every protocol module offers: requests in, answers and failures out."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from tests.modelserver.script import COMPLETE, BadDay, Day, Tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.modelserver.tools import Call, Tool

Json = dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """A user's text in the conversation, or (`result`) what a tool answered."""

    text: str
    result: bool = False


@dataclass(frozen=True)
class Ask:
    """A request in no protocol's words."""

    model: str
    stream: bool
    tools: tuple[Tool, ...]
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Answer:
    """One turn of the model: a tool call, words, or a refusal."""

    n: int
    model: str
    tokens: Tokens
    text: str = ""
    call: Call | None = None
    refused: bool = False


@dataclass(frozen=True)
class Failure:
    """An answer that is none: an HTTP status with the vendor's body."""

    status: int
    body: Json
    headers: Mapping[str, str] = field(default_factory=dict)


class Wire(Protocol):
    """One protocol."""

    def read(self, path: str, body: Json) -> Ask:
        """Understand a request."""

    def carried(self, tokens: Tokens) -> Tokens:
        """The tokens as this protocol can tell them."""

    def begun(self, tokens: Tokens) -> Tokens:
        """The tokens that a stream has told before its middle."""

    def whole(self, answer: Answer) -> Json:
        """The answer in one piece."""

    def events(self, answer: Answer) -> list[bytes]:
        """The answer as a stream of events."""

    def failure(self, bad: BadDay, now: float) -> Failure:
        """How the vendor says this; `now` is the wall-clock time for stated resets."""


def pieces(text: str) -> tuple[str, ...]:
    """The text as deltas: a promise is split in the middle of its tag, anything else in two."""
    at = text.find(COMPLETE[:9])
    cuts = (at, at + 8, at + 14) if at >= 0 else (len(text) // 2,)
    edges = (0, *cuts, len(text))
    parts = (text[a:b] for a, b in pairwise(edges))
    return tuple(part for part in parts if part)


def sse(data: Json | str, event: str = "") -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


def after(bad: BadDay) -> dict[str, str]:
    """The header that states the reset, if one is stated."""
    return {} if bad.reset_s is None else {"retry-after": f"{bad.reset_s:g}"}


STATUS = {
    Day.RATE_LIMIT: 429,
    Day.USAGE_LIMIT: 429,
    Day.SERVER_ERROR: 500,
    Day.UNAVAILABLE: 503,
    Day.OVERLOADED: 503,
    Day.BAD_KEY: 401,
    Day.CONTEXT: 400,
}
REFUSAL = "I cannot help with that."
