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
)
from untildone.adapters.agents.copilot import COPILOT, CopilotReader
from untildone.adapters.agents.program import KnownProgram
from untildone.domain.agents.agent import (
    AgentText,
    AgentTool,
    Intent,
    Invocation,
    Notice,
    Permissions,
    Reading,
    Session,
    Trouble,
)
from untildone.domain.agents.promise import Promise

RETRIED = (
    "Failed to get response from the AI model; retried 5 times (total retry wait time: {} seconds) "
    "Last error: {}"
)


def failed(error: str, trouble: Trouble | None) -> Reading:
    return Reading(error=error, trouble=trouble, session=NEW)


# Its tokens are in its records: no reading has any.
READINGS = {
    "ctx": failed(
        "The provider rejected the prompt as too long, but automatic recovery could not reduce it. "
        "Reduce context before retrying.",
        CONTEXT,
    ),
    "die": failed(
        RETRIED.format(
            "5.00",
            "Failed native model HTTP request: error decoding response body: error reading a body "
            "from connection: unexpected EOF during chunk size line",
        ),
        SERVER,
    ),
    "edits_denied": Reading(COMPLETE, session=NEW, denied=("bash touch denied.txt",)),
    "eof": failed(
        RETRIED.format(
            "5.00",
            "Failed to finalize chat-completions stream: missing finish_reason for choice 0",
        ),
        SERVER,
    ),
    "failed": Reading(FAILED, session=NEW),
    "hang": Reading(error=NO_RESULT),
    "http401": failed(
        "Authentication failed with provider at http://127.0.0.1:1/v1 (HTTP 401).\n"
        "  Check your COPILOT_PROVIDER_API_KEY, COPILOT_PROVIDER_API_KEY_COMMAND, or "
        "COPILOT_PROVIDER_BEARER_TOKEN.",
        LOGIN,
    ),
    "http429": failed(
        RETRIED.format("5.56", "429 Rate limit reached for requests. Please try again in 1s."),
        replace(RATE, after_s=1.0),
    ),
    "model_refusal": Reading(session=NEW),
    "nopromise": Reading(session=NEW),
    "ok": Reading(COMPLETE, session=NEW),
    "resume": Reading(COMPLETE, session=NEW),
    "sig_TERM_hang": Reading(error=NO_RESULT, session=NEW),
    "sig_TERM_toolsleep": Reading(error=NO_RESULT),
    "tool_exit_nonzero": Reading(COMPLETE, session=NEW),
}
NOTICES: dict[str, list[Notice]] = {
    "ok": [
        AgentTool("create", "/repo/hello.txt"),
        AgentText(f"I wrote hello.txt as asked.\n{DONE}"),
    ],
    "die": [],
    "sig_TERM_toolsleep": [AgentTool("bash", "sleep 60")],
}
ENDED = {"type": "result", "exitCode": 0}


def says(text: object, message: str = "m", **more: object) -> dict[str, object]:
    data = {"messageId": message, "content": text, **more}
    return {"type": "assistant.message", "data": data}


def error(message: str, kind: str = "query", **more: object) -> dict[str, object]:
    return {"type": "session.error", "data": {"errorType": kind, "message": message, **more}}


def test_every_capture_has_a_reading() -> None:
    assert recorded("copilot") == [f"1.0.102/{name}" for name in sorted(READINGS)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("capture", READINGS)
def test_recorded_streams(capture: str, size: int) -> None:
    name = f"1.0.102/{capture}"
    notices = check_capture("copilot", COPILOT.reader, name, READINGS[capture], size)
    assert notices == NOTICES.get(capture, notices)


PROMISES: dict[str, tuple[list[object], Promise | None]] = {
    "in a message": ([says(f"Hi.\n{DONE}")], COMPLETE),
    "before a last word": ([says(DONE), says("Bye.", "n")], COMPLETE),
    "in the prompt": ([{"type": "user.message", "data": {"content": DONE}}], None),
    "of a sub-agent": ([says(DONE, parentToolCallId="call_1"), says("Bye.", "n")], None),
    "in a tool's answer": (
        [{"type": "tool.execution_complete", "data": {"result": {"content": DONE}}}],
        None,
    ),
    "in a piece alone": (
        [{"type": "assistant.message_delta", "data": {"deltaContent": DONE}}],
        None,
    ),
    "strange events": ([[], 1, {}, {"type": 3}, says(7), {"type": "session.error"}], None),
}


@pytest.mark.parametrize(("events", "promise"), PROMISES.values(), ids=PROMISES)
def test_only_the_agents_own_text_counts(events: list[object], promise: Promise | None) -> None:
    assert read(CopilotReader, lines(*events, ENDED))[1] == Reading(promise)


@pytest.mark.parametrize("code", [1, None, False, "0"])
def test_only_the_exit_code_of_a_success_is_one(code: object) -> None:
    reading = read(CopilotReader, lines(says(DONE), {"type": "result", "exitCode": code}))[1]
    assert reading.error == "reported an error without a message"


def test_an_error_after_the_last_word_counts_and_one_before_it_does_not() -> None:
    late = read(CopilotReader, lines(says(DONE), error("It broke."), ENDED))[1]
    assert late.error == "It broke."
    assert read(CopilotReader, lines(error("It broke."), says(DONE), ENDED))[1].error == ""


@pytest.mark.parametrize(
    ("kind", "trouble"),
    [
        ("authentication", LOGIN),
        ("quota", USED_UP),
        ("context_limit", CONTEXT),
        ("rate_limit", RATE),
        ("query", None),
    ],
)
def test_an_error_without_a_status_is_known_by_its_kind(kind: str, trouble: Trouble | None) -> None:
    events = lines(error("It broke.", kind), {"type": "result", "exitCode": 1})
    assert read(CopilotReader, events)[1].trouble == trouble


def test_a_missing_login_is_told_on_standard_error() -> None:
    stderr = b"Error: No authentication information found.\n\nTo authenticate, you can:\n  run it\n"
    assert CopilotReader(INTENT).finish(1, stderr) == Reading(
        error="Error: No authentication information found.", trouble=LOGIN
    )
    assert CopilotReader(INTENT).finish(1, b"") == Reading(error=NO_RESULT)


def test_what_it_says_after_a_signal_is_no_last_event() -> None:
    reader = CopilotReader(INTENT)
    reader.feed(lines(says(DONE), {"type": "abort", "data": {"reason": "user_abort"}}, ENDED))
    assert not reader.over
    assert reader.finish(0, b"").error == NO_RESULT


def test_the_last_event_ends_the_call() -> None:
    reader = CopilotReader(INTENT)
    reader.feed(lines(says(DONE)))
    assert not reader.over
    reader.feed(lines(ENDED))
    assert reader.over


@pytest.mark.parametrize(
    ("intent", "words"),
    [
        (INTENT, ("--allow-all",)),
        (
            Intent("p", "/w", "/s", permissions=Permissions.EDITS),
            ("--allow-tool=write", "--deny-tool=shell"),
        ),
        (
            Intent("p", "/w", "/s", model="gpt-5.4", resume=Session("s1")),
            ("--allow-all", "--model", "gpt-5.4", "--session-id", "s1"),
        ),
    ],
)
def test_the_call(intent: Intent, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPILOT_HOME", "/elsewhere")
    monkeypatch.delenv("COPILOT_CACHE_HOME", raising=False)
    usual = ("--output-format", "json", "--no-ask-user")
    quiet = ("--no-auto-update", "--disable-client-telemetry")
    assert KnownProgram(COPILOT).invocation(intent) == Invocation(
        argv=("copilot", *usual, *quiet, *words),
        stdin=intent.prompt.encode(),
        env={},
        unset=COPILOT.unset,
        writable=("/elsewhere", "~/.cache/copilot"),
    )
