import json

import pytest
from msgspec.structs import replace

from tests.adapters.agents.streams import (
    COMPLETE,
    CONTEXT,
    DONE,
    FAILED,
    INTENT,
    LOGIN,
    NO_RESULT,
    RATE,
    SERVER,
    SIZES,
    check_capture,
    lines,
    read,
    recorded,
)
from untildone.adapters.agents.cline import CLINE, ClineReader
from untildone.adapters.agents.program import KnownProgram
from untildone.domain.agents.agent import (
    AgentText,
    AgentTool,
    Intent,
    Invocation,
    Kind,
    Notice,
    Permissions,
    Reading,
    Trouble,
    Usage,
)
from untildone.domain.agents.promise import Promise
from untildone.domain.errors import UserError

USED = Usage(2260, 89, 633, model="scripted-1")
READINGS = {
    "ctx": Reading(
        error="The request exceeds the model's context window and there is no conversation history "
        "to compact — the system prompt, tools, and current input alone are too large. Reduce "
        "attached content or switch to a model with a larger context window. (provider reported: "
        "Your input exceeds the context window of this model. Please adjust your input.)",
        trouble=CONTEXT,
    ),
    "die": Reading(
        error="The socket connection was closed unexpectedly. For more information, pass "
        "`verbose: true` in the second argument to fetch()",
        trouble=SERVER,
    ),
    "eof": Reading(error="Response stream ended without a finish reason.", trouble=SERVER),
    "failed": Reading(FAILED, usage=USED),
    "hang": Reading(error=NO_RESULT),
    "http401": Reading(error="Incorrect API key provided: sk-x.", trouble=LOGIN),
    "http429": Reading(
        error="Rate limit reached for requests. Please try again in 1s.",
        trouble=replace(RATE, after_s=1.0),
    ),
    "model_refusal": Reading(
        error="Model returned empty response",
        usage=Usage(1120, 43, 311, model="scripted-1"),
        trouble=Trouble(Kind.REFUSED, "the model refused"),
    ),
    "ok": Reading(COMPLETE, usage=USED),
    "sig_TERM_toolsleep": Reading(error=NO_RESULT),
}
NOTICES: dict[str, list[Notice]] = {
    "ok": [
        AgentTool("editor", "/repo/hello.txt"),
        AgentText(f"I wrote hello.txt as asked.\n{DONE}"),
    ],
    "die": [],
}
ENDED = {"type": "run_result", "finishReason": "completed"}


def step(kind: str, **more: object) -> dict[str, object]:
    return {"type": "agent_event", "event": {"type": kind, **more}}


def says(text: object) -> dict[str, object]:
    return step("content_end", contentType="text", text=text)


def breaks(message: str, **more: object) -> dict[str, object]:
    return step("error", error={"message": message}, **more)


def test_every_capture_has_a_reading() -> None:
    assert recorded("cline") == [f"3.0.65/{name}" for name in sorted(READINGS)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("capture", READINGS)
def test_recorded_streams(capture: str, size: int) -> None:
    name = f"3.0.65/{capture}"
    notices = check_capture("cline", CLINE.reader, name, READINGS[capture], size)
    assert notices == NOTICES.get(capture, notices)


PROMISES: dict[str, tuple[list[object], Promise | None]] = {
    "in a text": ([says(f"Hi.\n{DONE}")], COMPLETE),
    "before a last word": ([says(DONE), says("Bye.")], COMPLETE),
    "in pieces alone": ([step("content_start", contentType="text", text=DONE)], None),
    "in a tool's answer": ([step("content_end", contentType="tool", output=DONE)], None),
    "in a tool call": ([step("content_start", contentType="tool", input={"x": DONE})], None),
    "in its thoughts": ([step("content_end", contentType="reasoning", text=DONE)], None),
    "strange events": ([[], 1, {}, {"type": 3}, says(7), {"type": "agent_event"}], None),
}


@pytest.mark.parametrize(("events", "promise"), PROMISES.values(), ids=PROMISES)
def test_only_the_agents_own_text_counts(events: list[object], promise: Promise | None) -> None:
    assert read(ClineReader, lines(*events, ENDED))[1] == Reading(promise)


@pytest.mark.parametrize("reason", ["error", "max_iterations", None, True])
def test_only_a_completed_run_is_a_success(reason: object) -> None:
    ended = {"type": "run_result", "finishReason": reason}
    reading = read(ClineReader, lines(says(DONE), ended))[1]
    assert reading.error == "reported an error without a message"


def test_an_error_after_the_last_word_counts_and_one_before_it_does_not() -> None:
    assert read(ClineReader, lines(says(DONE), breaks("Oh."), ENDED))[1].error == "Oh."
    assert read(ClineReader, lines(breaks("Oh."), says(DONE), ENDED))[1].error == ""


def test_a_wrong_key_is_known_by_its_class() -> None:
    assert read(ClineReader, lines(breaks("No.", errorClass="auth")))[1].trouble == LOGIN


def test_what_keeps_it_from_beginning_is_an_event_on_standard_error() -> None:
    event = {"type": "error", "message": "Not logged in."}
    stderr = f"noise {{\n{json.dumps(event)}\n\n".encode()
    assert ClineReader(INTENT).finish(1, stderr) == Reading(error="Not logged in.", trouble=LOGIN)


def test_a_cost_is_its_own_figure_and_zero_is_none() -> None:
    used = {"inputTokens": 30, "outputTokens": 2, "cacheReadTokens": 10, "totalCost": 0.5}
    reading = read(ClineReader, lines(says("x"), {**ENDED, "usage": used}))[1]
    assert reading.usage == Usage(20, 2, 10, cost_usd=0.5)
    free = {**ENDED, "usage": {**used, "totalCost": 0}}
    assert read(ClineReader, lines(says("x"), free))[1].usage == Usage(20, 2, 10)


def test_the_last_event_ends_the_call() -> None:
    reader = ClineReader(INTENT)
    seen = []
    last = breaks("Oh.", recoverable=False)
    for event in (says("Hi."), breaks("Oh.", recoverable=True), last, says("on"), ENDED):
        reader.feed(lines(event))
        seen.append(reader.over)
    assert seen == [False, False, True, False, True]


def test_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLINE_DIR", "/elsewhere")
    intent = Intent("p", "/w", "/s", model="opus")
    words = ("--json", "--auto-approve", "true", "-m", "opus")
    prompt = ("--", "Do what the text below says.")
    assert KnownProgram(CLINE).invocation(intent) == Invocation(
        argv=("cline", *words, *prompt),
        stdin=b"p",
        env={"CLINE_SESSION_BACKEND_MODE": "local", "CLINE_NO_AUTO_UPDATE": "1"},
        unset=CLINE.unset,
        writable=("/elsewhere",),
    )
    with pytest.raises(UserError):
        KnownProgram(CLINE).invocation(replace(intent, permissions=Permissions.EDITS))
