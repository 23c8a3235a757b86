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
from untildone.adapters.agents.gemini import GEMINI, GeminiReader
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

WAIT = (
    "Please wait and try again later. To increase your limits, request a quota increase through "
    "AI Studio, or switch to another /auth method"
)
EXHAUSTED = "Resource has been exhausted (e.g. check quota).\nSuggested retry after {}s.\n" + WAIT
INVALID = Trouble(Kind.AGENT_ERROR, "error 400")
REFUSED = Trouble(Kind.REFUSED, "the model refused")
OVERLOAD = "The model is overloaded. Please try again later."
UNFINISHED = "Model stream ended without a finish reason."


def used(calls: int) -> Usage:
    """The recorded server counts 1200, of these 300 cached, then 45 and 10 thoughts for a call."""
    return Usage(900 * calls, 55 * calls, 300 * calls, reasoning_tokens=10 * calls, model="fake")


def failed(error: str, trouble: Trouble | None, usage: Usage | None = None) -> Reading:
    nothing = Usage(model="gemini-2.5-pro")
    return Reading(error=error, trouble=trouble, usage=usage or nothing, session=NEW)


DONE_WELL = Reading(COMPLETE, usage=used(2), session=NEW)
STOPPED = Reading(error=NO_RESULT, session=NEW)
READINGS = {
    "argv_prompt_stdin_left_open": DONE_WELL,
    "bad_key": failed("API key not valid. Please pass a valid API key.", LOGIN),
    "ctx": failed(
        "The input token count (1500000) exceeds the maximum number of tokens allowed (1048576).",
        CONTEXT,
    ),
    "die": failed("terminated", SERVER),
    "empty_stdin": Reading(error=NO_RESULT),
    "eof": failed(UNFINISHED, SERVER, used(4)),
    "failed": Reading(FAILED, usage=used(2), session=NEW),
    "http400": failed("fake error", INVALID),
    "http401": failed("fake error", LOGIN),
    "http429": failed(EXHAUSTED.format(1), replace(RATE, after_s=1.0)),
    "http429_attempts2": failed(EXHAUSTED.format(1), replace(RATE, after_s=1.0)),
    "http429_once": DONE_WELL,
    "http429_ra3600": failed(EXHAUSTED.format(3600), replace(RATE, after_s=3600.0)),
    "http500": failed("fake error", Trouble(Kind.OVERLOADED, "server error (500)")),
    "http503": failed(OVERLOAD, SERVER),
    "http503_attempts2": failed(OVERLOAD, SERVER),
    "maxturns": failed(
        "Reached max session turns for this session. Increase the number of turns by specifying "
        "maxSessionTurns in settings.json.",
        Trouble(Kind.BUDGET, "the agent's own turns are used up"),
        used(3),
    ),
    "model_refusal": failed(
        "The model response was blocked due to safety settings.",
        REFUSED,
        Usage(1120, 43, 311, reasoning_tokens=11, model="gemini-2.5-pro"),
    ),
    "nopromise": Reading(usage=used(2), session=NEW),
    "ok": DONE_WELL,
    "ok_no_permission_flag": Reading(COMPLETE, usage=used(1), session=NEW),
    "resume": DONE_WELL,
    "sig_GKILL_toolsleep": STOPPED,
    "sig_GTERM_slow": STOPPED,
    "sig_INT_toolsleep": STOPPED,
    "sig_TERM_toolsleep": STOPPED,
    "sseerror": failed(UNFINISHED, SERVER, used(4)),
    "tool_exit_nonzero": DONE_WELL,
    "untrusted": Reading(error=NO_RESULT),
    "usage_limit": failed(f"You have exhausted your daily quota on this model.\n{WAIT}", USED_UP),
}

SAID: list[Notice] = [AgentText("I created hello.txt as asked.\n"), AgentText(DONE)]
NOTICES: dict[str, list[Notice]] = {
    "ok": [AgentTool("write_file", "/repo/hello.txt"), *SAID],
    "ok_no_permission_flag": SAID,
    "die": [AgentText("Partial answer before the break " * 4)],
    "sig_GTERM_slow": [],
    "http401": [],
}
ENDED = {"type": "result", "status": "success"}


def says(text: object, role: str = "assistant", **more: object) -> dict[str, object]:
    return {"type": "message", "role": role, "content": text, "delta": True, **more}


def uses(name: str = "run_shell_command", **arguments: object) -> dict[str, object]:
    return {"type": "tool_use", "tool_name": name, "tool_id": "1", "parameters": arguments}


def answers(status: str = "success", kind: str = "", output: str = "") -> dict[str, object]:
    error = {"error": {"type": kind, "message": "x"}} if kind else {}
    return {"type": "tool_result", "tool_id": "1", "status": status, "output": output, **error}


def test_every_capture_has_a_reading() -> None:
    assert recorded("gemini") == [f"0.61.0/{name}" for name in sorted(READINGS)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("capture", READINGS)
def test_recorded_streams(capture: str, size: int) -> None:
    name = f"0.61.0/{capture}"
    notices = check_capture("gemini", GEMINI.reader, name, READINGS[capture], size)
    assert notices == NOTICES.get(capture, notices)


PROMISES: dict[str, tuple[list[object], Promise | None]] = {
    "letter by letter": ([says(letter) for letter in f"Hi.\n{DONE}"], COMPLETE),
    "before a tool, then a word": ([says(DONE), uses(), answers(), says("Bye.")], COMPLETE),
    "inline before a tool": ([says(f"x {DONE}"), uses(), answers(), says("Bye.")], None),
    "inline, then a tool": ([says(f"x {DONE}"), uses(), answers()], None),
    "on both sides of a tool": ([says("<promise>COMP"), uses(), says("LETE</promise>")], None),
    "twice, as the first was cut": ([says("Hi.\n<promise>COM"), says(f"Hi.\n{DONE}")], COMPLETE),
    "in whole messages": ([says(f"a {DONE}", delta=False), says("b", delta=False)], None),
    "in the prompt": ([says(DONE, "user"), says("Bye.")], None),
    "in a tool's answer": ([uses(), answers(output=DONE), says("Bye.")], None),
    "in a tool call": ([uses(command=DONE), says("Bye.")], None),
    "in an error": ([{"type": "error", "severity": "warning", "message": DONE}], None),
    "strange events": ([[], 1, {}, {"type": 3}, says(7), {**uses(), "parameters": 4}], None),
}


@pytest.mark.parametrize(("events", "promise"), PROMISES.values(), ids=PROMISES)
def test_only_the_agents_own_text_counts(events: list[object], promise: Promise | None) -> None:
    assert read(GeminiReader, lines(*events, ENDED))[1] == Reading(promise)


@pytest.mark.parametrize("status", ["error", "", None, 3])
def test_only_a_success_is_one(status: object) -> None:
    reading = read(GeminiReader, lines(says(DONE), {"type": "result", "status": status}))[1]
    assert reading.error == "reported an error without a message"


@pytest.mark.parametrize(
    ("message", "trouble"),
    [
        ('{"error":{"code":400,"message":"API key not valid. Please pass a valid one."}}', LOGIN),
        ('{"error":{"code":400,"message":"connection is no field"}}', INVALID),
        ("The model response was blocked due to safety settings.", REFUSED),
        ("Unterminated string in JSON at position 33 (line 1 column 34)", SERVER),
        ("I have no words for it", None),
    ],
)
def test_errors_of_the_service(message: str, trouble: Trouble | None) -> None:
    error = {"type": "unknown", "message": f"[API Error: {message}]"}
    result = {"type": "result", "status": "error", "error": error}
    assert read(GeminiReader, lines(says(DONE), result))[1].trouble == trouble


def test_the_end_of_a_limit_may_be_told_on_standard_error_only() -> None:
    error = {"type": "unknown", "message": "[API Error: 429 Too Many Requests]"}
    result = {"type": "result", "status": "error", "error": error}
    stderr = b"Attempt 1 failed with status 429. Retrying with backoff...\nPlease retry in 75s.\n"
    reading = read(GeminiReader, lines(result), stderr=stderr)[1]
    assert reading.trouble == replace(RATE, after_s=75.0)


def test_a_missing_login_is_told_on_standard_error() -> None:
    stderr = b"YOLO mode is enabled.\nPlease set an Auth method.\n    at async route (x.js:1)\n"
    assert GeminiReader(INTENT).finish(41, stderr) == Reading(
        error=f"{NO_RESULT}: Please set an Auth method.", trouble=LOGIN
    )
    assert GeminiReader(INTENT).finish(55, b"").trouble is None


def test_fragments_are_shown_as_lines() -> None:
    pieces = ["One", " two\nthr", "ee\n", "\n", "four"]
    events = lines(*map(says, pieces), uses(command="ls"), says("five"), ENDED)
    assert read(GeminiReader, events)[0] == [
        AgentText("One two\n"),
        AgentText("three\n"),
        AgentText("four"),
        AgentTool("run_shell_command", "ls"),
        AgentText("five"),
    ]


def test_a_tool_that_was_not_allowed_is_named() -> None:
    events = [uses(command="rm x"), answers("error", "policy_violation"), says(DONE), ENDED]
    assert read(GeminiReader, lines(*events))[1] == Reading(
        COMPLETE, denied=("run_shell_command rm x",)
    )
    failed_tool = [uses(command="rm x"), answers("error", "shell_execute_error"), ENDED]
    assert read(GeminiReader, lines(*failed_tool))[1].denied == ()


def test_the_model_that_did_most_is_named() -> None:
    models = {"flash": {"total_tokens": 3}, "pro": {"total_tokens": 9}, "odd": 3}
    stats = {"total_tokens": 12, "input_tokens": 10, "output_tokens": 2, "models": models}
    reading = read(GeminiReader, lines({**ENDED, "stats": stats}))[1]
    assert reading.usage == Usage(10, 2, model="pro")


@pytest.mark.parametrize(
    ("intent", "words"),
    [
        (INTENT, ("--approval-mode", "yolo")),
        (
            Intent("p", "/w", "/s", permissions=Permissions.EDITS),
            ("--approval-mode", "auto_edit"),
        ),
        (
            Intent("p", "/w", "/s", model="flash", resume=Session("s1")),
            ("--approval-mode", "yolo", "-m", "flash", "--resume", "s1"),
        ),
    ],
)
def test_the_call(intent: Intent, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_CLI_HOME", "/elsewhere")
    assert KnownProgram(GEMINI).invocation(intent) == Invocation(
        argv=("gemini", "--output-format", "stream-json", *words),
        stdin=intent.prompt.encode(),
        env={
            "GEMINI_CLI_NO_RELAUNCH": "true",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GEMINI_TELEMETRY_ENABLED": "false",
        },
        unset=GEMINI.unset,
        writable=("/elsewhere/.gemini",),
    )
    assert {"GEMINI_CLI", "GEMINI_CLI_IDE_SERVER_PORT"} <= set(GEMINI.unset)
