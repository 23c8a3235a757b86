"""A run of some stories: which it takes up, and how it ends."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import NOW, ONE, OPENED, PLAN, TWO, book, story
from untildone.app.announce import announce
from untildone.domain.run import fact as f
from untildone.domain.run.brief import stories_now
from untildone.domain.run.machine import apply, begin
from untildone.domain.run.run import Choice, Reason, Run, Status
from untildone.domain.stories.parking import unasked

THREE = story(3, after=("2",))
FOUR = story(4, after=("3", "9"))
ALL_FOUR = book(ONE, TWO, THREE, FOUR)


@pytest.mark.parametrize(
    ("only", "deps", "left"),
    [
        ((), False, []),
        (("all", "1"), False, []),
        (("1",), False, ["2", "3", "4"]),
        (("3",), False, ["1", "2", "4"]),
        (("3",), True, ["1", "4"]),
        (("4", "3"), True, ["1"]),
    ],
)
def test_stories_that_nobody_asked_for(
    only: tuple[str, ...], left: list[str], *, deps: bool
) -> None:
    assert sorted(key[0] for key in unasked(ALL_FOUR, only, deps=deps)) == left
    assert unasked(None, only, deps=deps) == frozenset()


def run_of(*only: str, on_complete: str = "ask") -> Run:
    plan = replace(PLAN, only=only, on_complete=on_complete)
    return apply(begin(f.Started(plan), NOW), OPENED, NOW)


def looked(run: Run, *done: int) -> Run:
    stories = book(*(story(n, done=n in done) for n in (1, 2)))
    return apply(run, stories_now(run, stories), NOW)


def test_only_what_was_asked_for_comes_next() -> None:
    run = looked(run_of("2"))
    assert run.next_story
    assert (run.next_story.id, run.status) == ("2", Status.RUNNING)


@pytest.mark.parametrize(("word", "choice"), [("ask", None), ("keep", Choice.KEEP)])
def test_it_ends_as_stopped_while_others_are_open(word: str, choice: Choice | None) -> None:
    run = run_of("2", on_complete=word)
    fact = stories_now(run, book(ONE, story(2, done=True)))
    after = apply(run, fact, NOW)
    assert (after.status, after.reason, after.choice) == (Status.STOPPED, Reason.STOPPED, choice)
    told = [e.data["message"] for e in announce(run, fact, after) if e.name == "warning"]
    assert len(told) == 1
    assert "1 other story is open" in str(told[0])


def test_it_is_done_with_the_last_open_story() -> None:
    assert looked(run_of("2"), 1, 2).status is Status.DONE
