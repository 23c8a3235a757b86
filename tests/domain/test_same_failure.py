"""The same failure again: how it is known, and who is asked then."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import (
    ONE,
    OPENED,
    PLAN,
    TWO,
    began,
    ended,
    loaded,
    lost,
    measured,
    told,
    tried,
)
from untildone.app.announce import announce
from untildone.domain.agents.same_failure import REMEMBERED, Tried, fingerprint, next_rung, repeats
from untildone.domain.checks.terms import Terms
from untildone.domain.run import fact as f
from untildone.domain.run.brief import conversation
from untildone.domain.run.machine import next_steps
from untildone.domain.run.plan import Limits, Plan
from untildone.domain.run.run import Outcome, Run
from untildone.domain.run.step import RunAttempt
from untildone.domain.stories.parking import Why

LADDER = replace(
    PLAN,
    agent="claude",
    ladder=("claude:haiku", "claude:opus", "codex"),
    limits=Limits(max_retries=5, max_iterations=99),
)

SAME = {
    "numbers": ("3 of 12 tests failed", "4 of 13 tests failed"),
    "durations": ("1 failed in 0.12s", "1 failed in 11.5 s"),
    "more durations": ("took 5 minutes", "took 1 min"),
    "times": ("2026-01-02T03:04:05.678Z: no", "2027-11-12 13:14:15: no"),
    "clock times": ("at 03:04:05", "at 13:14:15"),
    "commits": ("bad object 1a2b3c4d5e", "bad object 99887766ffeeddccbbaa"),
    "addresses": ("<Foo at 0x7f00dead>", "<Foo at 0x7fffbeef>"),
    "made-up names": (
        "job 123e4567-e89b-12d3-a456-426614174000 died",
        "job 00000000-1111-2222-3333-444444444444 died",
    ),
    "temporary places": ("no such file: /tmp/abc/x.py", "no such file: /tmp/def-2/y/z.py"),
    "temporary places of macOS": ("in /private/var/folders/a/b: no", "in /var/folders/c/d: no"),
    "colours": ("\x1b[31mred\x1b[0m", "red"),
    "space and case": ("It  Failed\n here", "it failed here"),
}
DIFFERENT = {
    "words": ("no network", "no disk"),
    "names of tests": ("FAILED test_a", "FAILED test_b"),
    "places": ("no such file: src/a.py", "no such file: src/b.py"),
    "words of hex letters": ("the facade broke", "the decade broke"),
}


@pytest.mark.parametrize("name", SAME)
def test_what_chance_put_in_makes_no_other_failure(name: str) -> None:
    one, two = SAME[name]
    assert fingerprint("failed", one) == fingerprint("failed", two)
    assert fingerprint("failed", one) != fingerprint("verify_failed", one)


@pytest.mark.parametrize("name", DIFFERENT)
def test_other_failures_are_other_failures(name: str) -> None:
    one, two = DIFFERENT[name]
    assert fingerprint("failed", one) != fingerprint("failed", two)


def row(*whys: str) -> tuple[Tried, ...]:
    """Attempts by their reasons; `x@tree` left these files."""
    parts = [why.partition("@") for why in whys]
    return tuple(tried(n, why=why, tree=tree) for n, (why, _, tree) in enumerate(parts, 1))


REPEATS = {
    "none": (row(), 0),
    "one": (row("a"), 1),
    "two": (row("a", "a"), 2),
    "another one": (row("a", "a", "b"), 1),
    "again": (row("b", "a", "a", "a"), 3),
    "one in between": (row("a", "b", "a"), 1),
    "the same files with another excuse": (row("a@t1", "b@t2", "c@t1"), 2),
    "back and forth": (row("a@t1", "b@t2", "a@t1", "b@t2"), 3),
    "nothing changed is not the same files": (row("a", "b", "c"), 1),
}


@pytest.mark.parametrize("name", REPEATS)
def test_failures_in_a_row(name: str) -> None:
    attempts, expected = REPEATS[name]
    assert repeats(attempts) == expected


def on(rung: int, *whys: str) -> tuple[Tried, ...]:
    return tuple(replace(attempt, rung=rung) for attempt in row(*whys))


RUNGS = {
    "a new story": ((), 3, False, 0),
    "its last attempt is its first": ((), 3, True, 0),
    "one failure": (on(0, "a"), 3, False, 0),
    "two the same": (on(0, "a", "a"), 3, False, 0),
    "three the same": (on(0, "a", "a", "a"), 3, False, 1),
    "and on": (on(1, "a", "a", "a", "a"), 3, False, 2),
    "the last rung": (on(2, "a", "a", "a", "a"), 3, False, 2),
    "another failure stays on its rung": (on(1, "a", "b"), 3, False, 1),
    "the last attempt": (on(0, "a", "b"), 3, True, 1),
    "the last attempt, climbed before": (on(1, "a", "b"), 3, True, 1),
    "no ladder": (on(0, "a", "a", "a", "a"), 1, True, 0),
}


@pytest.mark.parametrize("name", RUNGS)
def test_rungs(name: str) -> None:
    attempts, rungs, last, expected = RUNGS[name]
    assert next_rung(attempts, rungs, last=last) == expected


def called(run: Run) -> tuple[str, str]:
    (step,) = next_steps(run)
    assert isinstance(step, RunAttempt)
    return run.plan.rungs[step.rung]


def attempt(n: int, run: Run, outcome: Outcome) -> tuple[f.Fact, ...]:
    (step,) = next_steps(run)
    assert isinstance(step, RunAttempt)
    started = replace(began(n), rung=step.rung)
    return started, ended(outcome, "why"), measured(), f.Reverted(0, f"refs/{n}"), loaded()


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.TIMEOUT, Outcome.AGENT_ERROR])
def test_a_story_climbs_and_the_next_story_starts_below(outcome: Outcome) -> None:
    facts: tuple[f.Fact, ...] = (OPENED, loaded())
    rungs = []
    for n in range(1, 7):
        run = told(*facts, plan=LADDER)
        rungs.append(called(run))
        facts += attempt(n, run, outcome)
    haiku, opus, codex = ("claude", "haiku"), ("claude", "opus"), ("codex", "")
    assert rungs == [haiku, haiku, haiku, opus, codex, codex]
    other = told(OPENED, loaded(), *lost(1), loaded(), plan=LADDER)
    assert called(replace(other, finished=frozenset({ONE.key}))) == haiku


def test_the_plan_knows_every_agent_once() -> None:
    plan = replace(
        LADDER, fallback="goose:x", model="sonnet", ladder=("claude", "codex", "claude:o")
    )
    assert plan.rungs == (("claude", "sonnet"), ("codex", ""), ("claude", "o"))
    assert plan.agents == ("claude", "codex", "goose")
    assert PLAN.rungs == (("scripted", ""),)


def retrying(plan: Plan, *facts: f.Fact) -> dict[str, object]:
    *before, fact = facts
    then = told(*before, plan=plan)
    (event,) = [e for e in announce(then, fact, told(*facts, plan=plan)) if e.name == "retrying"]
    return {k: v for k, v in event.data.items() if k in ("same_failure", "agent")}


def test_the_retry_says_that_it_is_the_same_failure_and_who_takes_over() -> None:
    facts: tuple[f.Fact, ...] = (OPENED, loaded())
    said = []
    for n in (1, 2, 3):
        facts += lost(n)
        said.append(retrying(LADDER, *facts))
        facts += (loaded(),)
    assert said == [{}, {"same_failure": 2}, {"same_failure": 3, "agent": "claude:opus"}]


def test_only_so_many_attempts_are_remembered() -> None:
    plan = replace(PLAN, limits=Limits(max_retries=99, max_iterations=99))
    facts = [fact for n in range(1, REMEMBERED + 3) for fact in lost(n)]
    remembered = told(OPENED, loaded(), *facts, plan=plan).tally(ONE.key).tried
    assert [each.attempt for each in remembered] == list(range(3, REMEMBERED + 3))


def test_a_conversation_belongs_to_its_rung() -> None:
    run = told(OPENED, loaded(), *lost(1))
    (entry,) = run.iterations
    assert entry.rung == 0
    assert conversation(run, ONE.key, "", 1) is None


PARKS = replace(PLAN, on_stuck="park", limits=Limits(max_retries=5, max_iterations=99))


def three(first: int = 1) -> tuple[f.Fact, ...]:
    return tuple(fact for n in range(first, first + 3) for fact in (*lost(n), loaded()))


def test_on_stuck_park_passes_over_after_the_third_identical_failure() -> None:
    run = told(OPENED, loaded(), *three(), plan=PARKS)
    assert run.parked[ONE.key].why is Why.STUCK
    assert (run.parked[ONE.key].text, run.parked[ONE.key].saved_ref) == ("why", tried().saved_ref)
    (step,) = next_steps(run)
    assert isinstance(step, RunAttempt)
    assert step.story == TWO
    assert not told(OPENED, loaded(), *three()[:-5], plan=PARKS).parked
    assert told(OPENED, loaded(), *three()).parked == {}


def test_with_a_ladder_it_is_parked_when_no_rung_is_left() -> None:
    plan = replace(LADDER, on_stuck="park")
    facts: tuple[f.Fact, ...] = (OPENED, loaded())
    parked = []
    for n in range(1, 6):
        facts += attempt(n, told(*facts, plan=plan), Outcome.TIMEOUT)
        parked.append(ONE.key in told(*facts, plan=plan).parked)
    assert parked == [False, False, False, False, True]


def test_after_a_resume_the_failures_are_counted_anew() -> None:
    stuck = (OPENED, loaded(), *three(), f.Resumed(PARKS), loaded())
    assert told(*stuck, *three(4)[:-5], plan=PARKS).parked == {}
    assert ONE.key in told(*stuck, *three(4), plan=PARKS).parked


NAMED = {
    "nothing": ("", "", LADDER.rungs),
    "a rung": ("", "opus", LADDER.rungs[1:]),
    "an agent that is a rung": ("codex", "", LADDER.rungs[2:]),
    "another agent takes the place of the first": (
        *("goose", "x"),
        (("goose", "x"), *LADDER.rungs[1:]),
    ),
    "another model, too": ("", "sonnet", (("claude", "sonnet"), *LADDER.rungs[1:])),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_story_begins_with_whom_it_names(name: str) -> None:
    agent, model, rungs = NAMED[name]
    plan = replace(LADDER, terms=(Terms("1", "Story 1", agent=agent, model=model),))
    assert plan.rungs_of(("1", "Story 1")) == rungs
    assert plan.rungs_of(("2", "Story 2")) == LADDER.rungs
    assert set(plan.workers) == {*LADDER.rungs, rungs[0]}
    assert replace(plan, ladder=()).rungs_of(("1", "Story 1"))[1:] == ()
