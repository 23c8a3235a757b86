import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tests.adapters.agents.streams import (
    COMPLETE,
    CONTEXT,
    DONE,
    FAILED,
    INTENT,
    LOGIN,
    NEW,
    NO_RESULT,
    RATE,
    SERVER,
    SIZES,
    USED_UP,
    check_capture,
    lines,
    read,
    recorded,
    stream,
)
from untildone.adapters.agents.codex import CODEX, CodexReader
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
    Session,
    Trouble,
    Usage,
)

USED = Usage(1800, 90, 600, reasoning_tokens=20)
TWICE = Usage(3600, 180, 1200, reasoning_tokens=40)
BROKEN = "stream disconnected before completion: "
UNAVAILABLE = Reading(
    error="unexpected status 503 Service Unavailable: fake error, "
    "url: http://127.0.0.1:PORT/v1/responses",
    trouble=Trouble(Kind.OVERLOADED, "server error (503)"),
    session=NEW,
)
LIMIT = (
    "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit "
    "https://chatgpt.com/settings/usage to purchase more credits or try again at 11:42 PM."
)
DONE_WELL = Reading(COMPLETE, usage=USED, session=Session("", USED))
STOPPED = Reading(error=NO_RESULT, session=NEW)
NOTHING = Reading(error=NO_RESULT)


def failed(error: str, trouble: Trouble | None) -> Reading:
    return Reading(error=error, trouble=trouble, session=NEW)


READINGS = {
    "argv_prompt_stdin_left_open": NOTHING,
    "close": failed(f"{BROKEN}error sending request", SERVER),
    "ctx": failed(
        "Your input exceeds the context window of this model. "
        "Please adjust your input and try again.",
        CONTEXT,
    ),
    "die": failed(f"{BROKEN}Transport error: network error: error decoding response body", SERVER),
    "empty_stdin": NOTHING,
    "eof": failed(f"{BROKEN}stream closed before response.completed", SERVER),
    "failed": Reading(FAILED, usage=USED, session=Session("", USED)),
    "hang": STOPPED,
    "hang_short_timeout": STOPPED,
    "hangmid": failed(NO_RESULT, SERVER),
    "hangmid_short_timeout": failed(f"{BROKEN}idle timeout waiting for SSE", SERVER),
    "http400": failed("fake error", None),
    "http401": failed(
        "unexpected status 401 Unauthorized: Incorrect API key provided: sk-x., "
        "url: http://127.0.0.1:PORT/v1/responses",
        LOGIN,
    ),
    "http429": failed("exceeded retry limit, last status: 429 Too Many Requests", RATE),
    "http429_once": DONE_WELL,
    "http429_ra3600": failed(NO_RESULT, RATE),
    "http503": UNAVAILABLE,
    "http503_low_retries": UNAVAILABLE,
    "noauth": failed("Missing environment variable: `FAKE_KEY`.", LOGIN),
    "nopromise": Reading(usage=USED, session=Session("", USED)),
    "ok": DONE_WELL,
    "ok_no_permission_flag": DONE_WELL,
    "ok_sandbox_workspace_write": DONE_WELL,
    "quota": failed("Quota exceeded. Check your plan and billing details.", USED_UP),
    "resume": Reading(COMPLETE, usage=TWICE, session=Session("", TWICE)),
    "resume_bad_id": NOTHING,
    "sig_GINT_slow": STOPPED,
    "sig_GKILL_toolsleep": STOPPED,
    "sig_GTERM_toolsleep": STOPPED,
    "sig_INT_slow": STOPPED,
    "sig_INT_toolsleep": STOPPED,
    "sig_TERM_slow": STOPPED,
    "sig_TERM_toolsleep": STOPPED,
    "tool_exit_nonzero": DONE_WELL,
    "usage_limit": failed(LIMIT, USED_UP),
}

SAID: Notice = AgentText(f"I created hello.txt as asked.\n{DONE}")
NOTICES: dict[str, list[Notice]] = {
    "ok": [AgentTool("command_execution", "/bin/bash -lc 'echo hello > hello.txt'"), SAID],
    "ok_no_permission_flag": [SAID],
    "http429": [],
}
THREAD = {"type": "thread.started", "thread_id": "t1"}
ENDED = {"type": "turn.completed", "usage": {}}


def item(kind: str, event: str = "item.completed", **fields: object) -> dict[str, object]:
    return {"type": event, "item": {"id": "item_0", "type": kind, **fields}}


def test_every_capture_has_a_reading() -> None:
    assert recorded("codex") == [f"0.166.0/{name}" for name in sorted(READINGS)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("capture", READINGS)
def test_recorded_streams(capture: str, size: int) -> None:
    name = f"0.166.0/{capture}"
    notices = check_capture("codex", CODEX.reader, name, READINGS[capture], size)
    assert notices == NOTICES.get(capture, notices)


def test_a_resumed_conversation_is_counted_from_where_it_was() -> None:
    resumed = Intent("p", "/w", "/s", model="gpt", resume=Session("t", USED))
    reading = read(CodexReader, stream("codex", "0.166.0/resume"), intent=resumed)[1]
    assert reading.usage == Usage(1800, 90, 600, reasoning_tokens=20, model="gpt")
    assert reading.session
    assert reading.session.totals == Usage(3600, 180, 1200, reasoning_tokens=40, model="gpt")


def test_a_call_that_fails_keeps_the_count_of_the_conversation() -> None:
    resumed = Intent("p", "/w", "/s", resume=Session("t1", USED))
    events = lines(THREAD, {"type": "turn.failed", "error": {"message": "no"}})
    reading = read(CodexReader, events, intent=resumed)[1]
    assert reading == Reading(error="no", session=Session("t1", USED))


@pytest.fixture
def two_hours_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("clock", "until"),
    [
        ("11:42 PM.", (15, 21, 42)),
        ("1:05 AM.", (15, 23, 5)),
        ("9:00 AM.", (16, 7, 0)),
        ("Nov 20th, 2026 3:04 PM.", (20, 13, 4)),
    ],
)
@pytest.mark.usefixtures("two_hours_east")
def test_the_reset_is_told_in_local_time(clock: str, until: tuple[int, int, int]) -> None:
    asked = datetime(2026, 11, 15, 20, 0, tzinfo=UTC)
    message = {"message": f"You’ve hit your usage limit. Upgrade or try again at {clock}"}
    failure = lines({"type": "turn.failed", "error": message})
    trouble = read(CodexReader, failure, intent=replace(INTENT, asked=asked))[1].trouble
    assert trouble == Trouble(
        Kind.QUOTA_EXHAUSTED, "usage limit", datetime(2026, 11, *until, tzinfo=UTC)
    )


@pytest.mark.parametrize("clock", ["Feb 30th, 2026 3:04 PM.", "25:00.", "99:99 PM.", "12", "noon"])
def test_a_reset_that_is_no_time_is_none(clock: str) -> None:
    message = {"message": f"You’ve hit your usage limit. Try again at {clock}"}
    failure = lines({"type": "turn.failed", "error": message})
    asked = replace(INTENT, asked=datetime(2026, 11, 15, 20, 0, tzinfo=UTC))
    assert read(CodexReader, failure, intent=asked)[1].trouble == USED_UP


def test_only_what_the_agent_says_is_heard() -> None:
    events = [
        THREAD,
        item("reasoning", text=DONE),
        item("command_execution", command="cat PROMPT.md", aggregated_output=DONE),
        item("todo_list", items=[{"text": DONE}]),
        item("error", message=DONE),
        item("agent_message", "item.updated", text=DONE),
        {"type": "error", "message": DONE},
        ENDED,
    ]
    reading = read(CodexReader, lines(*events))[1]
    assert (reading.promise, reading.error) == (None, "")


def test_a_promise_before_a_failure_does_not_hide_it() -> None:
    said = item("agent_message", text=DONE)
    failure = {"type": "turn.failed", "error": {"message": "unexpected status 529: overloaded"}}
    assert read(CodexReader, lines(said, failure))[1] == Reading(
        COMPLETE,
        error="unexpected status 529: overloaded",
        trouble=Trouble(Kind.OVERLOADED, "service overloaded"),
    )
    assert read(CodexReader, lines(said, ENDED, failure))[1].error


def test_an_error_line_before_the_agent_goes_on_is_forgotten() -> None:
    retry = {"type": "error", "message": "Reconnecting... 1/5 (last status: 429)"}
    went_on = lines(retry, item("agent_message", text="Hi."))
    assert read(CodexReader, went_on)[1] == Reading(error=NO_RESULT)
    assert read(CodexReader, lines(retry))[1] == Reading(error=NO_RESULT, trouble=RATE)


def test_tools_are_shown_once() -> None:
    changes = [{"path": "a.py", "kind": "add"}, {"path": "b.py", "kind": "update"}]
    events = [
        item("command_execution", "item.started", command="ls"),
        item("command_execution", command="ls", aggregated_output="x", exit_code=0),
        {"type": "item.completed", "item": {"id": "2", "type": "file_change", "changes": changes}},
        {"type": "item.started", "item": {"id": "3", "type": "mcp_tool_call", "tool": "find"}},
        {"type": "item.completed", "item": {"id": "4", "type": "web_search", "query": "q"}},
    ]
    assert read(CodexReader, lines(*events))[0] == [
        AgentTool("command_execution", "ls"),
        AgentTool("file_change", "a.py, b.py"),
        AgentTool("find"),
        AgentTool("web_search", "q"),
    ]


def test_a_declined_command_is_named() -> None:
    declined = item("command_execution", command="rm x", status="declined")
    assert read(CodexReader, lines(declined, ENDED))[1].denied == ("command_execution rm x",)


@pytest.mark.parametrize(
    "strange",
    [[], 1, {}, {"type": 3}, {"type": "item.completed"}, {"type": "item.completed", "item": 3},
     {"type": "turn.failed"}, {"type": "turn.completed", "usage": 3}, {"type": "error"},
     {"type": "thread.started", "thread_id": 4}, item("file_change", changes=[3, {"path": 1}])],
)  # fmt: skip
def test_strange_events_are_survived(strange: object) -> None:
    assert read(CodexReader, lines(strange))[1].promise is None


def test_a_turn_that_fails_without_a_word() -> None:
    reading = read(CodexReader, lines({"type": "turn.failed"}))[1]
    assert reading == Reading(error="reported an error without a message")


@pytest.mark.parametrize(
    ("intent", "words"),
    [
        (INTENT, ("--dangerously-bypass-approvals-and-sandbox", "-")),
        (Intent("p", "/w", "/s", permissions=Permissions.EDITS), ("-s", "workspace-write", "-")),
        (
            Intent("p", "/w", "/s", model="gpt-5", resume=Session("t1")),
            ("--dangerously-bypass-approvals-and-sandbox", "-m", "gpt-5", "resume", "t1", "-"),
        ),
    ],
)
def test_the_call(intent: Intent, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", "/elsewhere")
    assert KnownProgram(CODEX).invocation(intent) == Invocation(
        argv=(
            *("codex", "exec", "--json", "--disable", "plugins"),
            *("-c", "check_for_update_on_startup=false", "-c", "analytics.enabled=false"),
            *words,
        ),
        stdin=intent.prompt.encode(),
        unset=CODEX.unset,
        writable=("/elsewhere",),
    )
    assert {"CODEX_THREAD_ID", "CODEX_SANDBOX"} <= set(CODEX.unset)
