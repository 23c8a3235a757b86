"""What a run has spent, which budget is used up, what the rest will cost."""

from datetime import datetime

import pytest
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
    book,
    ended,
    kept,
    loaded,
    lost,
    measured,
    put_back,
    story,
    told,
)
from untildone.app.announce import announce
from untildone.domain.agents.agent import Ending, Kind, Trouble, Usage
from untildone.domain.checks.terms import Terms
from untildone.domain.costs.budget import Budget, Reached, read
from untildone.domain.costs.ledger import Account
from untildone.domain.reporting.event import Event, warning
from untildone.domain.run import fact as f
from untildone.domain.run.apply_fact import taken_back
from untildone.domain.run.machine import apply, begin, next_steps
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Outcome, Reason, Run, Status, Stop, StopHow
from untildone.domain.run.spending import (
    Forecast,
    forecast,
    reached,
    spent,
    standing,
    still_over,
)
from untildone.domain.run.step import AwaitBudget, Finish, RunAttempt, Wait
from untildone.domain.stories.parking import Why

LIMIT = Trouble(Kind.QUOTA_EXHAUSTED, "usage limit", at(60))
USED = Usage(100, 20, cost_usd=0.5)
DONE_1 = loaded(book(story(1, done=True), TWO, story(3)))


def plan(*budgets: str, of: Plan = PLAN) -> Plan:
    return replace(of, budgets=read(budgets))


def timed(plan: Plan, *facts: tuple[float, f.Fact]) -> Run:
    """The run after these facts, each with its second."""
    run = begin(f.Started(plan), NOW)
    for seconds, fact in facts:
        run = apply(run, fact, at(seconds))
    return run


def call(usage: Usage | None = USED, n: int = 1) -> tuple[f.Fact, ...]:
    """A call that is judged, not yet settled."""
    return began(n), ended(), measured(usage)


OVER = f.BudgetReached(Reached("tokens", 120, 100), waits=True)
STOPPED = f.BudgetReached(Reached("tokens", 120, 100))


def test_every_call_counts_for_the_run_and_for_its_story() -> None:
    facts = (OPENED, loaded(), *call(), put_back(), loaded(), *call(n=2))
    run = told(*facts)
    assert run.ledger.total == Account(240, 1.0, 4.0, 2)
    assert run.ledger.story(ONE.key) == run.ledger.total
    after = told(*facts, kept(), loaded(), began(3, TWO), ended(), measured(Usage(1, 2)))
    assert after.ledger.stories == {TWO.key: Account(3, None, 2.0, 1, unpriced=1)}
    assert after.ledger.total == Account(243, 1.0, 6.0, 3, unpriced=1)


def test_a_call_that_ended_at_a_limit_costs_but_is_no_iteration() -> None:
    cut = (began(), ended(Outcome.AGENT_ERROR, limit=LIMIT))
    run = told(OPENED, loaded(), *cut, measured(USED), put_back())
    assert run.ledger.total == Account(120, 0.5, 2.0, 0)
    guessed = told(OPENED, loaded(), *cut, measured(replace(USED, estimated=True)), put_back())
    assert guessed.ledger.total == Account(0, None, 2.0, 0)
    assert run.unattempted.total == run.ledger.total.tokens


def test_an_iteration_with_an_estimate_counts() -> None:
    run = told(OPENED, loaded(), *call(Usage(80, estimated=True)))
    assert run.ledger.total == Account(80, None, 2.0, 1, unpriced=1)


def test_time_is_that_of_calls_checks_and_limits() -> None:
    checked = replace(PLAN, verify=("make test",))
    run = timed(
        checked,
        *((1, OPENED), (10, loaded()), (20, began()), (50, ended()), (52, measured())),
        *((60, f.Verified(0, passed=True)), (70, kept()), (80, DONE_1)),
        *((90, began(2, TWO)), (95, ended(Outcome.AGENT_ERROR, limit=LIMIT)), (96, measured())),
        *((97, put_back()), (100, f.WaitStarted(0, at(130), "limit")), (130, f.WaitOver(0))),
    )
    assert run.ledger.total.seconds == 30 + 2 + 8 + 5 + 1 + 30
    assert run.ledger.story(TWO.key).seconds == 6


def test_checks_before_the_first_call_take_time() -> None:
    facts = ((5, OPENED), (6, loaded()), (65, f.ChecksTried()), (70, began()), (80, ended()))
    assert timed(PLAN, *facts).ledger.total.seconds == 60 + 10


def test_a_request_in_between_takes_no_time_away() -> None:
    stop = f.StopRequested(Stop(StopHow.AFTER_STORY))
    more = f.BudgetSet(read(("cost=5",)))
    run = timed(
        PLAN, (1, OPENED), (2, loaded()), (3, began()), (30, stop), (30, more), (33, ended())
    )
    assert run.ledger.total.seconds == 30
    assert run.plan.budgets == (Budget("cost", 5),)


def test_nobodys_time_is_not_counted() -> None:
    dead = f.AttemptEnded(0, Outcome.INTERRUPTED, "the loop ended during this iteration")
    run = timed(
        PLAN, (1, OPENED), (2, loaded()), (3, began()), (9000, dead), (9002, f.Resumed(PLAN))
    )
    assert run.ledger.total.seconds == 0
    assert apply(run, measured(), at(9005)).ledger.total.seconds == 3
    killed = replace(dead, ending=Ending.INTERRUPTED)
    stopped = timed(PLAN, (1, OPENED), (2, loaded()), (3, began()), (10, killed))
    assert stopped.ledger.total.seconds == 7
    back = timed(PLAN, (1, OPENED), (2, loaded()), (30, began()), (10, ended()))
    assert back.ledger.total.seconds == 0


SPENT_ALL = (OPENED, loaded(), began(), ended(), measured(USED), put_back(), loaded())


@pytest.mark.parametrize(
    ("budget", "over"),
    [
        ("tokens=121", None),
        ("tokens=120", Reached("tokens", 120, 120)),
        ("cost=0.51", None),
        ("cost=0.5", Reached("cost", 0.5, 0.5)),
        ("time=3s", None),
        ("time=2s", Reached("time", 2 / 60, 2 / 60)),
        ("iterations=2", None),
        ("iterations=1", Reached("iterations", 1, 1)),
        ("story-tokens=121", None),
        ("story-tokens=120", Reached("story-tokens", 120, 120, "1", ONE.key)),
        ("story-cost=0.5", Reached("story-cost", 0.5, 0.5, "1", ONE.key)),
        ("story-time=2s", Reached("story-time", 2 / 60, 2 / 60, "1", ONE.key)),
        ("story-iterations=1", Reached("story-iterations", 1, 1, "1", ONE.key)),
    ],
)
def test_used_up(budget: str, over: Reached | None) -> None:
    run = told(*SPENT_ALL, plan=plan(budget))
    assert reached(run, at(9), ("1", ONE.key)) == over
    of_run = over if over and not over.story_key else None
    assert reached(run, at(9)) == of_run
    assert reached(run, at(9), ("2", TWO.key)) == of_run


def test_a_wait_under_way_counts_for_the_run_only() -> None:
    cut = (*lost(limit=LIMIT), f.WaitStarted(0, at(999), "limit"))
    run = told(OPENED, loaded(), *cut, plan=plan("time=1m", "story-time=1m"))
    assert run.ledger.since == at(7)
    assert reached(run, at(64), ("1", ONE.key)) is None
    assert reached(run, at(65), ("1", ONE.key)) == Reached("time", 1.0, 1)
    assert spent(run, "time") == 2 / 60
    paused = apply(run, f.BudgetReached(Reached("time", 1.0, 1), waits=True), at(65))
    assert (paused.ledger.total.seconds, paused.ledger.since) == (60, None)
    on = apply(paused, f.BudgetSet(read(("time=2m",))), at(5000))
    assert (on.over, on.ledger.since) == (None, at(5000))
    assert apply(on, f.WaitOver(0), at(5010)).ledger.total.seconds == 70


def test_the_plain_loop_is_one_story() -> None:
    facts: tuple[f.Fact, ...] = (OPENED, began(1, None), ended(), measured(USED), kept())
    facts += (began(2, None), ended(), measured(USED), kept("c2"))
    run = told(*facts, plan=plan("story-tokens=240", of=PLAIN))
    assert reached(run, NOW, ("", ("", ""))) == Reached("story-tokens", 240, 240, "", ("", ""))
    assert still_over(told(*facts, plan=plan("story-tokens=240", of=PLAIN))) is None


def test_a_pause_waits_for_a_higher_budget() -> None:
    run = told(*SPENT_ALL, OVER, plan=plan("tokens=100"))
    assert (run.status, run.over) == (Status.RUNNING, OVER.reached)
    assert next_steps(run) == (AwaitBudget("tokens"),)
    low = apply(run, f.BudgetSet(read(("tokens=120",))), at(20))
    assert low.over == Reached("tokens", 120, 120)
    assert next_steps(low) == (AwaitBudget("tokens"),)
    high = apply(run, f.BudgetSet(read(("tokens=121",))), at(20))
    assert high.over is None
    assert isinstance(next_steps(high)[0], RunAttempt)
    assert high.tallies == run.tallies


def test_a_pause_of_a_story_waits_for_its_budget() -> None:
    over = f.BudgetReached(Reached("story-tokens", 120, 100, "1", ONE.key), waits=True)
    run = told(*SPENT_ALL, over, plan=plan("story-tokens=100"))
    assert still_over(run) == over.reached
    assert apply(run, f.BudgetSet(read(("story-tokens=off",))), at(9)).over is None


def test_a_parked_story_holds_up_nothing() -> None:
    over = f.BudgetReached(Reached("story-tokens", 120, 100, "1", ONE.key), waits=True)
    paused = told(*SPENT_ALL, over, plan=plan("story-tokens=100"))
    parked = apply(paused, f.StoryParked(ONE.key, Why.SKIPPED, "later"), at(20))
    assert (paused.held_up, parked.held_up, still_over(parked)) == (over.reached, None, None)
    step = next_steps(apply(parked, loaded(), at(21)))[0]
    assert isinstance(step, RunAttempt)
    assert step.story == TWO


@pytest.mark.parametrize("how", [StopHow.NOW, StopHow.AFTER_ITERATION])
def test_a_pause_ends_with_a_stop(how: StopHow) -> None:
    run = told(*SPENT_ALL, OVER, f.StopRequested(Stop(how)), plan=plan("tokens=100"))
    assert (run.status, run.reason, run.over) == (Status.STOPPED, Reason.STOPPED, OVER.reached)
    assert next_steps(run) == (Finish(Status.STOPPED),)
    raised = apply(run, f.BudgetSet(read(("tokens=500",))), at(30))
    assert (raised.status, raised.over) == (Status.STOPPED, OVER.reached)


def test_without_anybody_there_the_run_is_stopped() -> None:
    before = told(*SPENT_ALL, plan=plan("tokens=100"))
    run = apply(before, STOPPED, at(20))
    assert (run.status, run.reason, run.error) == (
        *(Status.STOPPED, Reason.STOPPED, STOPPED.reached.said),
    )
    assert run.tallies == before.tallies
    again = apply(run, f.Resumed(plan("tokens=500")), at(99))
    assert (again.status, again.over, again.error) == (Status.RUNNING, None, "")


def test_what_happened_while_the_loop_looked_comes_first() -> None:
    stop = f.StopRequested(Stop(StopHow.NOW, 2))
    assert told(*SPENT_ALL, stop, OVER, plan=plan("tokens=100")).over is None
    raised = f.BudgetSet(read(("tokens=500",)))
    run = told(*SPENT_ALL, raised, STOPPED, plan=plan("tokens=100"))
    assert (run.status, run.over) == (Status.RUNNING, None)


def test_a_limit_and_a_budget_are_kept_apart() -> None:
    waiting = (*lost(limit=LIMIT), f.WaitStarted(0, at(60), "limit"))
    over = f.BudgetReached(Reached("time", 2, 1), waits=True)
    run = told(OPENED, loaded(), *waiting, over, plan=plan("time=1m"))
    assert next_steps(run) == (AwaitBudget("time"),)
    on = apply(run, f.BudgetSet(read(("time=1h",))), at(30))
    assert next_steps(on) == (Wait(0, None, 1, at(60)),)


def test_what_was_spent_is_not_taken_back() -> None:
    then = told(OPENED, loaded())
    now = told(OPENED, loaded(), *call(), kept())
    assert taken_back(now, then).ledger == now.ledger


def events(run: Run, fact: f.Fact, when: datetime = NOW) -> tuple[Event, ...]:
    return announce(run, fact, apply(run, fact, when))


ENOUGH = "`untildone resume demo --budget tokens=220`"
SAID = "The budget is used up: 120 of 100 tokens"
NUMBERS = {"budget": "tokens", "spent": 120, "limit": 100}


def test_events_of_a_stop() -> None:
    run = told(*SPENT_ALL, plan=plan("tokens=100"))
    error, complete, finished = events(run, STOPPED)
    data = {"message": SAID, "story_id": "", "reason": SAID, "hint": f"{ENOUGH} goes on"}
    assert error == Event("error", data | NUMBERS)
    assert complete.data["reason"] is Reason.STOPPED
    assert finished.data == {"choice": None, "status": Status.STOPPED, "notes": ()}


def test_events_of_a_pause() -> None:
    run = told(*SPENT_ALL, plan=plan("tokens=100"))
    said, waiting = events(run, OVER)
    assert str(said.data["message"]).startswith(f"{SAID}. The loop waits: type a new amount")
    assert ENOUGH in str(said.data["message"])
    assert waiting == Event("waiting", {"why": SAID, "until": None, "class": "budget"} | NUMBERS)
    paused = apply(run, OVER, NOW)
    rows = [{"name": "tokens", "limit": 110, "spent": 120}]
    assert events(paused, f.BudgetSet(read(("tokens=110",)))) == (
        warning(
            "The budget is used up: 120 of 110 tokens. That is not enough; tokens=230 would be"
        ),
        Event("budget_set", {"budgets": rows, "paused": True}),
    )
    rows = [{"name": "tokens", "limit": 500, "spent": 120}]
    assert events(paused, f.BudgetSet(read(("tokens=500",)))) == (
        Event("budget_set", {"budgets": rows, "paused": False}),
    )
    stopped = apply(run, STOPPED, NOW)
    assert [e.name for e in events(stopped, f.BudgetSet(read(("cost=1",))))] == ["budget_set"]
    assert events(stopped, STOPPED) == ()


def test_new_budgets_are_told_with_the_forecast() -> None:
    run = told(OPENED, loaded(), *call(), kept(), DONE_1)
    (event,) = events(run, f.BudgetSet(read(("tokens=300",))))
    assert event.data["forecast"] == Forecast(2, 240, 1.0, 0.07, 1, "tokens")


def told_blind(usage: Usage | None, *budgets: str, outcome: Outcome = Outcome.COMPLETE) -> str:
    before = told(OPENED, loaded(), began(), ended(outcome), plan=plan(*budgets))
    said = [e for e in events(before, measured(usage)) if e.name == "warning"]
    return " ".join(str(e.data["message"]).partition(":")[0] for e in said)


def test_an_agent_that_does_not_tell_its_use_is_told_of_once() -> None:
    no_tokens = "scripted does not say how many tokens it used"
    assert told_blind(None, "story-tokens=1", "cost=1") == no_tokens
    assert told_blind(Usage(), "tokens=5") == no_tokens
    assert told_blind(Usage(cache_read_tokens=5, cost_usd=0.1), "tokens=5", "cost=1") == ""
    assert told_blind(None, "time=5", "iterations=1") == ""
    assert told_blind(None, "tokens=5", outcome=Outcome.TIMEOUT) == ""
    facts = (OPENED, loaded(), *call(None), put_back(), loaded(), began(2), ended())
    again = told(*facts, plan=plan("tokens=5", "cost=1"))
    assert [e.name for e in events(again, measured(None))] == ["iteration_ended"]


@pytest.mark.parametrize("name", ["cost", "story-cost"])
def test_a_budget_of_money_is_not_kept_by_calls_whose_cost_nobody_knows(name: str) -> None:
    run = told(OPENED, loaded(), *call(Usage(1, 2)), put_back(), plan=plan(f"{name}=5"))
    over = reached(run, story=(ONE.id, ONE.key))
    assert over is not None
    assert (over.unknown, over.enough) == (True, f"{name}=off")
    assert "cannot be kept" in over.said
    assert reached(told(OPENED, loaded(), *call(), put_back(), plan=plan("cost=5"))) is None


TROUBLE = Trouble(Kind.OVERLOADED, "server error")


def troubled(
    n: int = 1, usage: Usage | None = USED, *, spoke: bool = False, trouble: Trouble = TROUBLE
) -> tuple[f.Fact, ...]:
    end = f.AttemptEnded(0, Outcome.AGENT_ERROR, "cut", trouble=trouble, spoke=spoke)
    return began(n), end, measured(usage), put_back()


def waited(n: int = 1) -> tuple[f.Fact, ...]:
    return f.WaitStarted(0, at(60), "server error"), f.WaitOver(0)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ("calls=3", "ended 3 calls of this story after real work; iterations: 3, and 3 is as much"),
        ("time=3s", "time: 3s, and 3s is as much as may be lost"),
        ("cost=1.5", "cost: $1.50, and $1.50 is as much as may be lost"),
        ("tokens=360", "tokens: 360, and 360 is as much as may be lost"),
    ],
)
def test_passing_trouble_after_real_work_is_bounded(budget: str, said: str) -> None:
    limits = replace(PLAN, trouble_budgets=read((budget,)))
    two = (OPENED, loaded(), *troubled(), *waited(), loaded(), *troubled())
    run = told(*two, plan=limits)
    assert (run.iterations, run.ledger.total.iterations) == ((), 0)
    assert run.unattempted.total == 240
    run = told(*two, *waited(), loaded(), *troubled(), plan=limits)
    (attempt,) = run.iterations
    assert (attempt.attempt, attempt.outcome_class) == (1, "overloaded")
    assert said in attempt.reason
    assert run.ledger.total.iterations == 1
    # It is waited out before the next attempt, which counts at once.
    assert isinstance(next_steps(run)[0], Wait)
    assert run.lanes[0].limit_hits == 2
    run = told(
        *two, *waited(), loaded(), *troubled(), *waited(), loaded(), *troubled(2), plan=limits
    )
    assert len(run.iterations) == 2
    again = apply(run, f.Resumed(limits), NOW)
    assert again.tally(ONE.key).lost == Account()


def test_passing_trouble_without_work_is_waited_out_without_end() -> None:
    limits = replace(PLAN, trouble_budgets=read(("calls=1",)))
    for usage in (None, Usage(), Usage(900, estimated=True)):
        run = told(OPENED, loaded(), *troubled(usage=usage), plan=limits)
        assert (run.iterations, run.tallies) == ((), {})
    spoke = told(OPENED, loaded(), *troubled(usage=None, spoke=True), plan=limits)
    assert "ended 1 call of this story" in spoke.iterations[0].reason


def test_a_plain_loop_counts_passing_trouble_after_real_work() -> None:
    limits = replace(PLAIN, trouble_budgets=read(("calls=1",)))
    began_plain = f.AttemptStarted(0, 1, "", ("", ""), "log")
    cut = f.AttemptEnded(0, Outcome.AGENT_ERROR, "cut", trouble=TROUBLE, spoke=True)
    run = told(OPENED, began_plain, cut, measured(), kept(), plan=limits)
    assert len(run.iterations) == 1
    assert isinstance(next_steps(run)[0], Wait)


def test_where_the_budgets_stand() -> None:
    budgets = plan("tokens=1k", "story-tokens=500")
    assert standing(told(OPENED, loaded(), plan=budgets)) == [
        {"name": "tokens", "limit": 1000, "spent": 0},
        {"name": "story-tokens", "limit": 500, "spent": 0},
    ]
    first = (OPENED, loaded(), *call(), kept(), DONE_1)
    second = (*first, began(2, TWO), ended(), measured(USED))
    assert [r["spent"] for r in standing(told(*second, plan=budgets))] == [240, 120]
    back = told(*second, put_back(), plan=budgets)
    assert [r["spent"] for r in standing(back)] == [240, 120]
    over = f.BudgetReached(Reached("story-tokens", 120, 500, "2", TWO.key), waits=True)
    assert [r["spent"] for r in standing(told(*second, put_back(), over, plan=budgets))] == [
        240,
        120,
    ]


def test_forecast() -> None:
    before = told(OPENED, loaded(), *call())
    assert forecast(before) is None
    one = (OPENED, loaded(), *call(), kept(), DONE_1)
    assert forecast(told(*one)) == Forecast(2, 240, 1.0, 0.07)
    two = (*one, began(2, TWO), ended(), measured(Usage(30)), kept("c2"))
    half = loaded(book(story(1, done=True), story(2, done=True), story(3)))
    assert forecast(told(*two, half)) == Forecast(1, 75, 0.25, 0.03)
    assert forecast(told(*two, loaded(book(story(1, done=True))))) is None
    assert forecast(told(OPENED, began(1, None), ended(), measured(), kept(), plan=PLAIN)) is None
    skipped = f.StoryParked(TWO.key, Why.SKIPPED, "later")
    assert forecast(told(*one, skipped)) == Forecast(1, 120, 0.5, 0.03)
    unknown = told(OPENED, loaded(), *call(None), kept(), DONE_1, plan=plan("tokens=5", "cost=1"))
    assert forecast(unknown) == Forecast(2, 0, None, 0.07)


@pytest.mark.parametrize(
    ("budgets", "enough_for", "name"),
    [
        (("tokens=360",), None, ""),
        (("tokens=359",), 1, "tokens"),
        (("tokens=1M", "cost=0.9"), 0, "cost"),
        (("tokens=100",), 0, "tokens"),
        (("iterations=2", "tokens=359"), 1, "iterations"),
        (("story-tokens=1",), None, ""),
    ],
)
def test_how_far_the_budgets_go(
    budgets: tuple[str, ...], enough_for: int | None, name: str
) -> None:
    run = told(OPENED, loaded(BOTH), *call(), kept(), DONE_1, plan=plan(*budgets))
    rest = forecast(run)
    assert rest is not None
    assert (rest.enough_for, rest.budget) == (enough_for, name)


# -- the lines of a story ------------------------------------------------------------------------

LINES = (
    Terms(*ONE.key, budget=("story-cost=0.4", "story-tokens=nothing")),
    Terms(*TWO.key, budget=("story-iterations=9",)),
)


def test_of_two_budgets_of_a_story_the_smaller_counts() -> None:
    both = replace(plan("cost=9", "story-cost=1", "story-iterations=2"), terms=LINES)
    assert both.budgets_of(None) == both.budgets
    assert both.budgets_of(ONE.key) == read(["cost=9", "story-cost=0.4", "story-iterations=2"])
    assert both.budgets_of(TWO.key) == both.budgets
    run = told(OPENED, loaded(), *call(), plan=replace(PLAN, terms=LINES))
    over = reached(run, None, (ONE.id, ONE.key))
    assert over == Reached("story-cost", 0.5, 0.4, ONE.id, ONE.key)
    assert reached(run) is None
    assert reached(run, None, (TWO.id, TWO.key)) is None
    assert standing(run) == [{"name": "story-cost", "limit": 0.4, "spent": 0.5}]


def test_what_the_person_says_later_takes_the_place_of_the_line() -> None:
    run = told(OPENED, loaded(), *call(), plan=replace(PLAN, terms=LINES))
    over = reached(run, None, (ONE.id, ONE.key))
    assert over
    waits = apply(run, f.BudgetReached(over, waits=True), at(20))
    assert waits.over == over
    more = apply(waits, f.BudgetSet(read(["story-cost=2"])), at(30))
    assert (more.over, more.plan.budgets_of(ONE.key)) == (None, read(["story-cost=2"]))
    assert more.plan.budgets_of(TWO.key) == read(["story-cost=2", "story-iterations=9"])
    off = waits.plan.with_budgets(read(["story-cost=off"]))
    assert off.budgets_of(ONE.key) == ()
    assert off.with_budgets(()) is off
    assert PLAN.with_budgets(read(["cost=1"])).budgets == read(["cost=1"])
