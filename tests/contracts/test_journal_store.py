"""What the record relies on when it writes to a journal."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.plans import NOW, OPENED
from tests.fakes.record import FakeJournal
from untildone.adapters.records.journal import Journal
from untildone.domain.reporting.event import Event
from untildone.ports import JournalStore

MAKERS: dict[str, Callable[[Path], JournalStore]] = {
    "real": lambda folder: Journal(folder / "runs/r1/journal.jsonl"),
    "fake": lambda folder: FakeJournal([]),
}
ONE, TWO, THREE = (Event("warning", {"message": text}) for text in ("one", "two", "three"))


@pytest.fixture(params=MAKERS)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JournalStore]:
    made = MAKERS[request.param](tmp_path)
    yield made
    if isinstance(made, Journal):
        made.close()


def test_events_come_back_as_written_and_are_numbered_on(journal: JournalStore) -> None:
    first, second = journal.record(OPENED, (ONE, TWO), NOW)
    third = journal.note(THREE, NOW)
    for number, (event, written) in enumerate(((ONE, first), (TWO, second), (THREE, third)), 1):
        assert (written["seq"], written["event"]) == (number, event.name)
        assert written.items() >= event.data.items()


def test_a_fact_without_events_has_no_number(journal: JournalStore) -> None:
    assert journal.record(OPENED, (), NOW) == ()
    assert journal.note(ONE, NOW)["seq"] == 1
