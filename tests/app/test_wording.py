"""Words for people in place of those of the state file."""

from datetime import UTC, datetime

import pytest

from untildone.app.wording import last_sign, outcome_words, parked_words, reason_words
from untildone.domain.agents.agent import Kind
from untildone.domain.run.run import Outcome, Reason
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
