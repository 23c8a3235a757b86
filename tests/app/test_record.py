"""Journal first, then the state file, then every window."""

from datetime import datetime

from msgspec.structs import replace

from tests.fakes.plans import NOW, OPENED, PLAN, at, began, ended, loaded, measured, told, won
from tests.fakes.record import FakeJournal, FakeState
from untildone.app.bus import Bus, EventObject
from untildone.app.record import RunRecord
from untildone.domain.reporting.event import Event, warning
from untildone.domain.reporting.views import left_behind, state
from untildone.domain.run import fact as f
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Outcome, Run

PROCESS = (7, 1.5)
ODD = warning("odd")


def recorded(
    fact: f.Fact, run: Run, *events: Event, when: datetime = NOW
) -> tuple[list[object], list[EventObject]]:
    """What was called in which order when a fact is written down, and what the window got."""
    calls: list[object] = []
    shown: list[EventObject] = []

    def window(event: EventObject) -> None:
        calls.append(("window", event["seq"]))
        shown.append(event)

    bus = Bus()
    bus.subscribe(window)
    record = RunRecord(FakeJournal(calls), FakeState(calls), bus, PROCESS)
    record.fact(fact, events, run, when)
    bus.flush()
    return calls, shown


def test_order() -> None:
    run = told(OPENED)
    calls, shown = recorded(OPENED, run, ODD, ODD)
    assert calls == [
        ("journal", OPENED),
        ("state", state(run, *PROCESS), ()),
        ("window", 1),
        ("window", 2),
    ]
    assert shown == [
        {"seq": 1, "event": "warning", "message": "odd"},
        {"seq": 2, "event": "warning", "message": "odd"},
    ]


def test_an_ended_run_has_its_iteration_closed() -> None:
    failure = f.StepFailed("RunAttempt", "disk")
    run = told(OPENED, loaded(), began(), failure)
    iteration = run.lanes[0].iteration
    assert iteration is not None
    closed = replace(
        iteration,
        ended=at(9),
        outcome=Outcome.INTERRUPTED,
        reason="the loop ended during this iteration",
    )
    calls, _ = recorded(failure, run, when=at(9))
    assert calls == [
        ("journal", failure),
        ("state", state(left_behind(run, at(9)), *PROCESS), (closed,)),
    ]


def state_written(*facts: f.Fact, plan: Plan = PLAN) -> bool:
    calls, _ = recorded(facts[-1], told(*facts, plan=plan))
    return len(calls) == 2


def test_a_passing_fact_does_not_touch_the_state_file() -> None:
    verify = replace(PLAN, verify=("make test",))
    assert not state_written(OPENED, loaded())
    assert not state_written(OPENED, loaded(), began(), ended())
    assert not state_written(OPENED, loaded(), began(), ended(), measured())
    assert state_written(OPENED, loaded(), began())
    assert state_written(OPENED, loaded(), began(), ended(), measured(), plan=verify)
    assert state_written(OPENED, loaded(done=True))
    assert state_written(OPENED, loaded(), *won())


def test_a_notice_is_journalled_and_shown() -> None:
    calls: list[object] = []
    bus = Bus()
    bus.subscribe(lambda event: calls.append(event["event"]))
    record = RunRecord(FakeJournal(calls), FakeState(calls), bus, PROCESS)
    record.notice(ODD, NOW)
    bus.flush()
    assert calls == [("note", ODD), "warning"]


def test_what_the_state_file_has_to_tell_is_a_warning() -> None:
    run, moved = told(OPENED), warning("moved aside")
    for show in (True, False):
        calls: list[object] = []
        store = FakeState(calls, ("moved aside",))
        record = RunRecord(FakeJournal(calls), store, Bus(), PROCESS)
        if show:
            record.show(run, NOW)
        else:
            record.fact(OPENED, (ODD,), run, NOW)
        assert calls[-1] == ("note", moved)
