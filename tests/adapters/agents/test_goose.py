from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from tests.adapters.agents.streams import (
    COMPLETE,
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
from untildone.adapters.agents.goose import GOOSE, GooseReader
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
from untildone.domain.agents.promise import Promise
from untildone.domain.errors import UserError

NETWORK = "check your network connection and try again."
AT = "at http://127.0.0.1:PORT/v1/chat/completions: fake error."


def used(calls: int) -> Usage:
    """The recorded server counts 1200, of these 300 cached, and 45 for a call."""
    cost = round(0.003075 * calls, 6)
    return Usage(900 * calls, 45 * calls, 300 * calls, cost_usd=cost, model="gpt-4o")


def ended(promise: Promise | None, usage: Usage) -> Reading:
    return Reading(promise, usage=usage, session=Session("", usage))


def failed(error: str, trouble: Trouble | None, usage: Usage | None = None) -> Reading:
    nothing = usage or Usage()
    return Reading(error=error, trouble=trouble, usage=nothing, session=Session("", nothing))


DONE_WELL = ended(COMPLETE, used(2))
STOPPED = Reading(error=NO_RESULT, session=NEW)
READINGS = {
    "close": failed(f"Network error: Network error — {NETWORK}", SERVER),
    "empty_stdin": DONE_WELL,
    "eof": ended(None, Usage(cost_usd=0.0, model="gpt-4o")),
    "failed": ended(FAILED, used(2)),
    "hang": Reading(error=NO_RESULT),
    "hang_short_timeout": failed(f"Network error: Request timed out — {NETWORK}", SERVER),
    "hangmid": STOPPED,
    "http400": failed(
        "Request failed: Bad request (400): fake error.", Trouble(Kind.AGENT_ERROR, "error 400")
    ),
    "http401": Reading(
        error="Authentication error: Authentication failed for "
        "http://127.0.0.1:PORT/v1/chat/completions. Status: 401 Unauthorized. "
        "Response: Incorrect API key provided.",
        trouble=LOGIN,
        session=NEW,
    ),
    "http429": failed(
        "Rate limit exceeded: Rate limit reached for fake-model in organization org-x on tokens "
        "per min (TPM): Limit 10000, Used 9999, Requested 500. Please try again in 1.2s.",
        replace(RATE, after_s=1.2),
    ),
    "http429_once": DONE_WELL,
    "http429_ra3600": Reading(error=NO_RESULT),
    "http500": failed(
        f"Server error: Server error (500 Internal Server Error) {AT}",
        Trouble(Kind.OVERLOADED, "server error (500)"),
    ),
    "http503": failed(
        f"Server error: Server error (503 Service Unavailable) {AT}",
        Trouble(Kind.OVERLOADED, "server error (503)"),
    ),
    "maxturns": failed(
        "I've reached the maximum number of actions I can do without user input. "
        "Would you like me to continue?",
        Trouble(Kind.BUDGET, "the agent's own turns are used up"),
        used(3),
    ),
    "noauth": DONE_WELL,
    "nopromise": ended(None, used(2)),
    "ok": DONE_WELL,
    "ok_goose_mode_approve": STOPPED,
    "quota": failed(
        "Rate limit exceeded: You exceeded your current quota, please check your plan and "
        "billing details.",
        USED_UP,
    ),
    "refused": failed(f"Network error: Could not connect to 127.0.0.1:PORT — {NETWORK}", SERVER),
    "sig_GINT_slow": Reading(error="Headless run interrupted", session=NEW),
    "sig_GINT_toolsleep": STOPPED,
    "sig_GKILL_toolsleep": STOPPED,
    "sig_GTERM_slow": STOPPED,
    "sig_GTERM_toolsleep": STOPPED,
    "sig_INT_toolsleep": STOPPED,
    "sig_TERM_toolsleep": STOPPED,
    "sseerror": failed("Server error: Overloaded.", SERVER, Usage(model="gpt-4o")),
    "tool_exit_nonzero": DONE_WELL,
    "usage_limit": failed("Rate limit exceeded: The usage limit has been reached.", USED_UP),
}
SAID: list[Notice] = [AgentText("I created hello.txt as asked.\n"), AgentText(DONE)]
NOTICES: dict[str, list[Notice]] = {
    "ok": [AgentTool("write", "/repo/hello.txt"), *SAID],
    "sseerror": [AgentText("Partial answer before the break ")],
    "http429": [],
    "http401": [],
}
MODEL = {"inference": {"requestedModel": "m"}}
OVER = {"type": "complete", "input_tokens": 10, "output_tokens": 2}


def block(content: object, message_id: str = "m1", **more: object) -> dict[str, object]:
    message = {"id": message_id, "role": "assistant", "content": [content], "metadata": MODEL}
    return {"type": "message", "message": {**message, **more}}


def says(text: str, message_id: str = "m1", **more: object) -> dict[str, object]:
    return block({"type": "text", "text": text}, message_id, **more)


def goose_says(text: str) -> dict[str, object]:
    return says(text, "msg_1", metadata={})


def tool(name: str, **arguments: object) -> dict[str, object]:
    value = {"name": name, "arguments": arguments}
    return {"type": "toolRequest", "toolCall": {"status": "success", "value": value}}


def test_every_capture_has_a_reading() -> None:
    assert recorded("goose") == [f"1.52.0/{name}" for name in sorted(READINGS)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("capture", READINGS)
def test_recorded_streams(capture: str, size: int) -> None:
    notices = check_capture("goose", GOOSE.reader, f"1.52.0/{capture}", READINGS[capture], size)
    assert notices == NOTICES.get(capture, notices)


PROMISES: dict[str, tuple[list[object], Promise | None]] = {
    "letter by letter": ([says(letter) for letter in f"Hi.\n{DONE}"], COMPLETE),
    "in an earlier message": ([says(DONE), says("Bye.", "m2")], COMPLETE),
    "over two messages": ([says("<promise>COMP"), says("LETE</promise>", "m2")], None),
    "on both sides of a tool": (
        [says("<promise>COMP"), block(tool("shell")), says("LETE</promise>")],
        None,
    ),
    "thought": ([block({"type": "thinking", "thinking": DONE}), says("Bye.")], None),
    "in a tool call": ([block(tool("shell", command=DONE)), says("Bye.")], None),
    "in a tool's answer": (
        [says(DONE, role="user"), block({"type": "toolResponse", "text": DONE}), says("Bye.")],
        None,
    ),
    "strange events": ([[], 1, {}, {"type": 3}, block(7), block([8])], None),
}


@pytest.mark.parametrize(("events", "promise"), PROMISES.values(), ids=PROMISES)
def test_only_the_models_own_text_counts(events: list[object], promise: Promise | None) -> None:
    reading = read(GooseReader, lines(*events, OVER))[1]
    assert (reading.promise, reading.error) == (promise, "")


@pytest.mark.parametrize(
    ("words", "error", "trouble"),
    [
        ("Conversation over.", "Conversation over.", None),
        ("Ran into this error: Context length exceeded: x.\n\nPlease retry if", None,
         Trouble(Kind.CONTEXT_OVERFLOW, "the context is too long")),
        ("Ran into this error: Provider refused request: x.\n\nPlease retry if", None,
         Trouble(Kind.REFUSED, "the model refused")),
        ("Ran into this error trying to compact: It exceeds the context window.\n\nPlease try",
         "Ran into this error trying to compact: It exceeds the context window.",
         Trouble(Kind.CONTEXT_OVERFLOW, "the context is too long")),
        ("The model returned an empty response. Please resend your message.", None,
         Trouble(Kind.REFUSED, "the model refused")),
    ],
)  # fmt: skip
def test_goose_in_the_place_of_the_model_is_an_error(
    words: str, error: str | None, trouble: Trouble | None
) -> None:
    reading = read(GooseReader, lines(says(DONE), goose_says(words), OVER))[1]
    assert reading.error
    assert error is None or reading.error == error
    assert reading.trouble == trouble


def test_a_remark_of_goose_does_not_stop_the_model() -> None:
    events = [says("Hi."), goose_says("A remark."), says(DONE, "m2"), OVER]
    assert read(GooseReader, lines(*events))[1].error == ""


def test_the_last_credit_is_gone() -> None:
    note = {"type": "systemNotification", "notificationType": "creditsExhausted", "msg": "Add."}
    reading = read(GooseReader, lines(block(note, metadata={}), OVER))[1]
    assert (reading.error, reading.trouble) == ("Credits exhausted: Add.", USED_UP)


def test_a_context_that_is_too_long_in_spite_of_compaction_is_told_as_such() -> None:
    words = "Context limit still exceeded after compaction. Try using a shorter message."
    notes = [
        {"type": "systemNotification", "notificationType": "inlineMessage", "msg": msg}
        for msg in ("Context limit reached. Compacting …", f"Unable to continue: {words}")
    ]
    reading = read(GooseReader, lines(*(block(note, metadata={}) for note in notes), OVER))[1]
    assert reading.error == words
    assert reading.trouble == Trouble(Kind.CONTEXT_OVERFLOW, "the context is too long")
    assert read(GooseReader, lines(block(notes[0], metadata={}), says(DONE), OVER))[1].error == ""


def test_without_a_provider_it_does_not_begin() -> None:
    why = b"\n  error: No provider configured. Run 'goose configure' first.\n\n"
    assert read(GooseReader, b"", stderr=why)[1] == Reading(
        error=f"{NO_RESULT}: {why.decode().strip()}", trouble=LOGIN
    )


def test_a_version_that_does_not_mark_the_model() -> None:
    assert read(GooseReader, lines(goose_says(DONE), OVER))[1].promise == COMPLETE


def test_a_message_after_the_end_is_not_over() -> None:
    assert read(GooseReader, lines(says(DONE), OVER, says("More.", "m2")))[1].error == NO_RESULT


def test_a_resumed_session_counts_on() -> None:
    before = Usage(100, 20, 300, cost_usd=0.01, model="m")
    intent = replace(INTENT, resume=Session("s1", before))
    over = {**OVER, "input_tokens": 460, "output_tokens": 50, "cache_read_input_tokens": 340}
    reading = read(GooseReader, lines(says("Hi."), {**over, "cost_usd": 0.03}), intent=intent)[1]
    assert reading.usage == Usage(20, 30, 40, cost_usd=0.03 - 0.01, model="m")
    assert reading.session == Session("s1", Usage(120, 50, 340, cost_usd=0.03, model="m"))
    broken = read(GooseReader, lines(says("Hi.")), intent=intent)[1]
    assert broken.session == Session("s1", before)


def test_every_fresh_call_has_a_session_of_its_own() -> None:
    now = datetime(2026, 11, 16, tzinfo=UTC)
    intents = [
        INTENT,
        replace(INTENT, story_id="2"),
        replace(INTENT, asked=now),
        replace(INTENT, asked=now.replace(microsecond=1)),
    ]
    output = stream("goose", "1.52.0/ok")
    sessions = [read(GooseReader, output, intent=i)[1].session for i in intents]
    names = {session.id for session in sessions if session}
    assert len(names) == len(intents)
    for intent, session in zip(intents, sessions, strict=True):
        assert session
        assert session.id in KnownProgram(GOOSE).invocation(intent).argv


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("", ()),
        ("gpt-4o", ("--model", "gpt-4o")),
        ("openrouter/a/b", ("--provider", "openrouter", "--model", "a/b")),
    ],
)
def test_the_call(model: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CONFIG", "STATE"):
        monkeypatch.delenv(f"XDG_{kind}_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    intent = Intent("p", "/w", "/s", model=model, resume=Session("s1"))
    assert KnownProgram(GOOSE, extra_args=("--max-turns", "9")).invocation(intent) == Invocation(
        argv=(
            *("goose", "run", "-q", "--output-format", "stream-json", "-i", "-"),
            *("--max-turns", "9", *words, "--resume", "--name", "s1"),
        ),
        stdin=b"p",
        env={
            "GOOSE_MODE": "auto",
            "GOOSE_TELEMETRY_ENABLED": "false",
            "GOOSE_TELEMETRY_OFF": "1",
        },
        unset=("AGENT_SESSION_ID", "GOOSE_TERMINAL"),
        writable=("~/.config/goose", "/data/goose", "~/.local/state/goose"),
    )


def test_it_cannot_be_held_to_edits() -> None:
    with pytest.raises(UserError, match="goose cannot be held to `--permissions edits`") as refused:
        KnownProgram(GOOSE).invocation(replace(INTENT, permissions=Permissions.EDITS))
    assert "untildone agents --permissions edits" in refused.value.hint
