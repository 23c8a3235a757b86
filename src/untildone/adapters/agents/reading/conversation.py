"""One conversation: what the agent says in it, its name, and the tokens of all its calls."""

from msgspec.structs import replace

from untildone.domain.agents.agent import AgentText, Intent, Notice, Session, Usage
from untildone.domain.agents.promise import Promise, PromiseScanner
from untildone.domain.plain_text import plain

NOTICE_CHARS = 64 * 1024


class Messages:
    """What the agent says, message by message; blocks of one message are parts of one text."""

    def __init__(self) -> None:
        self.heard = False
        self._promise: Promise | None = None
        self._id = ""
        self._message: PromiseScanner | None = None
        self._apart = False

    def add(self, message_id: str, text: str) -> None:
        """Take the next block; an empty text stands for a thought or a tool call."""
        if self._message is None or message_id != self._id or not message_id:
            if self._message is not None:
                self._promise = self._message.result(final=False) or self._promise
            self._id, self._message, self._apart = message_id, PromiseScanner(), False
        if not text:
            self._apart = True
            return
        self.heard = True
        self._message.feed(("\n" * self._apart + text).encode("utf-8", "replace"))
        self._apart = False

    def question(self) -> str:
        """What the last message asks if it ends with a question, once the output is over."""
        return "" if self._message is None else self._message.question()

    def promise(self) -> Promise | None:
        """The last promise, once the output is over."""
        last = None if self._message is None else self._message.result()
        return last or self._promise


def text_notices(text: str) -> list[Notice]:
    """The notice of a text; none of a blank one."""
    return [AgentText(plain(text[:NOTICE_CHARS]))] if text.strip() else []


class Fragments:
    """Joins fragments of a few letters to whole lines, so that not every word is a notice."""

    def __init__(self) -> None:
        self._message_id = ""
        self._open = ""

    def add(self, message_id: str, text: str) -> list[Notice]:
        """The lines that end in this fragment; another message begins a new line."""
        before = self.flush() if message_id != self._message_id else []
        self._message_id = message_id
        self._open += text
        if len(self._open) > NOTICE_CHARS:
            return [*before, *self.flush()]
        whole, end, self._open = self._open.rpartition("\n")
        return [*before, *text_notices(whole + end)]

    def flush(self) -> list[Notice]:
        """What is left of the last line, as if it ended here."""
        rest, self._open = self._open, ""
        return text_notices(rest)


def session_name(intent: Intent) -> str:
    """The conversation of this call: the resumed one, or a name that no other call has.

    It is made of what a recording keeps, so that a replay finds the same one.
    """
    import hashlib  # noqa: PLC0415 - loads OpenSSL, and few agents need it

    if intent.resume:
        return intent.resume.id
    call = f"{intent.story_id}\n{intent.asked}"
    return f"untildone-{hashlib.sha256(call.encode('utf-8', 'replace')).hexdigest()[:12]}"


def call_share(totals: Usage, resumed: Session | None) -> Usage:
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


def totals_so_far(totals: Usage | None, resumed: Session | None) -> Usage | None:
    """The totals to go on from; a call that broke down may have none to tell."""
    return totals if totals and totals.total else resumed.totals if resumed else totals


def sum_of(one: Usage | None, other: Usage) -> Usage:
    """The sum of two shares; the cost is unknown if one of the two is."""
    if one is None:
        return other
    total = one.plus(other)
    unknown = one.cost_usd is None or other.cost_usd is None
    return replace(total, cost_usd=None) if unknown else total


def without_zero_cost(usage: Usage | None) -> Usage | None:
    """The usage with an unknown cost where tokens are said to have cost nothing.

    That is what an agent says that knows no price for its model.
    """
    return replace(usage, cost_usd=None) if usage and usage.total and not usage.cost_usd else usage


def larger_of(one: Usage, other: Usage) -> Usage:
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
