"""OpenAI Responses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.modelserver import openai_errors
from tests.modelserver.script import BadDay, Tokens
from tests.modelserver.tools import Tool
from tests.modelserver.wire import REFUSAL, Answer, Ask, Failure, Json, Turn, pieces, sse

if TYPE_CHECKING:
    from collections.abc import Iterator


class Responses:
    """`/v1/responses`, streaming and not."""

    def read(self, path: str, body: Json) -> Ask:
        """Understand a request; tools may come as an input item too."""
        given = body["input"]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        more = [i for i in items if i.get("type") == "additional_tools"]
        declared = [*body.get("tools", ()), *(tool for item in more for tool in item["tools"])]
        groups = [("", declared)]
        groups += [(t["name"], t["tools"]) for t in declared if t["type"] == "namespace"]
        tools = (
            Tool(t["name"], t["parameters"], group)
            for group, listed in groups
            for t in listed
            if t["type"] == "function"
        )
        turns = tuple(turn for item in items for turn in _turns(item))
        return Ask(body.get("model", ""), bool(body.get("stream")), tuple(tools), turns)

    def carried(self, tokens: Tokens) -> Tokens:
        """Nothing is written to a cache."""
        return tokens.unwritten()

    def begun(self, tokens: Tokens) -> Tokens:
        """Usage comes last."""
        return Tokens()

    def whole(self, answer: Answer) -> Json:
        """The answer in one piece."""
        return _response(answer, "completed") | {
            "output": [_item(answer)],
            "usage": _usage(answer.tokens),
        }

    def events(self, answer: Answer) -> list[bytes]:
        """The answer as a stream of events."""
        item = _item(answer)
        parts: list[Json] = [
            {"type": "response.created", "response": _response(answer, "in_progress")},
            {"type": "response.output_item.added", "output_index": 0, "item": _opened(item)},
            *_deltas(answer, item["id"]),
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": self.whole(answer)},
        ]
        numbered = (part | {"sequence_number": n} for n, part in enumerate(parts))
        return [sse(part, part["type"]) for part in numbered]

    def failure(self, bad: BadDay, now: float) -> Failure:
        """How OpenAI says this."""
        return openai_errors.failure(bad, now)


def _turns(item: Json) -> Iterator[Turn]:
    if item.get("type", "").endswith("_call_output"):
        yield Turn(json.dumps(item.get("output")), result=True)
    elif item.get("role") == "user":
        content = item["content"]
        parts = [{"text": content}] if isinstance(content, str) else content
        yield Turn("\n".join(part.get("text", "") for part in parts))


def _usage(tokens: Tokens) -> Json:
    return {
        "input_tokens": tokens.prompt,
        "input_tokens_details": {"cached_tokens": tokens.cache_read},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.prompt + tokens.output,
    }


def _response(answer: Answer, status: str) -> Json:
    return {
        "id": f"resp_{answer.n:04d}",
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "model": answer.model,
        "output": [],
        "usage": None,
    }


def _item(answer: Answer) -> Json:
    if call := answer.call:
        return {
            "type": "function_call",
            "id": f"fc_{answer.n:04d}",
            "call_id": call.id,
            "name": call.name,
            **({"namespace": call.group} if call.group else {}),
            "arguments": json.dumps(call.arguments),
            "status": "completed",
        }
    part: Json = {"type": "output_text", "text": answer.text, "annotations": []}
    if answer.refused:
        part = {"type": "refusal", "refusal": REFUSAL}
    return {
        "type": "message",
        "id": f"msg_{answer.n:04d}",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _opened(item: Json) -> Json:
    empty: Json = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
    return item | empty | {"status": "in_progress"}


def _deltas(answer: Answer, item_id: str) -> Iterator[Json]:
    place: Json = {"item_id": item_id, "output_index": 0}
    if answer.call:
        kind, text = "response.function_call_arguments", json.dumps(answer.call.arguments)
    elif answer.refused:
        kind, text, place = "response.refusal", REFUSAL, place | {"content_index": 0}
    else:
        kind, text, place = "response.output_text", answer.text, place | {"content_index": 0}
    for piece in pieces(text):
        yield {"type": f"{kind}.delta", **place, "delta": piece}
