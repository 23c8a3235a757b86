"""Model calls: counted once, priced, summed."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from untildone.domain.agents.agent import Usage
from untildone.domain.costs.call_prices import Price, Rates, Spent, Sum, add, cost, grouped, once

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RATES = Rates(1.0, 10.0, 0.1, 1.25, 2.0)
LONG = Rates(2.0, 20.0, 0.2, 2.5, 4.0)
M = 1_000_000


def spent(
    tokens: int = 1, message: str = "m", request: str = "r", session: str = "s", hours: int = 0
) -> Spent:
    used = Usage(tokens, model="known")
    at = NOON + timedelta(hours=hours)
    return Spent(at, "claude", session, used, message_id=message, request_id=request)


def side(tokens: int = 1, message: str = "m", request: str = "r", session: str = "s") -> Spent:
    return replace(spent(tokens, message, request, session), side=True)


BIG, SMALL = spent(20), spent(10)
ONCE: dict[str, tuple[list[Spent], list[Spent]]] = {
    "the larger one": ([SMALL, BIG, SMALL], [BIG]),
    "the earlier one of equals": ([spent(hours=1), spent()], [spent()]),
    "a copy in another session": ([BIG, spent(10, session="t")], [BIG]),
    "other requests are other calls": ([BIG, spent(request="r2")], [BIG, spent(request="r2")]),
    "another agent": ([BIG, replace(BIG, agent="pi")], [BIG, replace(BIG, agent="pi")]),
    "without a request only the very same": (
        [spent(request=""), spent(request=""), spent(request="", hours=1)],
        [spent(request=""), spent(request="", hours=1)],
    ),
    "without a message all of them": (
        [spent(message=""), spent(message="")],
        [spent(message="")] * 2,
    ),
    "the main conversation before a side one": ([side(30), SMALL], [SMALL]),
    "a replay under another request": ([SMALL, side(30, request="r9")], [SMALL]),
    "replays of replays": ([side(3, request="a"), side(4, request="b")], [side(4, request="b")]),
    "a sub-agent's own message": ([SMALL, side(30, "own")], [SMALL, side(30, "own")]),
    "a side message of another session": (
        [SMALL, side(30, request="x", session="t")],
        [SMALL, side(30, request="x", session="t")],
    ),
}


@pytest.mark.parametrize("name", ONCE)
def test_once(name: str) -> None:
    given_entries, kept = ONCE[name]
    assert once(given_entries) == kept
    assert sorted(map(repr, once(reversed(given_entries)))) == sorted(map(repr, kept))


ENTRIES = st.builds(
    Spent,
    at=st.integers(0, 48).map(lambda hours: NOON + timedelta(hours=hours)),
    agent=st.just("claude"),
    session_id=st.sampled_from("st"),
    usage=st.builds(Usage, *[st.integers(0, 9)] * 4, model=st.sampled_from(["known", "new"])),
    message_id=st.sampled_from(["", "m1", "m2", "m3"]),
    request_id=st.sampled_from(["", "r1", "r2"]),
    side=st.booleans(),
)


@given(st.data(), st.lists(ENTRIES, max_size=12))
def test_repeating_and_reordering_changes_no_sum(data: st.DataObject, entries: list[Spent]) -> None:
    named = [entry for entry in entries if entry.message_id]
    copies = data.draw(st.lists(st.sampled_from(named), max_size=5)) if named else []
    shuffled = data.draw(st.permutations(entries + copies))
    assert add(once(shuffled), prices) == add(once(entries), prices)


def prices(model: str) -> Price | None:
    return Price(RATES) if model == "known" else None


def call(usage: Usage, an_hour: int = 0, *, fast: bool = False) -> Spent:
    return replace(spent(), usage=usage, cache_write_1h=an_hour, fast=fast)


COSTS: dict[str, tuple[Spent, Price | None, float | None]] = {
    "each kind": (call(Usage(M, M, M, M)), Price(RATES), 12.35),
    "an hour's cache": (call(Usage(0, 0, 0, M), M // 2), Price(RATES), 1.625),
    "never more than was written": (call(Usage(0, 0, 0, M), 2 * M), Price(RATES), 2.0),
    "nothing is free": (call(Usage()), Price(RATES), 0.0),
    "the agent's own figure": (call(Usage(M, cost_usd=0.5)), Price(RATES), 0.5),
    "no price": (call(Usage(M)), None, None),
    "an estimate has none": (call(Usage(M, estimated=True)), Price(RATES), None),
    "no price for the cache": (call(Usage(M, 0, 1)), Price(Rates(1.0, 1.0)), None),
    "no cache, no matter": (call(Usage(M)), Price(Rates(1.0, 1.0)), 1.0),
    "fast": (call(Usage(M), fast=True), Price(RATES, fast=6.0), 6.0),
    "above, by kind": (call(Usage(M, M)), Price(RATES, 200_000, LONG), 0.2 + 1.6 + 2.0 + 16.0),
    "below, by kind": (call(Usage(150_000, 0, 150_000)), Price(RATES, 200_000, LONG), 0.165),
    "above, as a whole": (
        call(Usage(150_000, M, 150_000)),
        Price(RATES, 200_000, LONG, whole=True),
        0.3 + 20.0 + 0.03,
    ),
    "output is no context": (call(Usage(1, M)), Price(RATES, 200_000, LONG, whole=True), 10.000001),
    "above, no other price": (
        call(Usage(0, 0, M)),
        Price(RATES, 200_000, Rates(2.0, 20.0), whole=True),
        0.1,
    ),
}


@pytest.mark.parametrize("name", COSTS)
def test_cost(name: str) -> None:
    entry, price, expected = COSTS[name]
    assert cost(entry, price) == pytest.approx(expected)


def test_the_fast_variant_has_its_own_name() -> None:
    assert call(Usage(model="m"), fast=True).model == "m-fast"


def test_sums_say_what_has_no_price() -> None:
    new = replace(spent(5), usage=Usage(5, 1, 2, 3, reasoning_tokens=1, model="new"))
    guess = replace(spent(), usage=Usage(7, estimated=True, model="known"))
    nothing = replace(spent(), usage=Usage(model="other"))
    total = add([spent(M), new, guess, nothing], prices)
    used = Usage(M + 12, 1, 2, 3, 1.0, estimated=True, reasoning_tokens=1)
    assert total == Sum(used, frozenset({"new", "known"}))
    assert add([new], prices).usage.cost_usd is None


def test_groups_are_sorted() -> None:
    one, two = spent(1, session="t"), spent(2, session="s")
    sums = grouped([one, two, one], lambda entry: entry.session_id, prices)
    assert [(name, each.usage.input_tokens) for name, each in sums.items()] == [("s", 2), ("t", 2)]
