from untildone.adapters.agents.reading.conversation import (
    call_share,
    larger_of,
    sum_of,
    totals_so_far,
)
from untildone.domain.agents.agent import Session, Usage

BEFORE = Usage(100, 20, 30, 40, 0.5, reasoning_tokens=5)
AFTER = Usage(110, 25, 33, 44, 0.75, reasoning_tokens=6, model="m")


def test_the_share_of_a_call_is_what_it_added() -> None:
    assert call_share(AFTER, Session("s", BEFORE)) == Usage(
        10, 5, 3, 4, 0.25, reasoning_tokens=1, model="m"
    )
    assert call_share(AFTER, Session("s")) == AFTER
    assert call_share(AFTER, None) == AFTER


def test_a_cost_that_was_not_known_before_is_all_of_this_call() -> None:
    assert call_share(Usage(2, cost_usd=0.5), Session("s", Usage(1))).cost_usd == 0.5
    assert call_share(Usage(2), Session("s", Usage(1, cost_usd=0.5))).cost_usd is None


def test_an_agent_that_counts_anew_has_nothing_taken_off() -> None:
    assert call_share(Usage(5, 30), Session("s", BEFORE)) == Usage(5, 30)


def test_a_call_without_numbers_keeps_those_of_the_conversation() -> None:
    assert totals_so_far(None, Session("s", BEFORE)) == BEFORE
    assert totals_so_far(Usage(), Session("s", BEFORE)) == BEFORE
    assert totals_so_far(AFTER, Session("s", BEFORE)) == AFTER
    assert totals_so_far(Usage(), None) == Usage()
    assert totals_so_far(None, None) is None


def test_sums() -> None:
    assert sum_of(None, AFTER) == AFTER
    assert sum_of(BEFORE, AFTER) == Usage(210, 45, 63, 84, 1.25, reasoning_tokens=11, model="m")
    assert sum_of(BEFORE, Usage(1)).cost_usd is None


def test_the_larger_of_two_countings() -> None:
    one, other = Usage(1, 20, 3, 40, 0.5, reasoning_tokens=2), Usage(10, 2, 30, 4, 0.25)
    assert larger_of(one, other) == Usage(10, 20, 30, 40, 0.5, reasoning_tokens=2)
