"""Numbers that an agent counts over a whole conversation, and one call's share of them."""

from untildone.domain.agent import Session, Usage


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
        cost_usd=_added(totals.cost_usd, before.cost_usd),
        model=totals.model,
    )
    counted = (
        *(rest.input_tokens, rest.output_tokens, rest.reasoning_tokens),
        *(rest.cache_read_tokens, rest.cache_write_tokens, rest.cost_usd or 0.0),
    )
    return totals if min(counted) < 0 else rest


def _added(total: float | None, before: float | None) -> float | None:
    return None if total is None else total - (before or 0.0)
