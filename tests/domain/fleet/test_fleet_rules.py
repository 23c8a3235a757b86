"""Orders, the progress of a change, and accounts: values only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untildone.domain.fleet.account import Account
from untildone.domain.fleet.order import (
    ChangeOrder,
    LandResult,
    Stories,
    StoryResult,
    StoryRow,
    Verdict,
    plain_address,
)
from untildone.domain.fleet.progress import MOST_REASON, Progress, State

ROWS = (StoryRow("1", "One", done=True), StoryRow("2", "Two", done=False))


@pytest.mark.parametrize(
    ("address", "plain"),
    [
        ("https://ada:secret@host/team/app.git", "https://host/team/app"),
        ("ssh://git@host/app/", "ssh://host/app"),
        ("git@host:team/app.git", "git@host:team/app"),
        ("/srv/app.git", "/srv/app"),
    ],
)
def test_an_address_names_a_repository_without_its_user(address: str, plain: str) -> None:
    assert plain_address(address) == plain
    order = ChangeOrder(address, "c")
    assert order.workflow_id == f"change/{plain}/c"
    assert order.branch == "ralph/c"
    assert len(order.fairness_key.encode()) <= 64
    assert "secret" not in order.fairness_key


def test_finished_stories_are_counted_once_and_the_next_open_one_comes() -> None:
    start = Progress().loaded(Stories(ROWS, "host"))
    assert (start.next_story, start.finished) == ("2", ("1",))
    done = start.ended(StoryResult("2", Verdict.DONE, "b", cost_usd=0.5, calls=2, verified=True))
    assert (done.status, done.next_story, done.finished) == (State.QUEUED, "", ("1", "2"))
    again = done.ended(StoryResult("2", Verdict.SKIPPED, "c", cost_usd=0.25))
    assert (again.finished, again.skipped, again.cost_usd) == (("1", "2"), 1, 0.75)
    assert again.view()["stories"] == {"total": 2, "finished": 2}


def test_a_story_that_failed_is_no_finished_one_and_says_why() -> None:
    start = Progress().loaded(Stories(ROWS))
    reason = "x" * 5000
    stuck = start.ended(StoryResult("2", Verdict.STUCK, "b", reason, kept="here"))
    assert (stuck.status, stuck.next_story, len(stuck.reason)) == (State.STUCK, "2", MOST_REASON)
    assert stuck.kept == ("here",)
    asked = start.ended(StoryResult("2", Verdict.QUESTION, "b", "which?"))
    assert (asked.status, asked.reason) == (State.QUESTION, "which?")
    assert stuck.at(State.QUEUED, "2").begun("c").status is State.RUNNING


def test_a_landing_ends_a_change_or_leaves_it_stuck() -> None:
    change = Progress(commit="a")
    landed = change.after_landing(LandResult(landed=True, host="b", commit="c"))
    assert (landed.status, landed.landed, landed.commit) == (State.DONE, True, "c")
    red = change.after_landing(LandResult(landed=False, host="b", reason="conflict"))
    assert (red.status, red.landed, red.commit, red.reason) == (
        *(State.STUCK, False, "a", "conflict"),
    )


def test_an_account_takes_turns() -> None:
    account = Account("a", limit=1).asked("x", 0).asked("y", 0).asked("x", 0)
    account, first = account.granted()
    assert (first, account.granted()[1]) == ("x", "")
    account, second = account.released("x", 1.5).granted()
    assert (second, account.spent_usd, account.waiting) == ("y", 1.5, ())
    assert Account("a").granted() == (Account("a"), "")
    assert account.limited(2, 9.0).limit == 2


def test_a_budget_is_never_promised_twice() -> None:
    account = Account("a", budget_usd=10).asked("x", 6).asked("y", 6)
    account, first = account.granted()
    assert (first, account.granted()[1]) == ("x", "")
    account = account.released("x", 3)
    assert account.granted()[1] == "y"
    spent = account.released("y").asked("z", 0)
    assert spent.limited(0, 3).granted()[1] == ""


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans())), st.integers(1, 3))
def test_no_more_hold_an_account_than_it_takes(steps: list[tuple[str, bool]], limit: int) -> None:
    account = Account("a", limit=limit)
    for change, asks in steps:
        account = account.asked(change, 0) if asks else account.released(change)
        while (after := account.granted())[1]:
            account = after[0]
        assert len(account.holders) <= limit
        assert not set(account.holders) & {name for name, _ in account.waiting}
        assert not account.waiting or len(account.holders) == limit
