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
    USED_UP,
    check_capture,
    lines,
    read,
    recorded,
    stream,
)
from untildone.adapters.agents.pi import PI, PiReader
from untildone.adapters.agents.program import KnownProgram
from untildone.adapters.agents.reading.json_lines import LINE_BYTES
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

NOTHING = Usage(cost_usd=0.0, model="fake-model")


def used(calls: int) -> Usage:
    """The recorded server counts 900, 300 cached and 45 for a call."""
    return Usage(
        900 * calls, 45 * calls, 300 * calls, cost_usd=0.003465 * calls, model="fake-model"
    )


def failed(error: str, trouble: Trouble | None) -> Reading:
    return Reading(error=error, trouble=trouble, usage=NOTHING, session=NEW)


DONE_WELL = Reading(COMPLETE, usage=used(2), session=NEW)
STOPPED = Reading(error=NO_RESULT)
IN_A_TOOL = Reading(error=NO_RESULT, usage=used(1), session=NEW)
READINGS = {
    "argv_prompt_stdin_left_open": STOPPED,
    "close": failed("Connection error.", SERVER),
    "ctx": failed(
        "400 Your input exceeds the context window of this model. "
        "Please adjust your input and try again.",
        CONTEXT,
    ),
    "die": failed("terminated", SERVER),
    "empty_stdin": STOPPED,
    "eof": Reading(usage=NOTHING, session=NEW),
    "failed": Reading(FAILED, usage=used(2), session=NEW),
    "hang": STOPPED,
    "hang_short_timeout": failed("Request timed out.", SERVER),
    "hangmid": STOPPED,
    "hangmid_short_timeout": STOPPED,
    "http401": failed("401 Incorrect API key provided.", LOGIN),
    "http429": failed(
        "429 Rate limit reached for fake-model in organization org-x on tokens per min (TPM): "
        "Limit 10000, Used 9999, Requested 500. Please try again in 1.2s.",
        replace(RATE, after_s=1.2),
    ),
    "http429_ra3600": STOPPED,
    "http500": failed("500 fake error", Trouble(Kind.OVERLOADED, "server error (500)")),
    "http503": failed("503 fake error", Trouble(Kind.OVERLOADED, "server error (503)")),
    "nopromise": Reading(usage=used(2), session=NEW),
    "ok": DONE_WELL,
    "quota": failed(
        "429 You exceeded your current quota, please check your plan and billing details.", USED_UP
    ),
    "resume": DONE_WELL,
    "sig_GINT_slow": STOPPED,
    "sig_GINT_toolsleep": IN_A_TOOL,
    "sig_GKILL_toolsleep": IN_A_TOOL,
    "sig_GTERM_slow": STOPPED,
    "sig_GTERM_toolsleep": IN_A_TOOL,
    "sig_INT_slow": STOPPED,
    "sig_INT_toolsleep": IN_A_TOOL,
    "sig_TERM_slow": STOPPED,
    "sig_TERM_toolsleep": IN_A_TOOL,
    "sseerror": failed("Overloaded", SERVER),
    "tool_exit_nonzero": DONE_WELL,
}
SAID: Notice = AgentText(f"I created hello.txt as asked.\n{DONE}")
NOTICES: dict[str, list[Notice]] = {
    "ok": [AgentTool("write", "/repo/hello.txt"), SAID],
    "die": [],
    "http401": [],
}
TEXT = {"type": "text", "text": DONE}


def message(*content: object, **more: object) -> dict[str, object]:
    return {"role": "assistant", "content": list(content), "stopReason": "stop", **more}


def ended(*content: object, **more: object) -> dict[str, object]:
    return {"type": "message_end", "message": message(*content, **more)}


def says(text: str, **more: object) -> dict[str, object]:
    return ended({"type": "text", "text": text}, **more)


OVER = {"type": "agent_end", "messages": [message()]}


def test_every_capture_has_a_reading() -> None:
    assert recorded("pi") == [f"0.73.1/{name}" for name in sorted(READINGS)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("capture", READINGS)
def test_recorded_streams(capture: str, size: int) -> None:
    notices = check_capture("pi", PI.reader, f"0.73.1/{capture}", READINGS[capture], size)
    assert notices == NOTICES.get(capture, notices)


@pytest.mark.parametrize("capture", READINGS)
def test_keys_in_another_order_say_the_same(capture: str) -> None:
    whole = stream("pi", f"0.73.1/{capture}")
    events = [json.loads(line) for line in whole.splitlines()]
    turned = lines(*({key: event[key] for key in reversed(event)} for event in events))
    assert read(PiReader, turned) == read(PiReader, whole)


PROMISES: dict[str, tuple[list[object], Promise | None]] = {
    "in an earlier message": ([says(DONE), says("Bye.")], COMPLETE),
    "inline in an earlier message": ([says(f"x {DONE}"), says("Bye.")], None),
    "over two blocks": (
        [ended(*({"type": "text", "text": half} for half in ("<promise>COMP", "LETE</promise>")))],
        COMPLETE,
    ),
    "over two messages": ([says("<promise>COMP"), says("LETE</promise>")], None),
    "in the prompt": ([says(DONE, role="user"), says("Bye.")], None),
    "in a tool's answer": ([says(DONE, role="toolResult"), says("Bye.")], None),
    "in a tool call": ([ended({"type": "toolCall", "arguments": {"text": DONE}})], None),
    "thought": ([ended({"type": "thinking", "thinking": DONE, "text": DONE})], None),
    "so far": ([{"type": "message_update", "message": message(TEXT)}, says("Bye.")], None),
    "in a message that broke off": (
        [says(DONE, stopReason="error", errorMessage="terminated"), says("Bye.")],
        None,
    ),
    "strange events": ([[], 1, {}, {"type": 3}, ended(7), {"type": "message_end"}, says("")], None),
}  # fmt: skip


@pytest.mark.parametrize(("events", "promise"), PROMISES.values(), ids=PROMISES)
def test_only_the_agents_own_text_counts(events: list[object], promise: Promise | None) -> None:
    reading = read(PiReader, lines(*events, OVER))[1]
    assert (reading.promise, reading.error) == (promise, "")


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ([{"type": "agent_start"}], NO_RESULT),
        ([says("More.")], NO_RESULT),
        ([says("x", stopReason="length")], "the answer broke off: length"),
        ([says("x", stopReason="aborted", errorMessage="Stop.")], "Stop."),
        ([{**OVER, "messages": [message(stopReason="error", errorMessage="No.")]}], "No."),
        ([{**OVER, "messages": 3}], "the answer broke off:"),
    ],
)
def test_the_last_event_decides(events: list[object], error: str) -> None:
    assert read(PiReader, lines(says(DONE), OVER, *events))[1].error == error


def test_a_last_event_that_is_too_long_is_one() -> None:
    reader = PiReader(INTENT)
    reader.feed(lines(says(DONE)) + b'{"type":"agent_end","messages":["')
    for _ in range(LINE_BYTES // 65_536 + 2):
        reader.feed(b"x" * 65_536)
    reader.feed(b'"]}\n')
    assert reader.finish(0, b"").error == ""
    reader.feed(lines({"type": "agent_start"}, ended(TEXT, stopReason="toolUse")))
    assert reader.finish(0, b"").error == f"{NO_RESULT} (a line over 16 MiB was dropped)"


def test_an_error_before_the_beginning_is_on_standard_error() -> None:
    stderr = b"No API key found for openai.\n\nUse /login to log into a provider. See:\n  x.md\n"
    head = lines({"type": "session", "id": "s1"})
    reading = read(PiReader, head, stderr=stderr)[1]
    assert reading == Reading(error="No API key found for openai.", trouble=LOGIN)
    begun = read(PiReader, head + lines({"type": "agent_start"}), stderr=b"rate limit\n")[1]
    assert begun == Reading(error=f"{NO_RESULT}: rate limit")


def test_a_model_without_a_price_has_no_known_cost() -> None:
    usage = {"input": 3, "output": 4, "cacheRead": 5, "cacheWrite": 6, "cost": {"total": 0}}
    events = [says("a", usage=usage), says("b", usage=usage, model="m"), OVER]
    assert read(PiReader, lines(*events))[1].usage == Usage(6, 8, 10, 12, model="m")


@pytest.mark.parametrize(
    ("intent", "words"),
    [
        (INTENT, ()),
        (
            Intent("p", "/w", "/s", permissions=Permissions.EDITS),
            ("--tools", "read,edit,write,grep,find,ls"),
        ),
        (
            Intent("p", "/w", "/s", model="openai/gpt", resume=Session("s1")),
            ("--model", "openai/gpt", "--session", "s1"),
        ),
    ],
)
def test_the_call(intent: Intent, words: tuple[str, ...]) -> None:
    assert KnownProgram(PI).invocation(intent) == Invocation(
        argv=("pi", "--mode", "json", *words),
        stdin=intent.prompt.encode(),
        env={"PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"},
        unset=("PI_CODING_AGENT",),
        writable=("~/.pi",),
    )
