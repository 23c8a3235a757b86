"""Numbers that an agent counts over a whole conversation, and one call's share of them."""

from msgspec.structs import replace

from untildone.domain.agents.agent import Session, Usage


def share(totals: Usage, resumed: Session | None) -> Usage:
    """What this call added to the conversation's totals.

    An agent that has begun to count anew shows less than before: then all of it is this call's.
    """
    before = resumed.totals if resumed else None
    if before is None:
        return totals
    rest = Usage(
        input_tokens=totals.input_tokens - before.input_tokens,
        output_tokens=totals.output_tokens - before.output_tokens,
        cache_read_tokens=totals.cache_read_tokens - before.cache_read_tokens,
        cache_write_tokens=totals.cache_write_tokens - before.cache_write_tokens,
        reasoning_tokens=totals.reasoning_tokens - before.reasoning_tokens,
        cost_usd=_rest(totals.cost_usd, before.cost_usd),
        model=totals.model,
    )
    counted = (
        *(rest.input_tokens, rest.output_tokens, rest.reasoning_tokens),
        *(rest.cache_read_tokens, rest.cache_write_tokens, rest.cost_usd or 0.0),
    )
    return totals if min(counted) < 0 else rest


def kept(totals: Usage | None, resumed: Session | None) -> Usage | None:
    """The totals to go on from; a call that broke down may have none to tell."""
    return totals if totals and totals.total else resumed.totals if resumed else totals


def added(one: Usage | None, other: Usage) -> Usage:
    """The sum of two shares; the cost is unknown if one of the two is."""
    if one is None:
        return other
    total = one.plus(other)
    unknown = one.cost_usd is None or other.cost_usd is None
    return replace(total, cost_usd=None) if unknown else total


def priced(usage: Usage | None) -> Usage | None:
    """The usage with an unknown cost where tokens are said to have cost nothing.

    That is what an agent says that knows no price for its model.
    """
    return replace(usage, cost_usd=None) if usage and usage.total and not usage.cost_usd else usage


def larger(one: Usage, other: Usage) -> Usage:
    """Of two countings of the same call, each of which leaves something out; the cost of one."""
    return Usage(
        input_tokens=max(one.input_tokens, other.input_tokens),
        output_tokens=max(one.output_tokens, other.output_tokens),
        cache_read_tokens=max(one.cache_read_tokens, other.cache_read_tokens),
        cache_write_tokens=max(one.cache_write_tokens, other.cache_write_tokens),
        reasoning_tokens=max(one.reasoning_tokens, other.reasoning_tokens),
        cost_usd=one.cost_usd,
        model=one.model,
    )


def _rest(total: float | None, before: float | None) -> float | None:
    return None if total is None else total - (before or 0.0)
