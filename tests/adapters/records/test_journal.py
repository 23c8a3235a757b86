"""The journal on disk: numbered events, facts that come back, lines torn by a crash."""

import json
from pathlib import Path

import pytest

from tests.fakes.plans import NOW, OPENED, PLAN, at, began
from untildone.adapters.records.journal import Journal, Tail, events, replayed
from untildone.domain.reporting.event import Event, warning
from untildone.domain.run import fact as f
from untildone.domain.run.run import Choice

STARTED = f.Started(PLAN)
FACTS: list[f.Fact] = [STARTED, OPENED, began(), f.PersonDone(), f.ChoiceMade(Choice.KEEP)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "r1" / "journal.jsonl"


def written(path: Path, facts: list[f.Fact], first: int = 0) -> None:
    journal = Journal(path)
    for k, fact in enumerate(facts, first):
        journal.record(fact, (warning(f"event {k}"),), at(k))
    journal.close()
    journal.close()


def test_facts_come_back_in_order(path: Path) -> None:
    written(path, FACTS)
    assert list(replayed(path)) == [(fact, at(k)) for k, fact in enumerate(FACTS)]


def test_events_are_numbered_on_over_processes(path: Path) -> None:
    written(path, FACTS[:2])
    written(path, FACTS[2:], first=2)
    assert [(row["seq"], row["message"]) for row in events(path)] == [
        (k + 1, f"event {k}") for k in range(5)
    ]


def test_the_objects_are_those_on_disk(path: Path) -> None:
    journal = Journal(path)
    waiting = Event("waiting", {"why": "limit", "until": at(60)})
    (shown,) = journal.record(STARTED, (waiting,), NOW)
    noted = journal.note(Event("agent_text", {"text": "Grüße \ud800"}), at(0.25))
    journal.close()
    assert shown == {
        "v": 1,
        "seq": 1,
        "at": "2026-01-02T03:04:05.000+00:00",
        "event": "waiting",
        "why": "limit",
        "until": "2026-01-02T03:05:05.000+00:00",
    }
    assert noted["at"] == "2026-01-02T03:04:05.250+00:00"
    assert list(events(path)) == [shown, noted | {"text": "Grüße ?"}]
    assert [json.loads(row)["v"] for row in path.read_text().splitlines()] == [1, 1, 1]


STAMP = f'"at": "{NOW.isoformat()}"'
DAMAGED = [
    '{"v": 1, "fact": "PersonDone", "data": {}}',
    '{"v": 1, "at": "never", "fact": "PersonDone", "data": {}}',
    f'{{"v": 1, {STAMP}, "fact": "AttemptStarted", "data": {{"n": "x"}}}}',
    f'{{"v": 1, {STAMP}, "fact": "AttemptStarted"}}',
    f'{{"v": 1, "seq": "x", {STAMP}, "event": "warning"}}',
    f'{{"v": 1, "seq": 3, {STAMP}, "event": 7}}',
    "[" * 200_000,
]
TORN = [b'{"v": 1, "fa', b"\xff\xfe", b"[1]", b"\n\n", b'"x"', *map(str.encode, DAMAGED)]


@pytest.mark.parametrize("torn", TORN)
def test_a_torn_line_swallows_nothing(path: Path, torn: bytes) -> None:
    written(path, FACTS[:2])
    with path.open("ab") as file:
        file.write(torn)
    assert [fact for fact, _ in replayed(path)] == FACTS[:2]
    written(path, FACTS[2:], first=2)
    assert [fact for fact, _ in replayed(path)] == FACTS
    assert [row["seq"] for row in events(path)] == [1, 2, 3, 4, 5]


def test_a_cost_that_is_no_number_loses_no_line(path: Path) -> None:
    written(path, FACTS[:1])
    journal = Journal(path)
    journal.note(Event("usage", {"cost_usd": float("nan")}), NOW)
    journal.close()
    assert [row["event"] for row in events(path)] == ["warning", "usage"]


def test_facts_of_a_newer_version_are_passed_over(path: Path) -> None:
    written(path, FACTS[:1])
    newer = {"v": 1, "at": NOW.isoformat(), "fact": "Teleported", "data": {}}
    more = {"v": 1, "at": NOW.isoformat(), "fact": "PersonDone", "data": {"mood": "good"}}
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in (newer, more))
    assert [fact for fact, _ in replayed(path)] == [STARTED, f.PersonDone()]


def test_a_tail_gives_each_event_once_and_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    one, two, three = (
        json.dumps({"seq": seq, "at": NOW.isoformat(), "event": "warning"}).encode()
        for seq in (1, 2, 3)
    )
    path.write_bytes(b'{"fact": "Started"}\n' + one + b"\n" + two[:9])
    tail = Tail(path)
    assert tail.events() == [json.loads(one)]
    assert tail.events() == []
    with path.open("ab") as file:
        file.write(two[9:] + b"\ntorn\n" + three + b"\n")
    assert tail.events() == [json.loads(two), json.loads(three)]
    tail.close()
