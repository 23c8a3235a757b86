"""Budgets as they are typed, read and said."""

import pytest

from untildone.domain.costs.budget import (
    EXAMPLES,
    Budget,
    Reached,
    known,
    merged,
    parsed,
    read,
    said,
)

READ = {
    "tokens=350": Budget("tokens", 350),
    "tokens=200k": Budget("tokens", 200_000),
    " Tokens = 2M ": Budget("tokens", 2_000_000),
    "tokens=1.5m": Budget("tokens", 1_500_000),
    "tokens=2_000": Budget("tokens", 2_000),
    "cost=5": Budget("cost", 5),
    "cost=$5": Budget("cost", 5),
    "cost=5usd": Budget("cost", 5),
    "cost=.5 USD": Budget("cost", 0.5),
    "cost=1.50$": Budget("cost", 1.5),
    "time=90": Budget("time", 90),
    "time=90m": Budget("time", 90),
    "time=90 min": Budget("time", 90),
    "time=1.5h": Budget("time", 90),
    "time=1h30m": Budget("time", 90),
    "time=1h30": Budget("time", 90),
    "time=2d": Budget("time", 2880),
    "time=45s": Budget("time", 0.75),
    "iterations=20": Budget("iterations", 20),
    "story_tokens=200k": Budget("story-tokens", 200_000),
    "story-cost=1.50": Budget("story-cost", 1.5),
    "cost=off": Budget("cost", 0),
    "time=none": Budget("time", 0),
}


@pytest.mark.parametrize("text", READ)
def test_amounts(text: str) -> None:
    assert parsed(text) == (READ[text],)


@pytest.mark.parametrize(
    "text",
    [
        *("tokens", "tokens=", "tokens=lots", "tokens=-1", "tokens=0", "tokens=$5", "tokens=2G"),
        *("cost=5eur", "cost=0", "cost=five", "time=", "time=0h", "time=soon", "time=1h2h"),
        *("iterations=1.5", "iterations=2k", "iterations=0", "story-time=x"),
    ],
)
def test_a_wrong_amount_is_answered_with_an_example(text: str) -> None:
    name = text.partition("=")[0]
    with pytest.raises(ValueError, match=rf"write for example `{name}={EXAMPLES[name]}`"):
        parsed(text)


@pytest.mark.parametrize(
    ("text", "said_back"),
    [
        ("token=5", "did you mean `tokens=5`?"),
        ("coste=lots", "did you mean `cost=10`?"),
        ("story-costs=5", "did you mean `story-cost=5`?"),
        ("xyz=5", "write for example `tokens=2M`?"),
        ("", "write for example `tokens=2M`?"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(text: str, said_back: str) -> None:
    with pytest.raises(ValueError, match="is no budget") as wrong:
        parsed(text)
    assert str(wrong.value).endswith(said_back)


def test_several_and_the_later_one_wins() -> None:
    texts = read(("tokens=1k,time=1h", "cost=5", "tokens=2k"))
    assert merged((), texts) == (Budget("tokens", 2000), Budget("cost", 5), Budget("time", 60))
    assert merged(texts, read(("cost=off", "time=2h"))) == (
        *(Budget("tokens", 2000), Budget("time", 120)),
    )


@pytest.mark.parametrize(
    ("budget", "written"),
    [
        (Budget("tokens", 350), "tokens=350"),
        (Budget("tokens", 820_000), "tokens=820k"),
        (Budget("tokens", 1_200_000), "tokens=1.2M"),
        (Budget("tokens", 12_345_670), "tokens=12345.67k"),
        (Budget("tokens", 12_345_671), "tokens=12345671"),
        (Budget("cost", 5), "cost=5"),
        (Budget("cost", 1234567.5), "cost=1234567.5"),
        (Budget("time", 90), "time=1.5h"),
        (Budget("time", 50), "time=50m"),
        (Budget("time", 0.75), "time=0.75m"),
        (Budget("iterations", 20), "iterations=20"),
        (Budget("story-tokens", 2000), "story-tokens=2k"),
        (Budget("cost", 0), "cost=off"),
    ],
)
def test_what_is_written_is_read_again(budget: Budget, written: str) -> None:
    assert budget.written == written
    assert parsed(written) == (budget,)


@pytest.mark.parametrize(
    ("name", "amount", "words"),
    [
        ("tokens", 0, "0"),
        ("tokens", 999, "999"),
        ("tokens", 3_000, "3k"),
        ("tokens", 4_980, "4980"),
        ("tokens", 10_040, "10k"),
        ("tokens", 2_000_000, "2M"),
        ("tokens", 412_345, "412.3k"),
        ("story-tokens", 400_000, "400k"),
        ("tokens", 1_240_000, "1.24M"),
        ("cost", 0.0, "$0.00"),
        ("cost", 0.0012, "$0.0012"),
        ("story-cost", 1.5, "$1.50"),
        ("time", 0.5, "30s"),
        ("time", 2.5, "2m 30s"),
        ("time", 90, "1h 30m"),
        ("time", 60, "1h"),
        ("iterations", 5.0, "5"),
    ],
)
def test_amounts_in_words(name: str, amount: float, words: str) -> None:
    assert said(name, amount) == words


def test_a_used_up_budget_says_what_would_do() -> None:
    of_run = Reached("tokens", 412_345, 400_000)
    assert of_run.said == "The budget is used up: 412.3k of 400k tokens"
    assert of_run.enough == "tokens=820k"
    of_story = Reached("story-cost", 1.234, 1.0, "2", ("2", "Session"))
    assert of_story.said == "The budget of story 2 is used up: $1.23 of $1.00"
    assert of_story.enough == "story-cost=2.3"
    assert Reached("iterations", 3, 3).enough == "iterations=6"
    assert Reached("iterations", 3, 3).said == "The budget is used up: 3 of 3 iterations"


def test_texts_that_are_budgets_are_left_as_they_are() -> None:
    assert known(("cost=5", "time=8h")) == ("cost=5", "time=8h")
    with pytest.raises(ValueError, match="soon"):
        known(("time=soon",))
