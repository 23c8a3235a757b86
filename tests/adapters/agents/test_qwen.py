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
    check_capture,
    lines,
    read,
    recorded,
    stream,
)
from untildone.adapters.agents.program import KnownProgram
from untildone.adapters.agents.qwen import QWEN, QwenReader
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


def used(calls: int) -> Usage:
    """The recorded server counts 1200, of these 300 cached, then 45 for a call."""
    return Usage(900 * calls, 45 * calls, 300 * calls)


def ended(promise: Promise | None, calls: int = 2) -> Reading:
    usage = replace(used(calls), model="fake-model")
    return Reading(promise, usage=usage, session=Session("", used(calls)))


def failed(error: str, trouble: Trouble | None) -> Reading:
    return replace(ended(None, 0), error=error, trouble=trouble)


STOPPED = Reading(error=NO_RESULT, session=NEW)
READINGS = {
    "0.15.10/ok": ended(COMPLETE),
    "0.24.4/ctx": failed(
        "400 Your input exceeds the context window of this model. "
        "Please adjust your input and try again.",
        CONTEXT,
    ),
    "0.24.4/die": failed("terminated (cause: read ECONNRESET)", SERVER),
    "0.24.4/eof": failed("Model stream ended without a finish reason.", SERVER),
    "0.24.4/failed": ended(FAILED),
    "0.24.4/hang": STOPPED,
    "0.24.4/hangmid": STOPPED,
    "0.24.4/http401": failed("401 Incorrect API key provided.", LOGIN),
    "0.24.4/http429": replace(STOPPED, trouble=RATE),
    "0.24.4/http429_once": ended(COMPLETE),
    "0.24.4/http429_ra3600": STOPPED,
    "0.24.4/http500": failed("500 fake error", Trouble(Kind.OVERLOADED, "server error (500)")),
    "0.24.4/nopromise": ended(None),
    "0.24.4/ok": ended(COMPLETE),
    "0.24.4/ok_no_permission_flag": ended(COMPLETE, 3),
    "0.24.4/partial_messages": Reading(
        COMPLETE,
        usage=Usage(2260, 89, 633, model="scripted-1"),
        session=Session("", Usage(2260, 89, 633)),
    ),
    "0.24.4/quota": STOPPED,
    "0.24.4/resume": ended(COMPLETE, 4),
    "0.24.4/sig_GKILL_slow": STOPPED,
    "0.24.4/sig_GKILL_toolsleep": STOPPED,
    "0.24.4/sig_GTERM_slow": STOPPED,
    "0.24.4/sig_INT_toolsleep": STOPPED,
    "0.24.4/sig_TERM_toolsleep": STOPPED,
    "0.24.4/sseerror": replace(STOPPED, trouble=RATE),
    "0.24.4/tool_exit_nonzero": ended(COMPLETE),
    "0.24.4/walltime": STOPPED,
}
SAID: Notice = AgentText(f"I created hello.txt as asked.\n{DONE}")
NOTICES: dict[str, list[Notice]] = {
    "0.24.4/ok": [AgentTool("write_file", "/repo/hello.txt"), SAID],
    "0.24.4/http429": [],
    "0.24.4/partial_messages": [
        AgentTool("write_file", "/repo/hello.txt"),
        AgentText(f"The file is written.\n{DONE}"),
    ],
}
RETRY = {"type": "system", "subtype": "retry"}
GAVE_UP = {"type": "result", "subtype": "error_during_execution", "is_error": True}


def test_every_capture_has_a_reading() -> None:
    assert recorded("qwen") == sorted(READINGS)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("capture", READINGS)
def test_recorded_streams(capture: str, size: int) -> None:
    notices = check_capture("qwen", QWEN.reader, capture, READINGS[capture], size)
    assert notices == NOTICES.get(capture, notices)


def test_a_resumed_conversation_is_counted_from_where_it_was() -> None:
    resumed = replace(INTENT, resume=Session("s", used(2)))
    reading = read(QwenReader, stream("qwen", "0.24.4/resume"), intent=resumed)[1]
    assert reading.usage == replace(used(2), model="fake-model")
    assert reading.session
    assert reading.session.totals == used(4)


def test_a_call_that_fails_keeps_the_count_of_the_conversation() -> None:
    resumed = replace(INTENT, resume=Session("s", used(2)))
    nothing = {**GAVE_UP, "session_id": "s", "usage": {"input_tokens": 0, "output_tokens": 0}}
    reading = read(QwenReader, lines(nothing), intent=resumed)[1]
    assert (reading.usage, reading.session) == (Usage(), Session("s", used(2)))


@pytest.mark.parametrize(
    ("data", "trouble"), [({"delayMs": 60000}, RATE), ({"preserveText": True}, None), (3, None)]
)
def test_a_retry_that_waits_is_a_limit(data: object, trouble: Trouble | None) -> None:
    assert read(QwenReader, lines({**RETRY, "data": data}))[1].trouble == trouble
    said = {"type": "assistant", "message": {"id": "m", "content": "Going on."}}
    went_on = lines({**RETRY, "data": data}, said)
    assert read(QwenReader, went_on)[1].trouble is None


@pytest.mark.parametrize("code", [53, 55])
def test_at_a_limit_of_its_own_it_just_ends(code: int) -> None:
    trouble = QwenReader(INTENT).finish(code, b"").trouble
    assert trouble
    assert trouble.kind is Kind.BUDGET
    ended = QwenReader(INTENT)
    ended.feed(lines(GAVE_UP))
    assert ended.finish(code, b"").trouble is None


def test_no_login() -> None:
    error = {"message": "No auth type is selected. Please configure an auth type."}
    assert read(QwenReader, lines({**GAVE_UP, "error": error}))[1].trouble == LOGIN


@pytest.mark.parametrize(
    ("intent", "words"),
    [
        (INTENT, ("--approval-mode", "yolo")),
        (
            Intent("p", "/w", "/s", permissions=Permissions.EDITS),
            ("--approval-mode", "auto-edit"),
        ),
        (
            Intent("p", "/w", "/s", model="coder", resume=Session("s1")),
            ("--approval-mode", "yolo", "-m", "coder", "--resume", "s1"),
        ),
    ],
)
def test_the_call(intent: Intent, words: tuple[str, ...]) -> None:
    assert KnownProgram(QWEN).invocation(intent) == Invocation(
        argv=("qwen", "--output-format", "stream-json", "--include-partial-messages", *words),
        stdin=intent.prompt.encode(),
        env={
            "QWEN_CODE_NO_RELAUNCH": "true",
            "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
            "QWEN_TELEMETRY_ENABLED": "false",
            "QWEN_USAGE_STATISTICS_ENABLED": "false",
        },
        unset=QWEN.unset,
        writable=("~/.qwen",),
    )
    assert {"QWEN_CODE", "QWEN_CODE_SESSION_ID"} <= set(QWEN.unset)
