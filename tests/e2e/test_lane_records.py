"""What the journal of a run in lanes tells afterwards: `report`, `logs --lane` and `replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from tests.e2e.agent_calls import DONE
from tests.e2e.test_lanes import Lanes
from untildone.adapters.records.journal import Journal, replayed
from untildone.domain.reporting.event import Event
from untildone.domain.run import fact as f

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e
Timed = tuple[f.Fact, "datetime"]


def in_two_lanes(bench: Bench) -> None:
    """A real run of two stories, its journal told as if both had been worked on at once."""
    bench.only_stories(1, 2)
    bench.plan({1: [["say", "words of one"], *DONE], 2: [["say", "words of two"], *DONE]})
    bench.loop("--on-complete", "keep").ok()
    folder = bench.path(".git/untildone/runs") / str(bench.state()["run_id"])
    told = list(replayed(folder / "journal.jsonl"))
    (folder / "journal.jsonl").rename(folder / "serial.jsonl")
    journal = Journal(folder / "journal.jsonl")
    for fact, at, events in _parallel(told):
        journal.record(fact, events, at)
    journal.close()


def _parallel(told: list[Timed]) -> Iterator[tuple[f.Fact, datetime, tuple[Event, ...]]]:
    def of(kind: type) -> list[Timed]:
        return [row for row in told if isinstance(row[0], kind)]

    began, ended, saved = (of(kind) for kind in (f.AttemptStarted, f.AttemptEnded, f.Saved))
    for kind in (f.Started, f.Opened, f.StoriesLoaded):
        fact, at = of(kind)[0]
        if isinstance(fact, f.Started):
            fact = f.Started(replace(fact.plan, lanes=2))
        yield fact, at, ()
    opened, now = of(f.Opened)[0]
    assert isinstance(opened, f.Opened)
    for lane in (0, 1):
        yield f.SlotReady(lane, f"/slots/{lane}"), now, ()
    for lane, (fact, _) in enumerate(began):
        assert isinstance(fact, f.AttemptStarted)
        data = {"lane": lane, "n": fact.n, "story_id": fact.story_id, "attempt": 1}
        at = began[0][1]
        first = replace(fact, lane=lane, base=opened.checkpoint)
        yield first, at, (Event("iteration_started", data | {"attempts_allowed": 1}),)
    for lane in (1, 0):  # the later call ends first
        fact, at = ended[lane]
        said = Event("agent_text", {"lane": lane, "text": f"words of {('one', 'two')[lane]}"})
        yield replace(fact, lane=lane), at, (said,)
        yield f.UsageMeasured(lane, None), at, ()
    for lane in (1, 0):
        fact, at = saved[lane]
        assert isinstance(fact, f.Saved)
        yield f.LandIntended(lane, opened.checkpoint, fact.commit), at, ()
        yield f.Landed(lane, fact.commit), at, ()


def test_replay_reproduces_a_parallel_run(bench: Bench) -> None:
    in_two_lanes(bench)
    again = bench.run("replay", "demo", "--json").ok().json()
    assert again["same"] is True
    assert [(row["n"], row["outcome"]) for row in again["iterations"]] == [
        (2, "complete"),
        (1, "complete"),
    ]


def test_logs_of_one_lane(bench: Bench) -> None:
    in_two_lanes(bench)
    one, two = (bench.run("logs", "demo", "--lane", lane).ok().stdout for lane in ("0", "1"))
    assert ("words of one" in one, "words of two" in one) == (True, False)
    assert ("words of one" in two, "words of two" in two) == (False, True)
    # Words of an iteration, whatever came in between from another lane.
    first = bench.run("logs", "demo", "--iteration", "1").ok().stdout
    assert ("words of one" in first, "words of two" in first) == (True, False)
    raw = bench.run("logs", "demo", "--lane", "1", "--raw").ok().stdout
    assert ("words of one" in raw, "words of two" in raw) == (False, True)


def test_the_report_says_what_lanes_bought(bench: Bench) -> None:
    in_two_lanes(bench)
    told = bench.run("report", "demo", "--json").ok().json()
    assert (told["lanes"]["lanes"], told["lanes"]["requeues"]) == (2, 0)
    assert told["lanes"]["serial_s"] > told["lanes"]["wall_s"] * 0.5
    assert [(call["lane"], call["kept"]) for call in told["calls"]] == [(1, True), (0, True)]
    assert all(call["changed"] for call in told["calls"])
    page = bench.run("report", "demo").ok().stdout
    assert "what lanes bought" in page


def test_a_run_whose_work_could_not_be_brought_together_is_told(bench: Bench) -> None:
    script = "sleep 0.5; echo $UNTILDONE_STORY_ID >> shared.txt; echo said in $UNTILDONE_LANE."
    Lanes(bench, 3, {"any": script}).run(2, "--verify", "test -s shared.txt").ok()
    told = bench.run("report", "demo", "--json").ok().json()
    requeued = [call for call in told["calls"] if call["requeued"]]
    assert told["lanes"]["requeues"] == len(requeued) >= 1
    assert all("shared.txt" in call["reason"] and call["saved_ref"] for call in requeued)
    assert told["verified"] == 3
    assert told["lanes"]["serial_s"] >= 3 * 0.5
    page = bench.run("report", "demo").ok().stdout
    assert "done, to be done again on top of the others" in page
    assert "lane 0 " in page
    for lane in (0, 1):
        raw = bench.run("logs", "demo", "--lane", str(lane), "--raw").ok().stdout
        assert (f"said in {lane}." in raw, f"said in {1 - lane}." in raw) == (True, False)
        said = bench.run("logs", "demo", "--lane", str(lane)).ok().stdout
        assert (f"said in {lane}." in said, f"said in {1 - lane}." in said) == (True, False)
    assert bench.run("replay", "demo", "--json").ok().json()["same"] is True
