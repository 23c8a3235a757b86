"""Facts are the run: told again they give the same one, also after a trip through the journal."""

import json
from collections import Counter
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.domain.walk import Walk, plans, stops, walked, wishes, words
from tests.fakes.plans import BOTH, LIMITS, ORIGIN, PLAN, at
from untildone.adapters.records import codec
from untildone.domain.agents.agent import Kind, Session, Trouble, Usage
from untildone.domain.checks.checks import Failing
from untildone.domain.costs.budget import Budget, Reached, Reserved
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.machine import apply, begin
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Choice, Iteration, Outcome, Run, Stop, StopHow
from untildone.domain.stories.parking import Why

REQUESTS = st.one_of(stops(*StopHow), words(), wishes())
NO_RENEWAL = st.one_of(stops(*StopHow), words(), wishes(renew=False))
SPENT = set(Outcome) - {Outcome.INTERRUPTED, Outcome.COMPLETE}
FACTS: list[f.Fact] = [
    f.Started(replace(PLAN, verify=("a", "b"), limits=replace(LIMITS, timeout_min=0.5))),
    f.Opened(ORIGIN, "c0", "refs/ralph/backup/demo/r1", "refs/ralph/archive/demo/1", ("x",)),
    f.StoriesLoaded(3, 1, done=False),
    f.ChecksTried((Failing("make test", "exit code 1", ("a", "b")),), ("junk",)),
    f.AttemptStarted(
        0, 2, "1", ("1", "Log in"), "logs/2", "codex", "m1", Session("s0"), ("make one",)
    ),
    f.AttemptEnded(
        *(0, Outcome.FAILED, "why", ("a1", "a2"), Usage(1, 2, 3, 4, 0.5, estimated=True)),
        *(Trouble(Kind.QUOTA_EXHAUSTED, "usage limit", at(60.125)), Session("s1", Usage(9))),
    ),
    f.AttemptStarted(1, 3, "2", ("2", "B"), "logs/3", base="c0", reserved=Reserved(9, 0.5)),
    f.AttemptEnded(0, Outcome.NO_PROMISE),
    f.UsageMeasured(0, Usage(1, 2), ("odd",)),
    f.UsageMeasured(0, None),
    f.Verified(0, passed=True, still_failing=(Failing("make test", "timeout"),)),
    f.Verified(0, passed=False, reason="red\n\u2028 \U0001f600"),
    f.Saved(0, "c1", "c1", ("boxes",)),
    f.SlotReady(1, "/slots/1", ("set up",)),
    f.LandIntended(1, "c0", "c1"),
    f.Landed(1, "c1", ("boxes",), flaky=("make test",)),
    f.Requeued(1, "a conflict", ("a.py",), "refs/ralph/attempts/demo/2/1"),
    f.Reverted(0, "refs/ralph/attempts/demo/1/1", ("moved",)),
    f.StoriesLoaded(
        1, 0, done=False, marked=((("1", "A"), "?"),), settled=(("2", "B"),), held=True
    ),
    f.StoryParked(("1", "Log in"), Why.SKIPPED, "later", "refs/ralph/attempts/demo/1/1"),
    f.StoryRetried(("1", "Log in")),
    f.StoriesReordered((("2", "B"), ("1", "A"))),
    f.StoryAdded(("3", "C")),
    f.Guided("Tabs.", ("1", "A"), "7"),
    f.Guided("Tabs."),
    f.GuidanceCleared(("1", "A")),
    f.GuidanceCleared(),
    f.GivenUp(("1", "A")),
    f.Archived("archive/demo", "", "c3", "c3", ("moved",)),
    f.WaitStarted(0, at(61), "limit", Kind.HUNG),
    f.SteppedIn(0, "codex", "m1", at(61), "limit"),
    f.WaitOver(0),
    f.BudgetReached(Reached("story-cost", 1.5, 1.0, "1", ("1", "Log in")), waits=True),
    f.BudgetReached(Reached("tokens", 5.0, 4.0)),
    f.BudgetSet((Budget("tokens", 9.0), Budget("time", 1.5))),
    f.PersonDone(),
    f.StopRequested(Stop(StopHow.AFTER_STORY)),
    f.StopRequested(Stop(StopHow.NOW, 15)),
    f.ChoiceMade(Choice.CLEANUP),
    f.Closed(Choice.KEEP, ("stored",)),
    f.Refused(Choice.CLEANUP, "conflict", "merge"),
    f.StepFailed("Save", "disk", "room"),
    f.Resumed(PLAN),
    f.AskedAgain(replace(PLAN, model="better")),
    f.Adopted(0, "c2", ("edits",)),
    f.Abandoned("restored"),
    f.TakenBack(3),
    f.StoryUndone(("1", "A"), "c4"),
]


def through_json(fact: f.Fact) -> f.Fact:
    return codec.decode(type(fact), json.loads(json.dumps(codec.encode(fact))))


def folded(plan: Plan, facts: list[f.Fact]) -> Run:
    run = begin(f.Started(plan), at(0))
    for k, fact in enumerate(facts, 1):
        run = apply(run, fact, at(k))
    return run


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_every_fact_survives_the_journal(fact: f.Fact) -> None:
    assert through_json(fact) == fact


def test_no_fact_is_forgotten_here() -> None:
    assert {type(fact) for fact in FACTS} == set(f.Fact.__args__)


def test_the_book_is_not_journalled() -> None:
    fact = f.StoriesLoaded(2, 0, done=False, book=BOTH)
    assert through_json(fact) == replace(fact, book=None)


@given(plans(), st.data())
def test_the_same_facts_give_the_same_run(plan: Plan, data: st.DataObject) -> None:
    walk = walked(plan, data, REQUESTS)
    assert folded(plan, walk.facts) == walk.run


@given(plans(), st.data())
def test_a_journal_gives_the_same_run(plan: Plan, data: st.DataObject) -> None:
    walk = walked(plan, data, REQUESTS)
    replayed = folded(plan, [through_json(fact) for fact in walk.facts])
    assert replace(replayed, book=None) == replace(walk.run, book=None)


@given(plans(), st.data())
def test_what_always_holds(plan: Plan, data: st.DataObject) -> None:
    walk = walked(plan, data, NO_RENEWAL)
    run = walk.run
    assert [it.n for it in run.iterations] == list(range(1, len(run.iterations) + 1))
    assert len(run.iterations) <= max(plan.limits.max_iterations, 0)
    assert all(it.ended and it.outcome for it in run.iterations)
    if not plan.plain:
        calls = Counter(it.story_key for it in run.iterations if _spent(it))
        assert all(n <= 1 + plan.limits.max_retries for n in calls.values())
        kept = [it.story_key for it in run.iterations if it.outcome is Outcome.COMPLETE]
        assert frozenset(kept) == run.finished
        assert len(kept) == len(run.finished)
    assert [type(step) for step in walk.steps].count(s.Open) == 1
    _check_events(walk)


def _spent(iteration: Iteration) -> bool:
    return iteration.outcome in SPENT and not iteration.question


def _check_events(walk: Walk) -> None:
    names = [event.name for event in walk.events]
    started = [e.data["n"] for e in walk.events if e.name == "iteration_started"]
    ended = [e.data["n"] for e in walk.events if e.name == "iteration_ended"]
    assert started == sorted(cast("list[int]", started))
    assert len(set(ended)) == len(ended)
    assert set(ended) <= set(started)
    if walk.run.closed:
        assert names[-1] == "finished" or walk.run.stop is not None
