"""Claude's stream-json: one JSON object per line, read into notices and a Reading."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from untildone.domain.agent import AgentText, AgentTool, Limit, Notice, Reading, Usage
from untildone.domain.plain_text import plain
from untildone.domain.promise import Promise, PromiseScanner

LINE_BYTES = 16 * 1024 * 1024
_NOTICE_CHARS = 64 * 1024
_ERROR_CHARS = 2000
_DETAIL_CHARS = 200
_DETAILS = (
    *("file_path", "notebook_path", "path", "command", "pattern", "url", "query"),
    *("description", "prompt"),
)

# The person has to act on these; waiting does not help.
_LASTING = {"authentication_failed", "billing_error", "invalid_request"}
_PASSING = {
    "rate_limit": "rate limit",
    "overloaded": "service overloaded",
    "server_error": "server error",
    "connection_failed": "connection failed",
}


class StreamReader:
    """Reads stream-json: the main agent's own text and tools, then its result event."""

    def __init__(self) -> None:
        self._lines = _Lines()
        self._talk = _Talk()
        self._session_id = ""
        self._result: Mapping[str, object] | None = None
        self._status: object = None
        self._trouble = ""
        self._rejected: Limit | None = None

    def feed(self, chunk: bytes) -> list[Notice]:
        """Take the next bytes of standard output; memory stays bounded whatever comes."""
        return [notice for line in self._lines.split(chunk) for notice in self._read(line)]

    def finish(self, exit_code: int | None, stderr_tail: bytes) -> Reading:
        """The output is over; the exit code is judged elsewhere."""
        for line in self._lines.rest():
            self._read(line)
        error = self._error(stderr_tail)
        result = self._result or {}
        if not error and not self._talk.heard:
            self._talk.say("", _string(result.get("result")))
        return Reading(
            promise=self._talk.promise(),
            error=error,
            usage=_usage(result),
            limit=self._limit() if error else None,
            session_id=self._session_id,
        )

    def _read(self, line: bytes) -> list[Notice]:
        event = _parse(line)
        self._session_id = self._session_id or _string(event.get("session_id"))
        match event.get("type"):
            case "assistant" if event.get("parent_tool_use_id") is None:
                return self._hear(event)
            case "system" if event.get("subtype") == "api_retry":
                self._status, self._trouble = event.get("error_status"), _string(event.get("error"))
            case "rate_limit_event":
                self._rejected = _rejection(_table(event.get("rate_limit_info")))
            case "result":
                self._result = event
            case _:
                pass
        return []

    def _hear(self, event: Mapping[str, object]) -> list[Notice]:
        message = _table(event.get("message"))
        if event.get("error") or message.get("model") == "<synthetic>":
            # Written by the program in the agent's name, to report an error of the service.
            self._status = event.get("api_error_status")
            self._trouble = _string(event.get("error"))
            return []
        self._status, self._trouble = None, ""
        notices: list[Notice] = []
        for block in _blocks(message.get("content")):
            text = _string(block.get("text")) if block.get("type") == "text" else ""
            self._talk.say(_string(message.get("id")), text)
            if text.strip():
                notices.append(AgentText(plain(text[:_NOTICE_CHARS])))
            elif block.get("type") == "tool_use":
                notices.append(AgentTool(_short(block.get("name")), _detail(block.get("input"))))
        return notices

    def _error(self, stderr_tail: bytes) -> str:
        if self._result is None:
            lost = " (a line over 16 MiB was dropped)" if self._lines.dropped else ""
            said = plain(stderr_tail.decode("utf-8", "replace")).split("\n")
            last = next((line.strip() for line in reversed(said) if line.strip()), "")
            return f"ended without its result event{lost}{last and ': '}{last}"[:_ERROR_CHARS]
        subtype = _string(self._result.get("subtype"))
        if not self._result.get("is_error") and not subtype.startswith("error"):
            return ""
        errors = self._result.get("errors")
        listed = [e for e in errors if isinstance(e, str)] if isinstance(errors, list) else []
        text = "; ".join(listed) or _string(self._result.get("result")) or subtype
        return plain(text[:_ERROR_CHARS]).strip() or "reported an error without a message"

    def _limit(self) -> Limit | None:
        status = (self._result or {}).get("api_error_status") or self._status
        why = _passing(status, self._trouble)
        if self._rejected is not None and (why == "rate limit" or self._result is None):
            return self._rejected
        return Limit(why) if why else None


class _Lines:
    """Cuts bytes into lines; a line over the bound is dropped as it comes."""

    def __init__(self) -> None:
        self.dropped = 0
        self._open = bytearray()
        self._dropping = False

    def split(self, chunk: bytes) -> Iterator[bytes]:
        if b"{" not in chunk and b"\n" in chunk:
            # No object begins in here: only the ends can belong to one.
            chunk = chunk[: chunk.find(b"\n") + 1] + chunk[chunk.rfind(b"\n") + 1 :]
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            self._grow(piece)
            yield from self.rest()
        self._grow(rest)

    def rest(self) -> Iterator[bytes]:
        """The line so far, as if it ended here."""
        line = bytes(self._open)
        self._open.clear()
        self._dropping = False
        if line:
            yield line

    def _grow(self, piece: bytes) -> None:
        if self._dropping:
            return
        self._open += piece
        if len(self._open) > LINE_BYTES:
            self._open = bytearray()
            self._dropping = True
            self.dropped += 1


class _Talk:
    """What the agent says, message by message; blocks of one message are parts of one text."""

    def __init__(self) -> None:
        self.heard = False
        self._promise: Promise | None = None
        self._id = ""
        self._message: PromiseScanner | None = None
        self._apart = False

    def say(self, message_id: str, text: str) -> None:
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

    def promise(self) -> Promise | None:
        last = None if self._message is None else self._message.result()
        return last or self._promise


def _parse(line: bytes) -> Mapping[str, object]:
    if b"{" not in line:
        return {}
    try:
        event: object = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return _table(event)


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _blocks(content: object) -> list[Mapping[str, object]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_table(block) for block in content] if isinstance(content, list) else []


def _short(value: object) -> str:
    text = " ".join(plain(_string(value)[: 20 * _DETAIL_CHARS]).split())
    return text if len(text) <= _DETAIL_CHARS else text[: _DETAIL_CHARS - 1] + "…"


def _detail(arguments: object) -> str:
    table = _table(arguments)
    return next((short for key in _DETAILS if (short := _short(table.get(key)))), "")


def _passing(status: object, error: str) -> str:
    """What kind of trouble passes by itself, in words; empty for any other."""
    if error in _LASTING:
        return ""
    if status == 429:
        return _PASSING["rate_limit"]
    if status == 529:
        return _PASSING["overloaded"]
    if isinstance(status, int) and status >= 500:
        return f"{_PASSING['server_error']} ({status})"
    return _PASSING.get(error, "")


def _rejection(info: Mapping[str, object]) -> Limit | None:
    if info.get("status") != "rejected":
        return None
    kind = _short(info.get("rateLimitType"))
    resets = info.get("resetsAt")
    until = None
    if isinstance(resets, int | float) and 0 < resets < 32_503_680_000:
        until = datetime.fromtimestamp(resets, UTC)
    return Limit(f"usage limit ({kind})" if kind else "usage limit", until)


def _usage(result: Mapping[str, object]) -> Usage | None:
    usage = result.get("usage")
    if not isinstance(usage, dict):
        return None
    cost = result.get("total_cost_usd")
    return Usage(
        input_tokens=_count(usage.get("input_tokens")),
        output_tokens=_count(usage.get("output_tokens")),
        cache_read_tokens=_count(usage.get("cache_read_input_tokens")),
        cache_write_tokens=_count(usage.get("cache_creation_input_tokens")),
        cost_usd=float(cost) if isinstance(cost, int | float) else None,
    )
