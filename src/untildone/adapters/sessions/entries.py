"""Values of session files: objects by line, counts, moments."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from untildone.adapters.agents.reading.json_lines import parsed
from untildone.domain.agents.agent import Usage
from untildone.plain_files import opened


class Counts(Struct, frozen=True):
    """What one entry counts; `cached` and `written` are not part of `input`."""

    input: int
    output: int
    cached: int = 0
    written: int = 0
    reasoning: int = 0

    def usage(self, model: str, cost: object = None) -> Usage:
        """As usage; a cost of nothing for some tokens is no figure but a missing price."""
        stated = isinstance(cost, int | float) and cost > 0
        return Usage(
            max(self.input, 0),
            self.output,
            self.cached,
            self.written,
            cost_usd=float(cost) if stated and isinstance(cost, int | float) else None,
            reasoning_tokens=self.reasoning,
            model=model,
        )


def objects(path: Path, *marks: bytes) -> Iterator[Mapping[str, object]]:
    """The objects on the lines that hold one of the marks."""
    with opened(path) as file:
        for line in file:
            if any(mark in line for mark in marks) and (found := parsed(line)):
                yield found


def whole(value: object) -> int:
    """A count; a missing one is zero, anything else is a ValueError: the entry is not counted."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value


def moment(value: object) -> datetime:
    """A time with its zone, from text; anything else is a ValueError."""
    at = datetime.fromisoformat(value) if isinstance(value, str) else None
    if at is None or at.tzinfo is None:
        raise ValueError(value)
    return at


def from_epoch(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
