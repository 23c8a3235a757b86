"""What earlier attempts of a story tried, for the next one's prompt."""

from untildone.domain.agents.same_failure import ANOTHER_WAY, Tried, repeats
from untildone.domain.plain_text import cut

REASON_LIMIT = 6_000
EARLIER_LIMIT = 3_000
LINE_LIMIT = 300
ANOTHER = """\
# Take another way

The last {count} attempts failed in the same way; the same approach will fail again.{look} Find out
first why it failed, then choose an approach that differs from it: another place in the code, a new
method, smaller steps, or first the check that fails. If the story cannot be done as it is written,
say so with FAILED and what is missing."""


def memory(reason: str, tried: tuple[Tried, ...]) -> str:
    """The section about earlier attempts; nothing unless the last one gave a reason."""
    if not reason:
        return ""
    intro = "The previous attempt failed and its changes were put back. Its reason:"
    parts = [f"# The previous attempt\n\n{intro}\n\n{cut(reason, REASON_LIMIT)}"]
    earlier = [_line(attempt) for attempt in tried[:-1] if attempt.reason]
    if earlier:
        intro = "These failed before it and were put back too, the newest last:"
        listed = cut("\n".join(earlier), EARLIER_LIMIT)
        parts.append(f"# Earlier attempts\n\n{intro}\n\n{listed}")
    if (count := repeats(tried)) >= ANOTHER_WAY:
        ref = tried[-1].saved_ref
        look = f" `git show {ref}` shows the last one." if ref else ""
        parts.append(ANOTHER.format(count=count, look=look))
    return "\n\n".join(parts)


def _line(tried: Tried) -> str:
    essence = " ".join(tried.reason.split())
    if len(essence) > LINE_LIMIT:
        half = LINE_LIMIT // 2
        essence = f"{essence[:half]} … {essence[-half:]}"
    what = "a check failed" if tried.outcome == "verify_failed" else "gave up"
    where = f" (`git show {tried.saved_ref}`)" if tried.saved_ref else ""
    return f"- Attempt {tried.attempt}, {what}: {essence}{where}"
