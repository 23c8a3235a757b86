"""The run's memory without a disk: a record, a journal, a state file."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from untildone.domain.reporting.event import Event
from untildone.domain.run.fact import Fact
from untildone.domain.run.run import Iteration, Run


class FakeRecord:
    """Keeps facts with the run after each of them, and all events in order."""

    def __init__(self) -> None:
        self.facts: list[tuple[Fact, datetime]] = []
        self.runs: list[Run] = []
        self.events: list[Event] = []

    @property
    def names(self) -> list[str]:
        return [event.name for event in self.events]

    def of(self, name: str) -> list[Mapping[str, object]]:
        return [event.data for event in self.events if event.name == name]

    def fact(self, fact: Fact, published: tuple[Event, ...], run: Run, at: datetime) -> None:
        self.facts.append((fact, at))
        self.runs.append(run)
        self.events += published

    def notice(self, event: Event, at: datetime) -> None:
        self.events.append(event)


class FakeJournal:
    """Numbers events; writes its calls into a shared list, so that an order can be seen."""

    def __init__(self, calls: list[object]) -> None:
        self._calls = calls
        self._seq = 0

    def record(
        self, fact: Fact, published: tuple[Event, ...], at: datetime
    ) -> tuple[dict[str, object], ...]:
        self._calls.append(("journal", fact))
        return tuple(self._number(event) for event in published)

    def note(self, event: Event, at: datetime) -> dict[str, object]:
        self._calls.append(("note", event))
        return self._number(event)

    def _number(self, event: Event) -> dict[str, object]:
        self._seq += 1
        return {"seq": self._seq, "event": event.name, **event.data}


class FakeState:
    """Writes its calls into a shared list; `remarks` are what the next write has to tell."""

    def __init__(self, calls: list[object], remarks: tuple[str, ...] = ()) -> None:
        self._calls = calls
        self._remarks = remarks

    def write(self, head: Mapping[str, object], iterations: Sequence[Iteration]) -> tuple[str, ...]:
        self._calls.append(("state", dict(head), tuple(iterations)))
        told, self._remarks = self._remarks, ()
        return told
