"""What the loop relies on when it writes down what happened."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.plans import NOW, OPENED, told
from tests.fakes.record import FakeRecord
from untildone.adapters.records.journal import Journal, events, replayed
from untildone.adapters.records.state_file import StateFile
from untildone.app.bus import Bus
from untildone.app.record import RunRecord
from untildone.domain.reporting.event import Event, warning
from untildone.domain.run.fact import Fact
from untildone.ports import Record

# A record; the facts in it; the names of the events in it.
Scene = tuple[Record, Callable[[], list[Fact]], Callable[[], list[object]]]


def _real(folder: Path) -> Scene:
    path = folder / "journal.jsonl"
    state = StateFile(folder / "state.json")
    record = RunRecord(Journal(path), state, Bus(), (1, None))
    return (
        record,
        lambda: [fact for fact, _ in replayed(path)],
        lambda: [row["event"] for row in events(path)],
    )


def _fake(folder: Path) -> Scene:
    record = FakeRecord()
    return record, lambda: [fact for fact, _ in record.facts], lambda: [*record.names]


MAKERS: dict[str, Callable[[Path], Scene]] = {"real": _real, "fake": _fake}


@pytest.fixture(params=MAKERS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    made = MAKERS[request.param](tmp_path)
    yield made
    if isinstance(made[0], RunRecord) and isinstance(made[0].journal, Journal):
        made[0].journal.close()


def test_facts_and_events_are_kept_in_order(scene: Scene) -> None:
    record, facts, names = scene
    started = Event("run_started", {})
    record.fact(OPENED, (started, warning("odd")), told(OPENED), NOW)
    record.notice(Event("agent_text", {"text": "hello"}), NOW)
    assert facts() == [OPENED]
    assert names() == ["run_started", "warning", "agent_text"]
