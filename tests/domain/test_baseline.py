"""What failed before the first story, compared with what fails now."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import (
    BOTH,
    OPENED,
    PLAIN,
    PLAN,
    TWO,
    began,
    ended,
    kept,
    loaded,
    measured,
    put_back,
    told,
)
from untildone.app.wording import already_fails, let_through
from untildone.domain.checks.baseline import Compared, compare, failing, listed
from untildone.domain.checks.checks import Check, Checked, Failing
from untildone.domain.checks.counted_tests import Counts
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.machine import next_steps, required_at_start, tries_checks
from untildone.domain.run.plan import Done, Plan

ABC = Failing("t", "exit code 1", ("a", "b", "c"))
BARE = Failing("t", "exit code 1")
COMPARED = {
    "never failed before": ((), BARE, Compared(new=("t",))),
    "never failed, with names": ((), ABC, Compared(new=("a", "b", "c"))),
    "another check failed": ((Failing("u", "exit code 1"),), BARE, Compared(new=("t",))),
    "the same names": ((ABC,), ABC, Compared(old=("a", "b", "c"))),
    "fewer names": ((ABC,), replace(ABC, names=("b",)), Compared(old=("b",))),
    "another exit code, fewer names": (
        (ABC,),
        replace(ABC, how="exit code 2", names=("b",)),
        Compared(old=("b",)),
    ),
    "a new name": ((ABC,), replace(ABC, names=("a", "d")), Compared(("d",), ("a",))),
    "the same exit code": ((BARE,), BARE, Compared(old=("t",))),
    "names where there were none": ((BARE,), ABC, Compared(old=("a", "b", "c"))),
    "another exit code": (
        (BARE,),
        replace(BARE, how="exit code 2"),
        Compared(new=("t (exit code 2, before: exit code 1)",)),
    ),
    "names are gone": (
        (ABC,),
        BARE,
        Compared(new=("t (exit code 1, before: exit code 1)",)),
    ),
    "out of time with old names": (
        (ABC,),
        replace(ABC, how="timeout", names=("a",)),
        Compared(new=("t (timeout, before: exit code 1)",)),
    ),
    "still out of time": (
        (replace(BARE, how="timeout"),),
        replace(BARE, how="timeout"),
        Compared(old=("t",)),
    ),
}


@pytest.mark.parametrize("name", COMPARED)
def test_compared(name: str) -> None:
    known, now, result = COMPARED[name]
    assert compare(now, known) == result


def test_what_is_remembered() -> None:
    checked = Checked("why", "exit code 1", "FAILED tests/a.py::b - no\n")
    assert failing(Check("t"), checked) == Failing("t", "exit code 1", ("tests/a.py::b",))


def test_sentences() -> None:
    assert already_fails(BARE, baseline=False) == (
        "already fails before the first story: `t` (exit code 1); a story is finished only when "
        "it passes; `--baseline` lets old failures through"
    )
    assert already_fails(ABC, baseline=True) == (
        "already fails before the first story: `t` (exit code 1, a, b, c); only what is newly "
        "broken blocks a story"
    )
    assert let_through(ABC, ("a",)) == "Old failures of `t` were let through: a"
    assert listed(tuple("abcdefghijkl")) == "a, b, c, d, e, f, g, h, i, j and 2 more"


START = replace(PLAN, verify=("warn: w", "t", "off: o"), verify_start=True)
DUE = {
    "a story": (START, (OPENED, loaded()), s.TryChecks(0, "1")),
    "for the baseline": (
        replace(START, verify_start=False, baseline=True),
        (OPENED, loaded()),
        s.TryChecks(0, "1"),
    ),
    "a promise": (
        replace(START, plain=True, done=Done.PROMISE),
        (OPENED,),
        s.TryChecks(0, "iteration-1"),
    ),
}
NOT_DUE = {
    "not wanted": (replace(START, verify_start=False), (OPENED, loaded())),
    "no required check": (replace(START, verify=("warn: w",)), (OPENED, loaded())),
    "checks that never run": (replace(START, plain=True, done=Done.MANUAL), (OPENED,)),
    "tried": (START, (OPENED, loaded(), f.ChecksTried())),
}


@pytest.mark.parametrize("name", DUE)
def test_checks_are_tried_before_the_first_story(
    name: str,
) -> None:
    plan, facts, step = DUE[name]
    run = told(*facts, plan=plan)
    assert required_at_start(run) == (Check("t"),)
    assert next_steps(run) == (step,)
    assert tries_checks(run)


@pytest.mark.parametrize("name", NOT_DUE)
def test_checks_are_not_tried(name: str) -> None:
    plan, facts = NOT_DUE[name]
    run = told(*facts, plan=plan)
    assert isinstance(next_steps(run)[0], s.RunAttempt)
    assert not tries_checks(run)


BASELINE = replace(PLAN, verify=("t",), baseline=True)


def known_after(*facts: f.Fact, plan: Plan = BASELINE) -> tuple[Failing, ...] | None:
    first = (OPENED, loaded(), f.ChecksTried((ABC,)), began(), ended(), measured())
    return told(*first, *facts, plan=plan).known_failures


LESS = (replace(ABC, names=("a",)),)


def test_what_a_finished_story_mended_is_old_no_more() -> None:
    passed = f.Verified(0, passed=True, still_failing=LESS)
    assert known_after(passed) == (ABC,)
    assert known_after(passed, kept()) == LESS
    assert known_after(f.Verified(0, passed=True), kept()) == ()
    next_story = (loaded(BOTH), began(2, TWO), ended(), measured())
    mended = f.Verified(0, passed=True)
    assert known_after(passed, kept(), *next_story, mended, kept("c2")) == ()


def test_an_attempt_that_is_put_back_mended_nothing() -> None:
    lost = f.Verified(0, passed=False, reason="story lost")
    passed = f.Verified(0, passed=True, still_failing=LESS)
    assert known_after(passed, lost, put_back()) == (ABC,)
    assert known_after(f.Verified(0, passed=False, reason="red"), put_back()) == (ABC,)


def test_without_a_baseline_nothing_is_forgotten() -> None:
    plan = replace(BASELINE, baseline=False, verify_start=True)
    assert known_after(f.Verified(0, passed=True), kept(), plan=plan) == (ABC,)


def test_a_plain_loop_without_checks_has_no_baseline() -> None:
    plain = replace(PLAIN, baseline=True)
    run = told(OPENED, began(1, None), ended(), measured(), kept(), plan=plain)
    assert run.known_failures is None


def test_a4_failures_behind_an_exit_code_of_0_are_compared_by_number() -> None:
    hidden = "exit code 0, but its runner counted {} failed"
    two = Failing("t", hidden.format(2))
    assert compare(Failing("t", hidden.format(1)), (two,)) == Compared(old=("t",))
    assert compare(two, (two,)) == Compared(old=("t",))
    assert compare(Failing("t", hidden.format(3)), (two,)).new
    assert compare(BARE, (two,)).new


def test_a4_names_that_a_pipe_cut_short_are_not_compared() -> None:
    row, how = "FAILED test_a.py::test_a", "exit code 0, but its runner counted 2 failed"
    assert failing(Check("t"), Checked("r", how, row, tests=Counts(0, 2))).names == ()
    assert failing(Check("t"), Checked("r", how, row, tests=Counts(0, 1))).names
