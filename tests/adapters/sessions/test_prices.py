"""The price table of this release."""

from datetime import date

import pytest

from untildone.adapters.sessions.prices import load
from untildone.domain.costs.call_prices import Price, Rates

OPUS = Price(Rates(5, 25, 0.5, 6.25, 10), fast=2)
FOUND: dict[str, Price | None] = {
    "claude-opus-5": OPUS,
    "claude-opus-5-20260724": OPUS,
    "claude-opus-5-5": None,
    "claude-opus-5-latest": None,
    "claude-opus": None,
    "my-claude-opus-5": None,
    "gpt-5-2025-08-07": Price(Rates(1.25, 10, 0.125)),
    "gpt-5-2025": None,
    "": None,
}


@pytest.mark.parametrize("model", FOUND)
def test_a_model_is_found_by_its_exact_name_or_with_a_date(model: str) -> None:
    assert load().of(model) == FOUND[model]


def test_the_table_has_a_date_and_no_odd_prices() -> None:
    prices = load()
    date.fromisoformat(prices.date)
    for name, price in prices.models.items():
        rates = price.rates
        assert 0 < (rates.cache_read or 0) < rates.input < rates.output, name
        assert bool(price.long) == bool(price.over), name
        if price.long:
            assert price.long.input > rates.input, name
            assert price.long.output > rates.output, name
