"""Gemini generateContent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.modelserver.script import BadDay, Day, Tokens
from tests.modelserver.tools import Tool
from tests.modelserver.wire import STATUS, Answer, Ask, Failure, Json, Turn, after, pieces, sse

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPES = "type.googleapis.com/google.rpc."
EXCEEDED = "You exceeded your current quota, please check your plan and billing details."
ERRORS = {
    Day.RATE_LIMIT: ("RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    Day.USAGE_LIMIT: ("RESOURCE_EXHAUSTED", EXCEEDED),
    Day.QUOTA: ("RESOURCE_EXHAUSTED", EXCEEDED),
    Day.OVERLOADED: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    Day.SERVER_ERROR: ("INTERNAL", "An internal error has occurred."),
    Day.UNAVAILABLE: ("UNAVAILABLE", "The service is currently unavailable."),
    Day.BAD_KEY: ("INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
    Day.CONTEXT: (
        "INVALID_ARGUMENT",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ),
}


class Gemini:
    """`:generateContent` and `:streamGenerateContent`; the path says which, and the model."""

    def read(self, path: str, body: Json) -> Ask:
        """Understand a request."""
        model, _, method = path.rpartition("/")[2].partition(":")
        declared = [f for t in body.get("tools", ()) for f in t.get("functionDeclarations", ())]
        tools = tuple(Tool(f["name"], _schema(f)) for f in declared)
        contents = [c for c in body["contents"] if c.get("role", "user") != "model"]
        turns = tuple(turn for content in contents for turn in _turns(content))
        return Ask(model, method.startswith("stream"), tools, turns)

    def carried(self, tokens: Tokens) -> Tokens:
        """Nothing is written to a cache."""
        return tokens.unwritten()

    def begun(self, tokens: Tokens) -> Tokens:
        """Usage comes last."""
        return Tokens()

    def whole(self, answer: Answer) -> Json:
        """The answer in one piece."""
        return _piece(answer, list(_parts(answer)), last=True)

    def events(self, answer: Answer) -> list[bytes]:
        """The answer as a stream of responses."""
        *first, last = list(_parts(answer)) or [{"text": ""}]
        told = [_piece(answer, [part], last=False) for part in first]
        return [sse(piece) for piece in [*told, _piece(answer, [last], last=True)]]

    def failure(self, bad: BadDay, now: float) -> Failure:
        """How Google says this: an invalid key is a bad request there."""
        status, message = ERRORS[bad.day]
        code = {Day.QUOTA: 429, Day.BAD_KEY: 400}.get(bad.day) or STATUS[bad.day]
        details: list[Json] = []
        if bad.day is Day.BAD_KEY:
            details = [{"@type": f"{TYPES}ErrorInfo", "reason": "API_KEY_INVALID"}]
        if bad.day in (Day.USAGE_LIMIT, Day.QUOTA):
            quota = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
            details = [{"@type": f"{TYPES}QuotaFailure", "violations": [{"quotaId": quota}]}]
        if bad.reset_s is not None:
            retry = {"@type": f"{TYPES}RetryInfo", "retryDelay": f"{bad.reset_s:g}s"}
            details = [*details, retry]
        error = {"code": code, "message": message, "status": status, "details": details}
        return Failure(code, {"error": error}, after(bad))


def _schema(function: Json) -> Json:
    found: Json = function.get("parametersJsonSchema") or function.get("parameters") or {}
    return found


def _turns(content: Json) -> Iterator[Turn]:
    for part in content.get("parts", ()):
        if "functionResponse" in part:
            yield Turn(json.dumps(part["functionResponse"]), result=True)
        elif "text" in part:
            yield Turn(part["text"])


def _parts(answer: Answer) -> Iterator[Json]:
    for piece in pieces(answer.text):
        yield {"text": piece}
    if call := answer.call:
        yield {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}


def _piece(answer: Answer, parts: list[Json], *, last: bool) -> Json:
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
    response: Json = {"candidates": [candidate], "modelVersion": answer.model}
    if not last:
        return response
    candidate["finishReason"] = "SAFETY" if answer.refused else "STOP"
    tokens = answer.tokens
    return response | {
        "responseId": f"r{answer.n}",
        "usageMetadata": {
            "promptTokenCount": tokens.prompt,
            "cachedContentTokenCount": tokens.cache_read,
            "candidatesTokenCount": tokens.output - tokens.reasoning,
            "thoughtsTokenCount": tokens.reasoning,
            "totalTokenCount": tokens.prompt + tokens.output,
        },
    }
