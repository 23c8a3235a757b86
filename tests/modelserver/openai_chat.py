"""OpenAI Chat Completions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.modelserver import openai_errors
from tests.modelserver.script import BadDay, Tokens
from tests.modelserver.tools import Tool
from tests.modelserver.wire import REFUSAL, Answer, Ask, Failure, Json, Turn, pieces, sse

if TYPE_CHECKING:
    from collections.abc import Iterator


class Chat:
    """`/v1/chat/completions`, streaming and not."""

    def read(self, path: str, body: Json) -> Ask:
        """Understand a request."""
        declared = [t["function"] for t in body.get("tools") or () if t.get("type") == "function"]
        tools = tuple(Tool(f["name"], f.get("parameters", {})) for f in declared)
        turns = tuple(turn for message in body["messages"] for turn in _turns(message))
        return Ask(body.get("model", ""), bool(body.get("stream")), tools, turns)

    def carried(self, tokens: Tokens) -> Tokens:
        """Nothing is written to a cache."""
        return tokens.unwritten()

    def begun(self, tokens: Tokens) -> Tokens:
        """Usage comes last."""
        return Tokens()

    def whole(self, answer: Answer) -> Json:
        """The answer in one piece."""
        message: Json = {"role": "assistant", "content": answer.text or None}
        if answer.refused:
            message["refusal"] = REFUSAL
        if answer.call:
            message["tool_calls"] = [_call(answer)]
        choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
        return _frame(answer, "chat.completion", [choice]) | {"usage": _usage(answer.tokens)}

    def events(self, answer: Answer) -> list[bytes]:
        """The answer as a stream of chunks."""
        chunks = [_chunk(answer, delta) for delta in _deltas(answer)]
        chunks.append(_chunk(answer, {}, _finish(answer)))
        chunks.append(
            _frame(answer, "chat.completion.chunk", []) | {"usage": _usage(answer.tokens)}
        )
        return [*(sse(chunk) for chunk in chunks), sse("[DONE]")]

    def failure(self, bad: BadDay, now: float) -> Failure:
        """How OpenAI says this."""
        return openai_errors.failure(bad, now)


def _turns(message: Json) -> Iterator[Turn]:
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(part.get("text", "") for part in content)
    if message["role"] in ("user", "tool"):
        yield Turn(content, result=message["role"] == "tool")


def _usage(tokens: Tokens) -> Json:
    return {
        "prompt_tokens": tokens.prompt,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.prompt + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


def _frame(answer: Answer, kind: str, choices: list[Json]) -> Json:
    return {
        "id": f"chatcmpl-{answer.n}",
        "object": kind,
        "created": 1700000000,
        "model": answer.model,
        "choices": choices,
    }


def _chunk(answer: Answer, delta: Json, finish: str | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _frame(answer, "chat.completion.chunk", [choice])


def _finish(answer: Answer) -> str:
    return "content_filter" if answer.refused else "tool_calls" if answer.call else "stop"


def _call(answer: Answer) -> Json:
    assert answer.call is not None
    function = {"name": answer.call.name, "arguments": json.dumps(answer.call.arguments)}
    return {"id": answer.call.id, "type": "function", "function": function}


def _deltas(answer: Answer) -> Iterator[Json]:
    yield {"role": "assistant", "content": ""}
    if answer.refused:
        yield {"refusal": REFUSAL}
    for piece in pieces(answer.text):
        yield {"content": piece}
    if answer.call:
        call = _call(answer)
        arguments = call["function"].pop("arguments")
        yield {
            "tool_calls": [call | {"index": 0, "function": call["function"] | {"arguments": ""}}]
        }
        for piece in pieces(arguments):
            yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
