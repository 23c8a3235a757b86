"""Claude's stream-json: one JSON object per line, read into notices and a Reading."""

from collections.abc import Mapping

from msgspec.structs import replace

from untildone.adapters.agents.reading.conversation import larger_of, sum_of
from untildone.adapters.agents.reading.error_kinds import (
    RATE_LIMIT,
    USAGE_LIMIT,
    classify_error,
    epoch,
)
from untildone.adapters.agents.reading.event_reader import EventReader, error_text, tool
from untildone.adapters.agents.reading.json_lines import (
    amount,
    count,
    detail,
    short,
    string,
    table,
    tables,
)
from untildone.domain.agents.agent import (
    Intent,
    Kind,
    Notice,
    Reading,
    Session,
    Trouble,
    Usage,
)
from untildone.domain.plain_text import plain

# What the program calls an error of the service; any other word is judged by status and text.
_CALLED = {
    "authentication_failed": Trouble(Kind.NOT_LOGGED_IN, "not logged in"),
    "billing_error": Trouble(Kind.QUOTA_EXHAUSTED, "credit used up"),
    "rate_limit": Trouble(Kind.RATE_LIMITED, RATE_LIMIT),
    "overloaded": Trouble(Kind.OVERLOADED, "service overloaded"),
    "server_error": Trouble(Kind.OVERLOADED, "server error"),
    "connection_failed": Trouble(Kind.OVERLOADED, "connection failed"),
}
ASKING = "AskUserQuestion"
QUESTION_CHARS = 2000
_ENDED = {
    "error_max_turns": Trouble(Kind.BUDGET, "the agent's own turns are used up"),
    "error_max_budget_usd": Trouble(Kind.BUDGET, "the agent's own budget is used up"),
    "budget_exhausted": Trouble(Kind.BUDGET, "the agent's own budget is used up"),
    "prompt_too_long": Trouble(Kind.CONTEXT_OVERFLOW, "the context is too long"),
}


class StreamReader(EventReader):
    """Reads stream-json: the main agent's own text and tools, then its result event.

    Pieces of a message show that the agent is alive; what they say comes again as a whole.
    """

    _skipped = (b'{"type":"stream_event",',)

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent)
        self._session_id = ""
        self._model = ""
        self._result: Mapping[str, object] | None = None
        self._used: Usage | None = None
        self._status: object = None
        self._called = ""
        self._rejected: Trouble | None = None
        self._refused = False
        self._question = ""
        self._promised = False

    def _reading(self, stderr_tail: bytes) -> Reading:
        error = self._error(stderr_tail)
        result = self._result or {}
        if not error and not self._messages.heard:
            self._messages.add("", string(result.get("result")))
        return Reading(
            promise=self._messages.promise(),
            error=error,
            usage=replace(self._used, model=self._model) if self._used else None,
            trouble=self._trouble(error) if error else None,
            session=self._session(),
            denied=_denied(result),
            question=self._question,
        )

    def _on_event(self, event: Mapping[str, object]) -> list[Notice]:
        self._session_id = self._session_id or string(event.get("session_id"))
        self.over = self.over and event.get("type") not in ("assistant", "user")
        match event.get("type"):
            case "assistant" if event.get("parent_tool_use_id") is None:
                return self._on_message(event)
            case "system" if event.get("subtype") == "init":
                self._model = string(event.get("model"))
            case "system" if string(event.get("subtype")).startswith("model_refusal"):
                self._refused = True
            case "system":
                self._status, self._called = self._retried(event)
            case "rate_limit_event":
                self._rejected = _rejection(table(event.get("rate_limit_info")))
            case "result":
                self._result, self.over = event, True
                self._used = self._count(event)
            case _:
                pass
        return []

    def _retried(self, event: Mapping[str, object]) -> tuple[object, str]:
        """Status and name of the error after which the program tries again."""
        if event.get("subtype") != "api_retry":
            return self._status, self._called
        return event.get("error_status"), string(event.get("error"))

    def _count(self, result: Mapping[str, object]) -> Usage | None:
        """What this call has used up to this result; there may be several."""
        since = _by_model(result.get("model_usage_since_last_result"))
        if since is not None and self._used is not None:
            return sum_of(self._used, since)
        usage = result.get("usage")
        if not isinstance(usage, dict):
            return since or self._used
        main = Usage(
            input_tokens=count(usage.get("input_tokens")),
            output_tokens=count(usage.get("output_tokens")),
            cache_read_tokens=count(usage.get("cache_read_input_tokens")),
            cache_write_tokens=count(usage.get("cache_creation_input_tokens")),
            cost_usd=amount(result.get("total_cost_usd")),
        )
        models = since or _by_model(result.get("modelUsage"))
        # One leaves out sub-agents and the call that broke the budget, the other broken streams.
        return main if models is None else larger_of(models, main)

    def _session(self) -> Session | None:
        return Session(self._session_id) if self._session_id else None

    def _on_message(self, event: Mapping[str, object]) -> list[Notice]:
        message = table(event.get("message"))
        if event.get("error") or message.get("model") == "<synthetic>":
            # Written by the program in the agent's name, to report an error of the service.
            self._status = event.get("api_error_status")
            self._called = string(event.get("error"))
            return []
        self._status, self._called = None, ""
        self._refused = message.get("stop_reason") == "refusal"
        notices: list[Notice] = []
        for block in _blocks(message.get("content")):
            text = string(block.get("text")) if block.get("type") == "text" else ""
            if self._promised or text.lstrip().startswith("<promise>"):
                # A block is shown by itself, so a promise at its edge is not inside a line.
                self._add_text(string(message.get("id")), "")
            self._promised = text.rstrip().endswith("</promise>")
            notices += self._add_text(string(message.get("id")), text)
            if block.get("type") == "tool_use":
                notices.append(tool(block.get("name"), block.get("input")))
                self._question = _asked(block) or self._question
        return notices

    def _error(self, stderr_tail: bytes) -> str:
        if self._result is None:
            return self._cut_short(stderr_tail)
        subtype = string(self._result.get("subtype"))
        if self._result.get("is_error") is False and subtype == "success":
            return "the model refused to go on" if self._refused else ""
        errors = self._result.get("errors")
        listed = [e for e in errors if isinstance(e, str)] if isinstance(errors, list) else []
        message = string(table(self._result.get("error")).get("message"))
        said = string(self._result.get("result"))
        return error_text("; ".join(listed), message, said, subtype)

    def _trouble(self, error: str) -> Trouble | None:
        if self._refused:
            return Trouble(Kind.REFUSED, "the model refused")
        if ended := self._own_limit():
            return ended
        found = self._service_trouble(error)
        limited = found is not None and found.kind in (Kind.RATE_LIMITED, Kind.QUOTA_EXHAUSTED)
        if self._rejected is not None and (limited or self._result is None):
            return self._rejected
        return found

    def _own_limit(self) -> Trouble | None:
        """A limit of the program's own, by which it ended the call."""
        result = self._result or {}
        names = (string(result.get("subtype")), string(result.get("terminal_reason")))
        return next((_ENDED[name] for name in names if name in _ENDED), None)

    def _service_trouble(self, error: str) -> Trouble | None:
        """An error of the service: by status and text, else by the program's own word for it."""
        result = self._result or {}
        status = result.get("api_error_status") or self._status
        found = classify_error(error if result else "", status, self._intent.asked)
        named = _CALLED.get(self._called)
        if named is None:
            return found
        if found is None or found.kind is Kind.AGENT_ERROR:
            return named
        # Without a status the text is worth more than the word only if it says when a limit ends.
        return found if status is not None or found.until or found.after_s else named


def _blocks(content: object) -> list[Mapping[str, object]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return tables(content)


def _asked(block: Mapping[str, object]) -> str:
    """What this tool call asks the person, who is not there to answer it."""
    if block.get("name") != ASKING:
        return ""
    questions = tables(table(block.get("input")).get("questions"))
    texts = (plain(string(question.get("question"))).strip() for question in questions[:4])
    return "\n".join(text for text in texts if text)[:QUESTION_CHARS]


def _rejection(info: Mapping[str, object]) -> Trouble | None:
    if info.get("status") != "rejected":
        return None
    kind = short(info.get("rateLimitType"))
    why = f"{USAGE_LIMIT} ({kind})" if kind else USAGE_LIMIT
    return Trouble(Kind.QUOTA_EXHAUSTED, why, epoch(info.get("resetsAt")))


def _denied(result: Mapping[str, object]) -> tuple[str, ...]:
    denials = tables(result.get("permission_denials"))
    return tuple(
        " ".join(part for part in (short(d.get("tool_name")), detail(d.get("tool_input"))) if part)
        for d in denials[:20]
    )


def _by_model(models: object) -> Usage | None:
    """The sum over all models, those of sub-agents too; no cost if one of the prices is a guess."""
    rows = tables(list(table(models).values()))
    costs = [
        None if row.get("costBasis") == "unknown" else amount(row.get("costUSD")) for row in rows
    ]
    known = [cost for cost in costs if cost is not None]
    if not rows:
        return None
    return Usage(
        input_tokens=_sum(rows, "inputTokens"),
        output_tokens=_sum(rows, "outputTokens"),
        cache_read_tokens=_sum(rows, "cacheReadInputTokens"),
        cache_write_tokens=_sum(rows, "cacheCreationInputTokens"),
        reasoning_tokens=_sum(rows, "thinkingTokens"),
        cost_usd=sum(known) if len(known) == len(rows) else None,
    )


def _sum(rows: list[Mapping[str, object]], key: str) -> int:
    return sum(count(row.get(key)) for row in rows)
