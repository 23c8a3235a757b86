"""What happened in a run, told by its facts."""

from datetime import datetime

from msgspec.structs import replace

from tests.fakes.plans import (
    BOTH,
    NOW,
    ONE,
    OPENED,
    PLAIN,
    PLAN,
    TWO,
    at,
    began,
    ended,
    kept,
    loaded,
    measured,
    put_back,
)
from untildone.app.recovery import replay
from untildone.domain.agents.agent import Kind, Trouble, Usage
from untildone.domain.checks.checks import Failing
from untildone.domain.costs.budget import Reached
from untildone.domain.reporting.account import (
    Account,
    Bought,
    Call,
    Pause,
    StoryAccount,
    Told,
    account,
    bought,
    total,
)
from untildone.domain.reporting.event import Event
from untildone.domain.run import fact as f
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Outcome, Run, Status, Stop, StopHow
from untildone.domain.stories.parking import Parked, Why

CHECKED = replace(PLAN, verify=("pytest",))
LIMIT = Trouble(Kind.RATE_LIMITED, "full")
USAGE = Usage(100, 20, 3, 4, 0.5)


def stories(*done: str) -> Event:
    rows = [
        {"id": s.id, "title": s.title, "state": "done" if s.id in done else "open"}
        for s in BOTH.stories
    ]
    return Event("stories_loaded", {"stories": rows})


def check(*, passed: bool = True, level: str = "required") -> tuple[Event, Event]:
    said = {"command": "pytest", "level": level}
    return Event("verify_started", said), Event("verify_ended", said | {"passed": passed})


def run_of(*told: f.Fact | Event, plan: Plan = PLAN) -> tuple[Run, list[Told]]:
    """The run and what its journal tells, one second apart."""
    all_of_it = (f.Started(plan), *told)
    timed: list[Told] = [(what, at(k)) for k, what in enumerate(all_of_it)]
    run = replay((what, when) for what, when in timed if not isinstance(what, Event))
    assert run is not None
    return run, timed


def accounted(*told: f.Fact | Event, plan: Plan = PLAN) -> Account:
    return account(*run_of(*told, plan=plan))


def states(found: Account) -> list[tuple[str, str]]:
    return [(story.id, story.state) for story in found.stories]


def test_a_story_is_verified_by_a_required_check_after_complete() -> None:
    verified = f.Verified(0, passed=True, still_failing=(Failing("pytest", "exit code 1"),))
    found = accounted(
        *(OPENED, loaded(), stories(), began(1), ended(), measured(USAGE)),
        *(*check(), verified, kept("c1"), loaded()),
        *(began(2, TWO), ended(), measured(), *check(level="warn"), verified, kept("c2")),
        plan=CHECKED,
    )
    first, second = found.calls
    assert (first.base, first.tip, first.attempt, first.seconds) == ("c0", "c1", 1, 1.0)
    assert (second.base, second.tip, second.let_through) == ("c1", "c2", 1)
    assert [(c.command, c.level, c.passed) for c in first.checks] == [("pytest", "required", True)]
    assert (first.checks[0].started, first.checks[0].ended) == (at(7), at(8))
    assert states(found) == [("1", "verified"), ("2", "done, not verified")]
    assert not any(call.wasted for call in found.calls)
    assert (found.first, found.last) == (NOW, at(18))


def test_attempts_that_were_put_back_are_waste_with_their_reason() -> None:
    failed = f.Verified(0, passed=False, reason="2 tests failed")
    found = accounted(
        *(OPENED, loaded(), stories("2"), began(1), ended(), measured(USAGE)),
        *(*check(passed=False), failed, put_back("ref/1"), loaded()),
        *(began(2), ended(Outcome.FAILED, "too hard"), measured(USAGE), put_back("ref/2")),
        plan=CHECKED,
    )
    assert [(c.attempt, c.outcome, c.reason, c.saved_ref, c.wasted) for c in found.calls] == [
        (1, "verify_failed", "2 tests failed", "ref/1", True),
        (2, "failed", "too hard", "ref/2", True),
    ]
    assert states(found) == [("1", "not done"), ("2", "done before")]


def test_a_call_at_a_limit_is_no_attempt_and_its_wait_is_counted() -> None:
    found = accounted(
        *(OPENED, loaded(), began(1), ended(Outcome.AGENT_ERROR, "429", limit=LIMIT)),
        *(measured(USAGE), put_back("ref/limit"), f.WaitStarted(0, at(9), "full"), f.WaitOver(0)),
        *(loaded(), began(1), ended(), measured(USAGE), kept("c1")),
    )
    limit, call = found.calls
    assert (limit.attempt, limit.limit, limit.wasted, limit.outcome) == (
        0,
        True,
        True,
        "rate_limited",
    )
    assert (call.n, call.attempt, call.kept) == (1, 1, True)
    assert found.pauses == (Pause(at(7), at(8), "full"),)


def waits(*after: f.Fact, until: datetime) -> tuple[Pause, ...]:
    limit = (began(1), ended(Outcome.AGENT_ERROR, "429", limit=LIMIT), measured(), put_back())
    return accounted(OPENED, loaded(), *limit, f.WaitStarted(0, until, "full"), *after).pauses


def test_a_wait_that_was_cut_short_counts_to_its_end_at_most() -> None:
    stop = f.StopRequested(Stop(StopHow.NOW))
    assert waits(stop, until=at(60)) == (Pause(at(7), at(8), "full"),)
    assert waits(f.Resumed(PLAN), until=at(7.5)) == (Pause(at(7), at(7.5), "full"),)
    assert waits(f.PersonDone(), until=at(60)) == (Pause(at(7), at(8), "full"),)  # still waiting
    assert Pause(at(7), at(8), "full").seconds == 1.0
    reached = Reached("tokens", 9, 8)
    held = accounted(OPENED, f.BudgetReached(reached, waits=True), f.BudgetSet(())).pauses
    assert held == (Pause(at(2), at(3), "budget tokens"),)
    assert accounted(OPENED, f.BudgetReached(reached)).pauses == ()
    assert Pause(at(8), at(7), "a clock set back").seconds == 0.0


def test_a_run_that_is_not_over_has_open_calls_and_checks() -> None:
    begun = (OPENED, loaded(), stories(), began(1))
    found = accounted(*begun)
    assert states(found) == [("1", "running"), ("2", "not started")]
    assert (found.calls[0].kept, found.calls[0].wasted, found.calls[0].seconds) == (
        False,
        False,
        0.0,
    )
    run, told = run_of(*begun, ended(), measured(), check()[0], plan=CHECKED)
    open_check = account(run, told).calls[0].checks[0]
    assert (open_check.passed, open_check.ended) == (None, None)
    stopped = replace(run, status=Status.STOPPED)
    assert states(account(stopped, told))[0] == ("1", "interrupted")


def test_a_parked_story_is_parked() -> None:
    run, told = run_of(OPENED, loaded(), stories())
    run = replace(run, parked={TWO.key: Parked(Why.QUESTION, "Which?", NOW)})
    assert states(account(run, told)) == [("1", "not started"), ("2", "parked")]


def test_edits_by_hand_and_work_that_was_taken_back_move_the_base() -> None:
    found = accounted(
        *(OPENED, loaded(), began(1), ended(), measured(), kept("c1")),
        f.TakenBack(2),
        *(loaded(), began(2), ended(), measured(), kept("c2"), f.Adopted(0, "c3")),
        *(loaded(), began(3, TWO), ended(), measured(), kept("c4")),
    )
    assert [(call.base, call.tip) for call in found.calls] == [
        ("c0", "c1"),
        ("c0", "c2"),
        ("c3", "c4"),
    ]


def test_a_plain_loop_has_a_row_per_iteration() -> None:
    plan = replace(PLAIN, verify=("pytest",))
    found = accounted(
        *(OPENED, began(1, None), ended(Outcome.NO_PROMISE), measured(), kept("", parent="c0")),
        *(began(2, None), ended(Outcome.AGENT_ERROR, "429", limit=LIMIT), measured(), kept("")),
        *(began(2, None), ended(), measured(), *check(), f.Verified(0, passed=True), kept("c1")),
        began(3, None),
        plan=plan,
    )
    assert states(found) == [
        ("iteration-1", "kept"),
        ("iteration-2", "rate_limited"),
        ("iteration-2", "verified"),
        ("iteration-3", "running"),
    ]
    assert (found.calls[0].tip, found.calls[0].commit) == ("", "")


def test_stray_events_are_passed_over() -> None:
    started, over = check()
    found = accounted(
        *(OPENED, started, over, loaded(), Event("stories_loaded", {"total": 2}), began(1), over),
        *(stories(), Event("stories_loaded", {"stories": []}), Event("warning", {})),
    )
    assert found.calls[0].checks == ()
    assert [story.id for story in found.stories] == ["1", "2"]


def test_sums_say_of_how_many_calls_the_cost_is_known() -> None:
    call = Call(1, ONE.key, "a", NOW, ended=at(4))
    sums = total([replace(call, usage=USAGE), replace(call, usage=Usage(1, 1)), call])
    assert (sums.calls, sums.seconds, sums.priced) == (3, 12.0, 1)
    assert (sums.usage.total, sums.usage.cost_usd) == (122, 0.5)
    assert sums.per(0) is None
    share = sums.per(2)
    assert share
    assert (share.seconds, share.usage.total, share.usage.cost_usd) == (6.0, 60, 0.25)
    unpriced = total([call]).per(1)
    assert unpriced
    assert unpriced.usage.cost_usd is None


def test_states_can_be_asked_for() -> None:
    found = accounted(OPENED, loaded(), stories("2"))
    assert [story.id for story in found.of_state("done before", "parked")] == ["2"]


def test_a_check_proves_nothing_of_work_that_is_not_there_or_eased_its_tests() -> None:
    won = (began(1, ONE), ended(), measured(), *check(), f.Verified(0, passed=True, checked=True))
    empty = accounted(OPENED, stories(), loaded(), *won, replace(kept(), unchanged=True))
    eased = accounted(OPENED, stories(), loaded(), *won, replace(kept(), own_tests=("t.py",)))
    found = [states(each)[0][1] for each in (empty, eased)]
    assert found == ["done, nothing changed", "done, not verified"]
    assert eased.calls[0].own_tests == ("t.py",)


def _in_lane(lane: int, *facts: f.Fact) -> tuple[f.Fact, ...]:
    return tuple(replace(fact, lane=lane) for fact in facts)


def _check_in(lane: int, *, passed: bool = True) -> tuple[Event, Event]:
    first, last = check(passed=passed)
    in_lane = {"lane": lane}
    return Event(first.name, {**first.data, **in_lane}), Event(last.name, {**last.data, **in_lane})


def in_two_lanes(usage: Usage | None = USAGE, *, requeue: bool = True) -> Account:
    """Two stories at once; the second cannot be brought together with the first, and is redone.

    One second per fact and event.
    """
    plan = replace(CHECKED, lanes=2)
    passed = f.Verified(0, passed=True, checked=True)
    slots = (f.SlotReady(0, "/s0", ("made anew",)), f.SlotReady(1, "/s1"))
    one = replace(began(1), base="c0")
    two = replace(began(2, TWO), base="c0", lane=1)
    work = (ended(), measured(usage))
    facts: list[f.Fact | Event] = [OPENED, loaded(), stories(), *slots, one, two]
    facts += [*_in_lane(1, *work), *_in_lane(0, *work)]
    facts += [*_check_in(1), *_in_lane(1, passed), *_check_in(0), passed]
    facts += [f.LandIntended(0, "c0", "c1"), f.Landed(0, "c1", flaky=("pytest",))]
    if requeue:
        again = replace(began(3, TWO), base="c1", lane=1)
        facts += [f.Requeued(1, "both changed a.py", ("a.py",), "refs/ralph/attempts/demo/2/1")]
        facts += [loaded(), again, *_in_lane(1, *work), *_check_in(1), *_in_lane(1, passed)]
    facts += [*_check_in(1), f.LandIntended(1, "c1", "c2"), f.Landed(1, "c2")]
    return accounted(*facts, plan=plan)


def test_calls_in_lanes_and_what_lanes_bought() -> None:
    found = in_two_lanes()
    assert [(c.n, c.lane, c.base, c.tip, c.kept, c.requeued) for c in found.calls] == [
        (1, 0, "c0", "c1", True, False),
        (2, 1, "c0", "", False, True),
        (3, 1, "c1", "c2", True, False),
    ]
    assert [len(call.checks) for call in found.calls] == [1, 1, 1]
    assert [len(call.on_sum) for call in found.calls] == [0, 0, 1]
    assert [call.flaky for call in found.calls] == [("pytest",), (), ()]
    assert states(found) == [("1", "verified"), ("2", "verified")]
    assert [remark.text for remark in found.remarks] == ["made anew"]
    # From 6 to 20 and from 22 to 31; the calls took 4 and 1 seconds, a check takes one.
    gain = bought(found)
    assert gain == Bought(
        lanes=2, wall_s=23.0, serial_s=7.0, requeues=1, flaky=1, extra_tokens=50.0, again_s=1.0
    )
    assert not gain.paid


def test_tokens_that_nobody_knows_are_no_share() -> None:
    gain = bought(in_two_lanes(None))
    assert gain
    assert gain.extra_tokens is None
    quick = bought(in_two_lanes(requeue=False))
    assert quick
    assert (quick.requeues, quick.extra_tokens) == (0, 0.0)
    assert bought(accounted(OPENED, loaded(), *_in_lane(0, began(1)))) is None


def test_the_wait_of_one_lane_is_not_that_of_another() -> None:
    limit = ended(Outcome.AGENT_ERROR, limit=LIMIT)
    waits = (f.WaitStarted(0, at(50), "full"), f.WaitStarted(1, at(60), "full too"))
    found = accounted(
        *(OPENED, loaded(), began(1), replace(began(2, TWO), lane=1)),
        *(limit, measured(), put_back(""), *_in_lane(1, limit, measured(), put_back(""))),
        *(*waits, f.WaitOver(0)),
        plan=replace(PLAN, lanes=2),
    )
    assert [(p.why, p.seconds) for p in found.pauses] == [("full", 2.0), ("full too", 1.0)]


def test_the_last_call_of_a_story() -> None:
    assert StoryAccount("1", "Alpha", "not started").last_call is None
    calls = tuple(Call(n, ("1", "Alpha"), "claude", NOW) for n in (1, 2))
    assert StoryAccount("1", "Alpha", "verified", calls).last_call is calls[-1]


def test_the_last_call_that_was_kept() -> None:
    first, again, open_one = (Call(n, ("1", "Alpha"), "claude", NOW) for n in (1, 2, 3))
    calls = (replace(first, settled=True), replace(again, settled=True, saved_ref="x"), open_one)
    assert StoryAccount("1", "Alpha", "verified", calls).kept is calls[0]
    assert StoryAccount("1", "Alpha", "open", calls[1:]).kept is None
