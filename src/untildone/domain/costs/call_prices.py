"""What model calls cost: each counted once, priced by a table, summed by any key."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from math import fsum

from msgspec import Struct

from untildone.domain.agents.agent import Usage

TOKEN_KINDS = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)
MILLION = 1_000_000


class Spent(Struct, frozen=True):
    """One model call as an agent recorded it.

    `cwd` is the folder of the session; agents that record only its digest say `sha256:…`.
    `cache_write_1h` is the part of the cache writes that is kept for an hour. A `side` entry is of
    a side conversation, which may repeat messages of the main one.
    """

    at: datetime
    agent: str
    session_id: str
    usage: Usage
    cwd: str = ""
    message_id: str = ""
    request_id: str = ""
    cache_write_1h: int = 0
    side: bool = False
    fast: bool = False
    change_id: str = ""

    @property
    def model(self) -> str:
        """The model's name; its fast variant has a name and a price of its own."""
        return f"{self.usage.model}-fast" if self.fast and self.usage.model else self.usage.model

    @property
    def tokens(self) -> int:
        """Everything that was counted, cache tokens too."""
        used = self.usage
        return used.total + used.cache_read_tokens + used.cache_write_tokens


def once(entries: Iterable[Spent]) -> list[Spent]:
    """Each message once, its largest entry; the order of the entries makes no difference.

    The same message has the same message and request id, in whatever session it was copied to.
    """
    kept: dict[tuple[object, ...], list[Spent]] = {}
    unnamed: list[Spent] = []
    for entry in entries:
        if not entry.message_id:
            unnamed.append(entry)
            continue
        key: tuple[object, ...] = (entry.agent, entry.message_id, entry.request_id)
        if not entry.request_id:
            key = (*key, entry.session_id, entry.at)
        kept.setdefault(key, []).append(entry)
    return [*_without_replays(kept.values()), *unnamed]


def _without_replays(copies: Iterable[list[Spent]]) -> list[Spent]:
    """The best of each; side conversations may replay messages under other request ids."""
    mains: list[Spent] = []
    spoken: set[tuple[str, str]] = set()
    sides: dict[tuple[str, str], Spent] = {}
    for group in copies:
        best = max(group, key=_rank)
        if best.side:
            place = (best.session_id, best.message_id)
            sides[place] = max(sides.get(place, best), best, key=_rank)
        else:
            mains.append(best)
            spoken |= {(entry.session_id, entry.message_id) for entry in group}
    return [*mains, *(entry for place, entry in sides.items() if place not in spoken)]


def _rank(entry: Spent) -> tuple[object, ...]:
    used = entry.usage
    order = (-entry.at.timestamp(), used.output_tokens, used.input_tokens, used.cache_read_tokens)
    return (not entry.side, entry.tokens, *order, entry.session_id, entry.request_id)


class Rates(Struct, frozen=True):
    """USD per million tokens; None where no price is known."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None


class Price(Struct, frozen=True):
    """What a model costs.

    Above `over` tokens the `long` rates hold: for the whole call if its context is longer, else for
    the tokens of each kind above it. `fast` is the factor of the fast variant.
    """

    rates: Rates
    over: int = 0
    long: Rates | None = None
    whole: bool = False
    fast: float = 1.0


def cost(entry: Spent, price: Price | None) -> float | None:
    """What the call cost in USD: the agent's own figure, else by price, else unknown."""
    used = entry.usage
    if used.cost_usd is not None:
        return used.cost_usd
    if used.estimated or price is None:
        return None
    an_hour = min(entry.cache_write_1h, used.cache_write_tokens)
    counts = {
        "input": used.input_tokens,
        "output": used.output_tokens,
        "cache_read": used.cache_read_tokens,
        "cache_write": used.cache_write_tokens - an_hour,
        "cache_write_1h": an_hour,
    }
    context = sum(counts.values()) - used.output_tokens
    total = 0.0
    for kind, count in counts.items():
        part = _part(count, kind, price, context)
        if part is None:
            return None
        total += part
    return total * (price.fast if entry.fast else 1.0) / MILLION


def _part(count: int, kind: str, price: Price, context: int) -> float | None:
    if not count:
        return 0.0
    base: float | None = getattr(price.rates, kind)
    if base is None:
        return None
    higher = getattr(price.long, kind) if price.long else None
    if higher is None:
        higher = base
    if price.whole:
        return float(count * (higher if context > price.over else base))
    above = max(count - price.over, 0) if price.long else 0
    return float((count - above) * base + above * higher)


class Sum(Struct, frozen=True):
    """The sum of some calls; `unpriced` are models whose part of the cost is not known."""

    usage: Usage
    unpriced: frozenset[str] = frozenset()


def add(entries: Iterable[Spent], price_of: Callable[[str], Price | None]) -> Sum:
    """Tokens and cost of these calls; the cost is None when none of it is known."""
    calls = list(entries)
    used = [call.usage for call in calls]
    costs = [cost(call, price_of(call.usage.model)) for call in calls]
    known = [part for part in costs if part is not None]
    priced = zip(calls, costs, strict=True)
    unpriced = frozenset(call.model for call, part in priced if part is None and call.tokens)
    counts = {kind: sum(getattr(each, kind) for each in used) for kind in TOKEN_KINDS}
    estimated = any(each.estimated for each in used)
    total = Usage(**counts, cost_usd=fsum(known) if known else None, estimated=estimated)
    return Sum(total, unpriced)


def grouped(
    entries: Iterable[Spent], key: Callable[[Spent], str], price_of: Callable[[str], Price | None]
) -> Mapping[str, Sum]:
    """The sums by a key, in the order of the keys."""
    groups: dict[str, list[Spent]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    return {name: add(groups[name], price_of) for name in sorted(groups)}
