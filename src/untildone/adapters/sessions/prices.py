"""The price table that is shipped with the release."""

import json
from importlib import resources
from typing import Any

from msgspec import Struct

from untildone.domain.costs.call_prices import Price, Rates
from untildone.domain.regex import regex

_DATED = regex(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})$")


class Prices(Struct, frozen=True):
    """Prices by the names of models, as of a date."""

    date: str
    models: dict[str, Price]

    def of(self, model: str) -> Price | None:
        """The price of exactly this model; a date at the end of its name makes no difference."""
        return self.models.get(model) or self.models.get(_DATED.sub("", model))


def load() -> Prices:
    text = resources.files("untildone").joinpath("prices.json").read_text(encoding="utf-8")
    data = json.loads(text)
    return Prices(data["date"], {name: _price(row) for name, row in data["models"].items()})


def _price(row: dict[str, Any]) -> Price:
    row = dict(row)
    fast = row.pop("fast", 1.0)
    long = dict(row.pop("long", {}))
    over, whole = long.pop("over", 0), long.pop("whole_call", False)
    return Price(Rates(**row), over, Rates(**long) if long else None, whole, fast)
