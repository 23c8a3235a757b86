"""What the documentation of Cursor's agent says, since nobody here could run it."""

import pytest
from msgspec.structs import replace

from tests.adapters.agents.streams import COMPLETE, DONE, INTENT, LOGIN, NO_RESULT, lines, read
from untildone.adapters.agents.cursor_agent import CURSOR_AGENT, CursorReader
from untildone.adapters.agents.program import KnownProgram
from untildone.domain.agents.agent import (
    AgentText,
    AgentTool,
    Intent,
    Invocation,
    Permissions,
    Reading,
    Session,
)
from untildone.domain.errors import UserError

BEGUN = {"type": "system", "subtype": "init", "session_id": "s-1", "model": "GPT-5"}
ENDED = {"type": "result", "subtype": "success", "is_error": False, "result": DONE}
PROMPT = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": DONE}]}}


def says(text: str) -> dict[str, object]:
    content = [{"type": "text", "text": text}]
    return {"type": "assistant", "message": {"role": "assistant", "content": content}}


def calls(subtype: str, **more: object) -> dict[str, object]:
    call = {"shellToolCall": {"args": {"command": "ls"}, **more}}
    return {"type": "tool_call", "subtype": subtype, "call_id": "c", "tool_call": call}


def test_a_documented_stream() -> None:
    done = calls("completed", result={"success": {"stdout": DONE}})
    events = lines(BEGUN, PROMPT, says("Hi."), calls("started"), done, says(DONE), ENDED)
    notices, reading = read(CursorReader, events)
    assert notices == [AgentText("Hi."), AgentTool("shell", "ls"), AgentText(DONE)]
    assert reading == Reading(COMPLETE, session=Session("s-1"))


def test_neither_the_prompt_nor_a_tool_promises() -> None:
    done = calls("completed", result={"success": {"stdout": DONE}})
    assert read(CursorReader, lines(BEGUN, PROMPT, done, says("Bye."), ENDED))[1].promise is None


def test_a_failure_is_told_on_standard_error() -> None:
    said = "Error: Authentication required. Please run 'cursor-agent login' first."
    stderr = f"{said}\nSee the manual.\n".encode()
    assert CursorReader(INTENT).finish(1, stderr) == Reading(error=said, trouble=LOGIN)
    assert read(CursorReader, lines(BEGUN, says(DONE)))[1].error == NO_RESULT


def test_no_tokens_are_unknown_ones() -> None:
    odd = {**ENDED, "usage": {"inputTokens": 3}}
    assert read(CursorReader, lines(BEGUN, says("x"), odd))[1].usage is None


def test_the_last_event_ends_the_call() -> None:
    reader = CursorReader(INTENT)
    seen = []
    for event in (says("x"), ENDED, calls("started"), ENDED):
        reader.feed(lines(event))
        seen.append(reader.over)
    assert seen == [False, True, False, True]


def test_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/elsewhere")
    intent = Intent("p", "/w", "/s", model="gpt-5", resume=Session("s1"))
    words = ("-p", "--output-format", "stream-json", "--force", "--model", "gpt-5")
    assert KnownProgram(CURSOR_AGENT).invocation(intent) == Invocation(
        argv=("cursor-agent", *words, "--resume", "s1"),
        stdin=b"p",
        writable=("~/.cursor", "/elsewhere/cursor"),
    )
    with pytest.raises(UserError):
        KnownProgram(CURSOR_AGENT).invocation(replace(intent, permissions=Permissions.EDITS))
