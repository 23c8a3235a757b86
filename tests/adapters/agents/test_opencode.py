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
    NEW,
    NO_RESULT,
    RATE,
    SERVER,
    SIZES,
    check_capture,
    lines,
    read,
    recorded,
)
from untildone.adapters.agents.opencode import OPENCODE, OpencodeReader
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

NOTHING = Usage(cost_usd=0.0)


def used(calls: int) -> Usage:
    """The recorded server counts 900, 300 cached, 35 and 10 of reasoning for a call."""
    return Usage(
        900 * calls,
        45 * calls,
        300 * calls,
        cost_usd=0.003465 * calls,
        reasoning_tokens=10 * calls,
    )


def failed(error: str, trouble: Trouble | None) -> Reading:
    return Reading(error=error, trouble=trouble, session=NEW)


DONE_WELL = Reading(COMPLETE, usage=used(2), session=NEW)
STOPPED = Reading(error=NO_RESULT, session=NEW)
READINGS = {
    "close": failed(
        "Cannot connect to API: The socket connection was closed unexpectedly. For more "
        "information, pass `verbose: true` in the second argument to fetch()",
        SERVER,
    ),
    "die": failed("Connection reset by server", SERVER),
    "eof": Reading(error=NO_RESULT, usage=NOTHING, session=NEW),
    "failed": Reading(FAILED, usage=used(2), session=NEW),
    "hang": Reading(error=NO_RESULT),
    "http400": failed("fake error", Trouble(Kind.AGENT_ERROR, "error 400")),
    "http429": failed(
        "Rate limit reached for fake-model in organization org-x on tokens per min (TPM): "
        "Limit 10000, Used 9999, Requested 500. Please try again in 1.2s.",
        replace(RATE, after_s=1.0),
    ),
    "http429_once": DONE_WELL,
    "http429_ra3600": Reading(error=NO_RESULT),
    "http500": failed("fake error", Trouble(Kind.OVERLOADED, "server error (500)")),
    "http503": failed("fake error", Trouble(Kind.OVERLOADED, "server error (503)", after_s=1.0)),
    "nopromise": Reading(usage=used(2), session=NEW),
    "notjson": Reading(
        error="ended early, its last step with: unknown", usage=NOTHING, session=NEW
    ),
    "ok": DONE_WELL,
    "ok_no_permission_flag": DONE_WELL,
    "resume": DONE_WELL,
    "sig_GINT_toolsleep": STOPPED,
    "sig_GKILL_slow": STOPPED,
    "sig_GKILL_toolsleep": STOPPED,
    "sig_GTERM_slow": STOPPED,
    "sig_GTERM_toolsleep": STOPPED,
    "sig_INT_toolsleep": STOPPED,
    "sig_TERM_slow": STOPPED,
    "sig_TERM_toolsleep": STOPPED,
    "sseerror": failed("Overloaded", Trouble(Kind.OVERLOADED, "server error (503)")),
    "tool_exit_nonzero": DONE_WELL,
}
SAID: Notice = AgentText(f"I created hello.txt as asked.\n{DONE}")
NOTICES: dict[str, list[Notice]] = {
    "ok": [AgentTool("write", "/repo/hello.txt"), SAID],
    "http400": [],
}
BEGUN = {"type": "step_start", "part": {}}


def part(kind: str, message_id: str = "m1", **more: object) -> dict[str, object]:
    return {"type": kind, "part": {"messageID": message_id, **more}}


def says(text: object, message_id: str = "m1") -> dict[str, object]:
    return part("text", message_id, text=text)


def uses(error: str = "", **arguments: object) -> dict[str, object]:
    state = {"status": "error" if error else "completed", "input": arguments, "error": error}
    return part("tool_use", tool="bash", state={**state, "output": DONE})


def finish(reason: object = "stop", **more: object) -> dict[str, object]:
    return part("step_finish", "m1", reason=reason, **more)


def test_every_capture_has_a_reading() -> None:
    assert recorded("opencode") == [f"1.18.33/{name}" for name in sorted(READINGS)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("capture", READINGS)
def test_recorded_streams(capture: str, size: int) -> None:
    name = f"1.18.33/{capture}"
    notices = check_capture("opencode", OPENCODE.reader, name, READINGS[capture], size)
    assert notices == NOTICES.get(capture, notices)


PROMISES: dict[str, tuple[list[object], Promise | None]] = {
    "in an earlier message": ([says(DONE), says("Bye.", "m2")], COMPLETE),
    "inline in an earlier message": ([says(f"x {DONE}"), says("Bye.", "m2")], None),
    "over two blocks": ([says("<promise>COMP"), says("LETE</promise>")], COMPLETE),
    "on both sides of a tool": ([says("<promise>COMP"), uses(), says("LETE</promise>")], None),
    "over two messages": ([says("<promise>COMP"), says("LETE</promise>", "m2")], None),
    "in a tool's answer": ([uses(), says("Bye.")], None),
    "in a tool call": ([uses(command=DONE), says("Bye.")], None),
    "thought": ([part("reasoning", text=DONE), says("Bye.")], None),
    "strange events": ([[], 1, {}, {"type": 3}, says(7), {"type": "text", "part": 3}], None),
}


@pytest.mark.parametrize(("events", "promise"), PROMISES.values(), ids=PROMISES)
def test_only_the_agents_own_text_counts(events: list[object], promise: Promise | None) -> None:
    reading = read(OpencodeReader, lines(BEGUN, *events, finish()))[1]
    assert (reading.promise, reading.error) == (promise, "")


def error(name: str, **data: object) -> dict[str, object]:
    return {"type": "error", "error": {"name": name, "data": data}}


@pytest.mark.parametrize(
    ("events", "said", "trouble"),
    [
        ([finish("tool-calls")], "ended early, its last step with: tool-calls", None),
        ([finish("length")], "ended early, its last step with: length", None),
        ([finish(3)], "ended early, its last step with: no reason", None),
        ([finish(), BEGUN], NO_RESULT, None),
        ([finish(), error("ProviderAuthError", message="x")], "x", LOGIN),
        ([error("ContextOverflowError"), finish()], "ContextOverflowError", CONTEXT),
        ([error("APIError", message="x", statusCode=429,
                responseHeaders={"retry-after": "3600"})], "x", replace(RATE, after_s=3600.0)),
        ([error("APIError", message="x", statusCode=429,
                responseHeaders={"retry-after-ms": "1500", "retry-after": "2"})], "x",
         replace(RATE, after_s=1.5)),
        ([error("APIError", message="x", statusCode=429,
                responseBody='{"error": {"message": "Please try again in 20s."}}')], "x",
         replace(RATE, after_s=20.0)),
        ([error("APIError", message="x", statusCode=401,
                responseHeaders={"retry-after": "3600"})], "x", LOGIN),
        ([error("UnknownError", message='{"message": 3, "code": "x"}')],
         '{"message": 3, "code": "x"}', None),
        ([{"type": "error"}], "error", None),
        ([error("UnknownError", message="Unexpected server error. Check server logs for details.")],
         "Unexpected server error. Check server logs for details.", None),
        ([error("ContentFilterError", message="Blocked.")], "Blocked.",
         Trouble(Kind.REFUSED, "the model refused")),
    ],
)  # fmt: skip
def test_all_but_a_stop_is_an_early_end(
    events: list[object], said: str, trouble: Trouble | None
) -> None:
    reading = read(OpencodeReader, lines(BEGUN, says(DONE), *events))[1]
    assert (reading.error, reading.trouble) == (said, trouble)


def test_an_error_after_which_it_goes_on_is_none() -> None:
    events = [error("APIError", message="x"), BEGUN, says(DONE), finish()]
    assert read(OpencodeReader, lines(*events))[1].error == ""


def test_tools_that_were_not_allowed_are_named() -> None:
    events = [
        uses("The user rejected permission to use this specific tool call.", command="rm x"),
        uses("The user has specified a rule which prevents you from using it.", command="rm y"),
        uses("Something else.", command="rm z"),
        says(DONE),
        finish(),
    ]
    reading = read(OpencodeReader, lines(*events))[1]
    assert reading.denied == ("bash rm x", "bash rm y")


def test_a_model_without_a_price_has_no_known_cost() -> None:
    tokens = {"input": 1, "output": 2, "reasoning": 3, "cache": {"read": 4, "write": 5}}
    reading = read(OpencodeReader, lines(finish(tokens=tokens, cost=0)))[1]
    assert reading.usage == Usage(1, 5, 4, 5, reasoning_tokens=3)


@pytest.mark.parametrize(
    ("intent", "words"),
    [
        (INTENT, ("--auto",)),
        (
            Intent("p", "/w", "/s", model="openai/gpt", resume=Session("s1")),
            ("--auto", "--model", "openai/gpt", "--session", "s1"),
        ),
    ],
)
def test_the_call(intent: Intent, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.delenv(f"XDG_{kind}_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert KnownProgram(OPENCODE).invocation(intent) == Invocation(
        argv=("opencode", "run", "--format", "json", *words),
        stdin=intent.prompt.encode(),
        env={"OPENCODE_DISABLE_AUTOUPDATE": "1"},
        unset=("AGENT", "OPENCODE", "OPENCODE_PID"),
        writable=(
            *("~/.config/opencode", "~/.local/share/opencode"),
            *("/state/opencode", "~/.cache/opencode"),
        ),
    )


@pytest.mark.parametrize("theirs", ['{"webfetch": "deny", "bash": "allow"}', "", "no JSON {"])
def test_edits_only_beside_what_the_user_allows(
    theirs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCODE_PERMISSION", theirs)
    call = KnownProgram(OPENCODE).invocation(replace(INTENT, permissions=Permissions.EDITS))
    assert "--auto" not in call.argv
    kept = {"webfetch": "deny"} if "webfetch" in theirs else {}
    ours = {"edit": "allow", "bash": "deny", "external_directory": "deny"}
    assert json.loads(call.env["OPENCODE_PERMISSION"]) == {**kept, **ours}
