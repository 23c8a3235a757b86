"""The scripted model, asked by a plain HTTP client."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.modelserver.script import COMPLETE, BadDay, Day, Run, Script, Story, Tokens, Write
from tests.modelserver.script import tokens_of as nth
from tests.modelserver.server import ModelServer
from tests.modelserver.wire import pieces

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

WRITER = {
    "type": "object",
    "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["file_path", "content"],
}
SHELL = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "why": {"type": "string"}},
    "required": ["command", "why"],
}
STORY = Story("Alpha", (Write("/r/a.txt", "it's a\n"), Run("true")))
GEMINI = "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"


class Reached:
    """A client of the server under test."""

    def __init__(self, server: ModelServer) -> None:
        self.server = server
        self.headers: dict[str, str] = {}

    def send(self, method: str, path: str, body: Json | None = None) -> tuple[int, bytes]:
        host = self.server.url.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=10)
        try:
            connection.request(method, path, json.dumps(body) if body else None)
            response = connection.getresponse()
            self.headers = dict(response.getheaders())
            return response.status, response.read()
        finally:
            connection.close()

    def post(self, path: str, body: Json) -> tuple[int, bytes]:
        return self.send("POST", path, body)


def events(data: bytes) -> list[Json]:
    """The JSON values of a stream."""
    lines = [line[6:] for line in data.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def messages(prompt: str, results: int = 0, *, tools: bool = True, stream: bool = True) -> Json:
    talk: list[Json] = [{"role": "user", "content": [{"type": "text", "text": prompt}]}]
    for n in range(results):
        use = {"type": "tool_use", "id": f"t{n}", "name": "Write", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "ok"}
        talk.append({"role": "assistant", "content": [use]})
        talk.append({"role": "user", "content": [result]})
    declared = [
        {"name": "Write", "input_schema": WRITER},
        {"name": "Bash", "input_schema": SHELL},
    ]
    return {
        "model": "m",
        "stream": stream,
        "messages": talk,
        "tools": declared if tools else [],
    }


def chat(prompt: str, results: int = 0, *, stream: bool = True) -> Json:
    talk: list[Json] = [{"role": "system", "content": "Bravo"}, {"role": "user", "content": prompt}]
    talk += [{"role": "tool", "tool_call_id": f"t{n}", "content": "ok"} for n in range(results)]
    function = {"name": "developer__shell", "parameters": SHELL}
    tools = [{"type": "function", "function": function}]
    return {"model": "m", "stream": stream, "messages": talk, "tools": tools}


def responses(prompt: str, results: int = 0, *, stream: bool = True) -> Json:
    content = [{"type": "input_text", "text": prompt}]
    talk: list[Json] = [{"type": "message", "role": "user", "content": content}]
    talk += [{"type": "function_call_output", "call_id": f"t{n}"} for n in range(results)]
    tool = {"type": "function", "name": "exec_command", "parameters": SHELL}
    return {"model": "m", "stream": stream, "input": talk, "tools": [tool, {"type": "web_search"}]}


def contents(prompt: str, results: int = 0) -> Json:
    talk: list[Json] = [{"role": "user", "parts": [{"text": prompt}]}]
    part = {"functionResponse": {"name": "write_file", "response": {"output": "ok"}}}
    talk += [{"role": "user", "parts": [part]}] * results
    declared = [
        {"name": "write_file", "parametersJsonSchema": WRITER},
        {"name": "run_shell_command", "parameters": SHELL},
    ]
    return {"contents": talk, "tools": [{"functionDeclarations": declared}]}


WIRES: list[tuple[str, Callable[..., Json]]] = [
    ("/v1/messages?beta=true", messages),
    ("/v1/chat/completions", chat),
    ("/v1/responses", responses),
    (GEMINI, contents),
]
wires = pytest.mark.parametrize(("path", "ask"), WIRES, ids=["anthropic", "chat", "resp", "gemini"])


def test_messages_play_the_story_turn_by_turn() -> None:
    with ModelServer(Script([STORY])) as server:
        reached = Reached(server)
        told = [events(reached.post("/v1/messages", messages("Do Alpha", n))[1]) for n in range(3)]
    starts = [e for stream in told for e in stream if e["type"] == "content_block_start"]
    used = [start["content_block"].get("name", "text") for start in starts]
    assert used == ["Write", "Bash", "text"]
    parts = [e["delta"] for e in told[0] if e["type"] == "content_block_delta"]
    given = json.loads("".join(part["partial_json"] for part in parts))
    assert given == {"file_path": "/r/a.txt", "content": "it's a\n"}
    words = [e["delta"]["text"] for e in told[2] if e["type"] == "content_block_delta"]
    assert "".join(words) == STORY.say
    assert not any(COMPLETE in word for word in words)
    assert [told[n][-2]["delta"]["stop_reason"] for n in range(3)] == [
        "tool_use",
        "tool_use",
        "end_turn",
    ]
    assert [told[n][-2]["usage"]["output_tokens"] for n in range(3)] == [43, 46, 49]
    assert told[0][0]["message"]["usage"] == {
        "input_tokens": 1007,
        "cache_creation_input_tokens": 113,
        "cache_read_input_tokens": 311,
        "output_tokens": 1,
    }
    assert server.sent() == (nth(1) + nth(2) + nth(3)).unreasoned()
    assert [seen.step for seen in server.main] == [("Alpha", 0), ("Alpha", 1), ("Alpha", 2)]
    assert {seen.place.prompt for seen in server.log} == {"Do Alpha"}


def test_messages_in_one_piece() -> None:
    with ModelServer(Script([STORY])) as server:
        _, data = Reached(server).post("/v1/messages", messages("Alpha", 2, stream=False))
    answer = json.loads(data)
    assert answer["content"] == [{"type": "text", "text": STORY.say}]
    assert (answer["stop_reason"], answer["usage"]["output_tokens"]) == ("end_turn", 43)


def test_chat_writes_a_file_with_a_shell_and_fills_what_is_required() -> None:
    with ModelServer(Script([STORY])) as server:
        stream = events(Reached(server).post("/v1/chat/completions", chat("Alpha"))[1])
        last = json.loads(
            Reached(server).post("/v1/chat/completions", chat("Alpha", 2, stream=False))[1]
        )
    calls = [
        c["delta"]["tool_calls"][0]
        for e in stream
        for c in e["choices"]
        if c["delta"].get("tool_calls")
    ]
    assert calls[0]["function"]["name"] == "developer__shell"
    arguments = json.loads("".join(call["function"]["arguments"] for call in calls))
    assert arguments == {"command": "printf %s 'it'\"'\"'s a\n' > /r/a.txt", "why": "work"}
    assert stream[-1]["usage"] == {
        "prompt_tokens": 1431,
        "completion_tokens": 43,
        "total_tokens": 1474,
        "prompt_tokens_details": {"cached_tokens": 311},
        "completion_tokens_details": {"reasoning_tokens": 11},
    }
    assert last["choices"][0] == {
        "index": 0,
        "message": {"role": "assistant", "content": STORY.say},
        "finish_reason": "stop",
    }
    assert server.sent() == (nth(1) + nth(2)).unwritten()


def test_responses_tell_the_item_and_the_usage() -> None:
    with ModelServer(Script([STORY])) as server:
        stream = events(Reached(server).post("/v1/responses", responses("Alpha"))[1])
        last = events(Reached(server).post("/v1/responses", responses("Alpha", 2))[1])
    assert [e["sequence_number"] for e in stream] == list(range(len(stream)))
    item = next(e["item"] for e in stream if e["type"] == "response.output_item.done")
    assert (item["type"], item["name"]) == ("function_call", "exec_command")
    assert "a.txt" in json.loads(item["arguments"])["command"]
    assert stream[-1]["response"]["usage"] == {
        "input_tokens": 1431,
        "input_tokens_details": {"cached_tokens": 311},
        "output_tokens": 43,
        "output_tokens_details": {"reasoning_tokens": 11},
        "total_tokens": 1474,
    }
    deltas = [e["delta"] for e in last if e["type"] == "response.output_text.delta"]
    assert "".join(deltas) == STORY.say == last[-1]["response"]["output"][0]["content"][0]["text"]


def test_gemini_tells_calls_words_and_thoughts() -> None:
    with ModelServer(Script([STORY])) as server:
        first = events(Reached(server).post(GEMINI, contents("Alpha"))[1])
        last = events(Reached(server).post(GEMINI, contents("Alpha", 2))[1])
        once = json.loads(
            Reached(server).post("/v1beta/models/g:generateContent", contents("Alpha", 2))[1]
        )
    call = first[-1]["candidates"][0]["content"]["parts"][0]["functionCall"]
    assert call["args"] == {"file_path": "/r/a.txt", "content": "it's a\n"}
    assert first[-1]["usageMetadata"] == {
        "promptTokenCount": 1431,
        "cachedContentTokenCount": 311,
        "candidatesTokenCount": 32,
        "thoughtsTokenCount": 11,
        "totalTokenCount": 1474,
    }
    parts = [part for e in last for part in e["candidates"][0]["content"]["parts"]]
    assert "".join(part["text"] for part in parts) == STORY.say
    assert once["candidates"][0]["content"]["parts"] == parts
    assert server.log[2].sent == nth(3).unwritten()


def test_a_later_prompt_begins_its_own_story() -> None:
    second = Story("Bravo", (Run("echo b"),))
    ask = messages("Alpha", 2)
    ask["messages"] += [{"role": "user", "content": "Now Bravo"}]
    with ModelServer(Script([STORY, second])) as server:
        Reached(server).post("/v1/messages", ask)
    assert [seen.step for seen in server.log] == [("Bravo", 0)]


def test_a_request_without_tools_is_answered_but_not_counted() -> None:
    script = Script([STORY], BadDay(Day.SERVER_ERROR))
    with ModelServer(script) as server:
        status, data = Reached(server).post("/v1/messages", messages("Alpha", tools=False))
        assert Reached(server).post("/v1/messages", messages("Alpha"))[0] == 500
    assert (status, b"title" in data, b"promise" in data) == (200, True, False)
    assert [seen.place.main for seen in server.log] == [False, True]
    assert [seen.day for seen in server.main] == [Day.SERVER_ERROR]
    assert server.sent() == Tokens()


def test_a_client_without_tools_that_reads_listings_gets_the_file_as_text() -> None:
    ask = chat("Reply with a *file listing*. Do Alpha", stream=False) | {"tools": []}
    story = Story("Alpha", (Write("/r/a.txt", "a\n"),), COMPLETE)
    with ModelServer(Script([story])) as server:
        answer = json.loads(Reached(server).post("/v1/chat/completions", ask)[1])
    assert answer["choices"][0]["message"]["content"] == f"a.txt\n```\na\n```\n\n{COMPLETE}"
    assert [seen.place.main for seen in server.log] == [True]


HTTP_DAYS = [
    (Day.RATE_LIMIT, (429, 429, 429, 429)),
    (Day.OVERLOADED, (529, 503, 503, 503)),
    (Day.SERVER_ERROR, (500, 500, 500, 500)),
    (Day.UNAVAILABLE, (503, 503, 503, 503)),
    (Day.USAGE_LIMIT, (429, 429, 429, 429)),
    (Day.QUOTA, (400, 429, 429, 429)),
    (Day.CONTEXT, (400, 400, 400, 400)),
    (Day.BAD_KEY, (401, 401, 401, 400)),
]


@pytest.mark.parametrize(("day", "expected"), HTTP_DAYS, ids=[day.name for day, _ in HTTP_DAYS])
def test_bad_days_have_the_status_of_each_vendor(day: Day, expected: tuple[int, ...]) -> None:
    for (path, ask), status in zip(WIRES, expected, strict=True):
        with ModelServer(Script([STORY], BadDay(day, times=1))) as server:
            found, data = Reached(server).post(path, ask("Alpha"))
            then, _ = Reached(server).post(path, ask("Alpha"))
        assert (found, then) == (status, 200), path
        assert json.loads(data)["error"]["message"]
        assert [seen.day for seen in server.log] == [day, None]
        assert server.log[0].sent == Tokens()


def test_a_stated_reset_is_in_the_place_where_each_vendor_puts_it() -> None:
    for path, ask in WIRES[:3]:
        with ModelServer(Script([STORY], BadDay(Day.RATE_LIMIT, reset_s=30))) as server:
            reached = Reached(server)
            reached.post(path, ask("Alpha"))
            assert reached.headers["retry-after"] == "30"
    with ModelServer(Script([STORY], BadDay(Day.USAGE_LIMIT, reset_s=60))) as server:
        reached = Reached(server)
        soon = time.time() + 60
        reached.post("/v1/messages", messages("Alpha"))
        unified = "anthropic-ratelimit-unified-"
        assert abs(int(reached.headers[unified + "reset"]) - soon) < 5
        assert reached.headers[unified + "status"] == "rejected"
        error = json.loads(reached.post("/v1/responses", responses("Alpha"))[1])["error"]
        assert (error["type"], abs(error["resets_at"] - soon) < 5) == ("usage_limit_reached", True)
        details = json.loads(reached.post(GEMINI, contents("Alpha"))[1])["error"]["details"]
        assert "PerDay" in details[0]["violations"][0]["quotaId"]
        assert details[1]["retryDelay"] == "60s"


@wires
def test_a_cut_stream_has_no_last_chunk(path: str, ask: Callable[..., Json]) -> None:
    cut = pytest.raises(http.client.IncompleteRead)
    with ModelServer(Script([STORY], BadDay(Day.CUT))) as server, cut as caught:
        Reached(server).post(path, ask("Alpha"))
    assert caught.value.partial
    assert server.main[0].sent.output in (0, 1)


@wires
def test_a_stream_that_ends_early_has_no_end_and_no_promise(
    path: str, ask: Callable[..., Json]
) -> None:
    with ModelServer(Script([STORY], BadDay(Day.EARLY_END))) as server:
        status, data = Reached(server).post(path, ask("Alpha"))
    assert (status, b"promise" in data) == (200, False)
    text = data.decode()
    ends = ("message_stop", "response.completed", "[DONE]", "finishReason")
    assert not any(end in text for end in ends)


@wires
def test_malformed_events_are_no_json(path: str, ask: Callable[..., Json]) -> None:
    with ModelServer(Script([STORY], BadDay(Day.MALFORMED))) as server:
        status, data = Reached(server).post(path, ask("Alpha"))
    assert status == 200
    with pytest.raises(json.JSONDecodeError):
        events(data)


@wires
def test_a_refusal_says_so(path: str, ask: Callable[..., Json]) -> None:
    with ModelServer(Script([STORY], BadDay(Day.REFUSAL))) as server:
        status, data = Reached(server).post(path, ask("Alpha"))
    assert status == 200
    assert b"refusal" in data or b"SAFETY" in data
    assert b"promise" not in data
    assert server.main[0].sent.output == 43


def test_a_hang_lasts_until_the_server_closes() -> None:
    with ModelServer(Script([STORY], BadDay(Day.HANG))) as server:
        host = server.url.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=0.3)
        connection.request("POST", "/v1/messages", json.dumps(messages("Alpha")))
        with pytest.raises(TimeoutError):
            connection.getresponse()
        began = time.monotonic()
        connection.close()
    assert time.monotonic() - began < 5
    assert [seen.day for seen in server.main] == [Day.HANG]


def test_a_fault_of_the_server_itself_is_told_at_its_end() -> None:
    told = pytest.raises(AssertionError, match="the server itself failed")
    lost = pytest.raises(http.client.RemoteDisconnected)
    with told, ModelServer(Script()) as server, lost:
        Reached(server).post("/v1/messages", {"no": "messages"})


def test_small_requests_and_unknown_paths() -> None:
    with ModelServer(Script()) as server:
        reached = Reached(server)
        assert reached.send("HEAD", "/") == (200, b"")
        assert json.loads(reached.send("GET", "/v1/models")[1])["data"][0]["id"] == "scripted"
        counted = json.loads(reached.post("/v1/messages/count_tokens", {"a": 1})[1])
        assert counted["input_tokens"] > 0
        counted = json.loads(reached.post("/v1beta/models/g:countTokens", {"a": 1})[1])
        assert counted["totalTokens"] > 0
        assert reached.send("GET", "/nowhere")[0] == 404
        assert reached.post("/nowhere", {"a": 1})[0] == 404
    assert server.log == []


@pytest.mark.parametrize("text", [f"Done.\n{COMPLETE}", COMPLETE, "ab", "", "one\ntwo"])
def test_pieces_join_to_the_text_and_split_the_promise(text: str) -> None:
    assert "".join(pieces(text)) == text
    assert not any(COMPLETE in piece or "<promise>" in piece for piece in pieces(text))
