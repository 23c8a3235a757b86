"""Words for people in place of those of the state file."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tests.fakes.plans import BOTH, ONE, OPENED, PLAN, TWO, book, loaded, story, told
from untildone.app.verify import NOTHING_DONE
from untildone.app.wording import (
    call_words,
    how_to_go_on,
    last_sign,
    outcome_words,
    parked_words,
    reason_words,
    red_hint,
    restored_hint,
    whole_is_red,
)
from untildone.domain.agents.agent import Kind
from untildone.domain.costs.budget import Reached
from untildone.domain.run import fact as f
from untildone.domain.run.run import RESTORED, Outcome, Reason, Run
from untildone.domain.run.user_requests import waits_for_person
from untildone.domain.stories.parking import Why


@pytest.mark.parametrize("word", [*Outcome, *Kind, "question"])
def test_every_outcome_has_words(word: str) -> None:
    assert "_" not in outcome_words(word)


@pytest.mark.parametrize("word", Reason)
def test_every_reason_has_words(word: str) -> None:
    assert "_" not in reason_words(word)


@pytest.mark.parametrize("why", Why)
def test_every_parked_story_has_words(why: Why) -> None:
    assert "parked" not in parked_words(why)


def test_a_word_of_a_later_release_is_shown_without_underscores() -> None:
    assert (outcome_words("to_come"), reason_words("to_come")) == ("to come", "to come")
    assert parked_words("asleep") == "is parked (asleep)"


def test_the_last_sign_of_life_has_a_day_and_a_time() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert last_sign(at) == f"last sign of life: {at.astimezone():%b %d %H:%M:%S}"


def waiting(*parked: f.StoryParked) -> Run:
    """A run that ended with these stories set aside."""
    return told(OPENED, loaded(), *parked, replace(loaded(), held=True))


@pytest.mark.parametrize(
    ("why", "command"),
    [
        (Why.QUESTION, '`untildone guide demo --story 1 "your answer"`, then'),
        (Why.SKIPPED, "`untildone retry demo 1`, then"),
        (Why.FAILED, "`untildone resume demo` goes on"),
    ],
)
@pytest.mark.parametrize("seen", [True, False], ids=["stories known", "stories not known"])
def test_how_to_go_on_is_what_works(why: Why, command: str, *, seen: bool) -> None:
    run = waiting(f.StoryParked(ONE.key, why), f.StoryParked(TWO.key, Why.SKIPPED))
    assert run.reason is Reason.PARKED
    said = how_to_go_on(replace(run, book=BOTH if seen else None))
    assert said.startswith(command)


def test_a_marked_story_waits_for_its_answer_and_an_open_one_for_nobody() -> None:
    run = waiting(f.StoryParked(TWO.key, Why.SKIPPED))
    asking = replace(ONE, tasks=(replace(ONE.tasks[0], asks=True),))
    assert waits_for_person(run, book(asking, TWO)) == {
        TWO.key: Why.SKIPPED,
        ONE.key: Why.MARKED,
    }
    assert waits_for_person(run, BOTH) == {}
    assert waits_for_person(run, book(story(1, done=True), story(2, done=True))) == {}


def test_a_whole_that_is_red_names_the_command_that_takes_the_story_out() -> None:
    error = whole_is_red("2", "0123456789abcdef", "`make` failed")
    assert "story 2 (0123456789ab). `make` failed" in error
    assert "`untildone undo demo --story 2`" in red_hint("demo", error)
    assert "--story ID`" in red_hint("demo", "of an earlier release")


def test_a_run_without_a_budget_left_goes_on_with_a_higher_one() -> None:
    over = Reached("cost", 5.0, 5.0)
    run = replace(told(OPENED, loaded()), over=over)
    assert how_to_go_on(run) == f"`untildone resume demo --budget {over.enough}` goes on"


@pytest.mark.parametrize(
    ("checkpoint", "hint"),
    [
        ("branch", "`untildone run demo` starts anew, `untildone undo` takes the restore back"),
        ("worktree", "`untildone run demo` starts anew"),
    ],
)
def test_a_restored_run_says_what_to_type(checkpoint: str, hint: str) -> None:
    plan = replace(PLAN, checkpoint=checkpoint)
    run = told(OPENED, loaded(), f.Abandoned(f"{RESTORED}; stored as x"), plan=plan)
    assert run.restored
    assert restored_hint(run) == hint
    assert not told(OPENED, f.Abandoned("given up")).restored


def test_a_call_that_asks_is_told_by_its_question_alone() -> None:
    assert call_words(Outcome.NO_PROMISE, "the agent asks: Which?") == ("the agent asks", "Which?")
    assert call_words(Outcome.VERIFY_FAILED, NOTHING_DONE) == ("not accepted", NOTHING_DONE)
    assert call_words(Outcome.COMPLETE, None) == ("complete", "")
