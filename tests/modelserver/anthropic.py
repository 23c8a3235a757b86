"""Anthropic Messages."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.modelserver.script import BadDay, Day, Tokens
from tests.modelserver.tools import Tool
from tests.modelserver.wire import STATUS, Answer, Ask, Failure, Json, Turn, after, pieces, sse

if TYPE_CHECKING:
    from collections.abc import Iterator

ERRORS = {
    Day.RATE_LIMIT: ("rate_limit_error", "This request would exceed your account's rate limit."),
    Day.USAGE_LIMIT: ("rate_limit_error", "This request would exceed your account's rate limit."),
    Day.OVERLOADED: ("overloaded_error", "Overloaded"),
    Day.SERVER_ERROR: ("api_error", "Internal server error"),
    Day.UNAVAILABLE: ("api_error", "Service unavailable"),
    Day.BAD_KEY: ("authentication_error", "invalid x-api-key"),
    Day.CONTEXT: ("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    Day.QUOTA: (
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. "
        "Please go to Plans & Billing to upgrade or purchase credits.",
    ),
}


class Messages:
    """`/v1/messages`, streaming and not."""

    def read(self, path: str, body: Json) -> Ask:
        """Understand a request."""
        tools = tuple(Tool(t["name"], t.get("input_schema", {})) for t in body.get("tools", ()))
        turns = tuple(t for m in body["messages"] if m["role"] == "user" for t in _turns(m))
        return Ask(body.get("model", ""), bool(body.get("stream")), tools, turns)

    def carried(self, tokens: Tokens) -> Tokens:
        """Reasoning is not told apart."""
        return tokens.unreasoned()

    def begun(self, tokens: Tokens) -> Tokens:
        """The start of a message tells all but the output."""
        return replace(tokens, output=1, reasoning=0)

    def whole(self, answer: Answer) -> Json:
        """The answer in one piece."""
        message = _message(answer, answer.tokens.output)
        return message | {"content": list(_blocks(answer)), "stop_reason": _stop(answer)}

    def events(self, answer: Answer) -> list[bytes]:
        """The answer as a stream of events."""
        parts: list[Json] = [{"type": "message_start", "message": _message(answer, 1)}]
        for index, block in enumerate(_blocks(answer)):
            parts += _block_events(index, block)
        parts.append(
            {
                "type": "message_delta",
                "delta": {"stop_reason": _stop(answer), "stop_sequence": None},
                "usage": {"output_tokens": answer.tokens.output},
            }
        )
        return [sse(part, part["type"]) for part in [*parts, {"type": "message_stop"}]]

    def failure(self, bad: BadDay, now: float) -> Failure:
        """How Anthropic says this."""
        kind, message = ERRORS[bad.day]
        status = {Day.OVERLOADED: 529, Day.QUOTA: 400}.get(bad.day) or STATUS[bad.day]
        headers = after(bad)
        if bad.day is Day.USAGE_LIMIT:
            unified = {
                "status": "rejected",
                "representative-claim": "five_hour",
                "overage-status": "rejected",
            }
            if bad.reset_s is not None:
                unified["reset"] = str(int(now + bad.reset_s))
            headers |= {f"anthropic-ratelimit-unified-{name}": v for name, v in unified.items()}
        return Failure(
            status, {"type": "error", "error": {"type": kind, "message": message}}, headers
        )


def _turns(message: Json) -> Iterator[Turn]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in blocks:
        if block["type"] == "text":
            yield Turn(block["text"])
        elif block["type"] == "tool_result":
            yield Turn(json.dumps(block.get("content")), result=True)


def _message(answer: Answer, output: int) -> Json:
    tokens = answer.tokens
    return {
        "id": f"msg_{answer.n:024d}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": tokens.input,
            "cache_creation_input_tokens": tokens.cache_write,
            "cache_read_input_tokens": tokens.cache_read,
            "output_tokens": output,
        },
    }


def _stop(answer: Answer) -> str:
    return "refusal" if answer.refused else "tool_use" if answer.call else "end_turn"


def _blocks(answer: Answer) -> Iterator[Json]:
    if answer.text:
        yield {"type": "text", "text": answer.text}
    if call := answer.call:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}


def _block_events(index: int, block: Json) -> list[Json]:
    if block["type"] == "text":
        empty: Json = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    else:
        empty = block | {"input": {}}
        arguments = pieces(json.dumps(block["input"]))
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in arguments]
    place: dict[str, Any] = {"index": index}
    return [
        {"type": "content_block_start", **place, "content_block": empty},
        *({"type": "content_block_delta", **place, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", **place},
    ]
