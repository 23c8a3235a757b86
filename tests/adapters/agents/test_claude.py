import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.adapters.agents import streams
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
    recorded,
)
from untildone.adapters.agents.claude import CLAUDE
from untildone.adapters.agents.program import KnownProgram
from untildone.adapters.agents.reading.json_lines import LINE_BYTES, parsed
from untildone.adapters.agents.reading.stream_json import StreamReader
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
from untildone.domain.errors import AgentMissing

NOTHING = Usage(cost_usd=0.0)
TEMPORARY = (
    "This is a server-side issue, usually temporary — try again in a moment. "
    "If it persists, check your inference gateway (127.0.0.1:PORT)."
)


def used(inputs: int, outputs: int, cost: float) -> Usage:
    """The recorded server counts 1200 + 300 read + 100 written for a call."""
    calls = inputs // 1200
    return Usage(inputs, outputs, 300 * calls, 100 * calls, cost)


def aborted(reason: str) -> str:
    return f"[ede_diagnostic] result_type=user last_content_type=n/a stop_reason={reason}"


MALFORMED = (
    "API Error: API returned an empty or malformed response (HTTP 200) — check for a proxy "
    "or gateway intercepting the request. Response: content-type event-stream, body looks "
    "like JSON but does not parse, 42 bytes, request-id absent, server other, intermediary "
    "headers transfer-encoding. This was the non-streaming retry of streaming request (no "
    "Anthropic request-id), which failed with: stream_truncated, StreamTruncatedError, "
    "StreamTruncated; 3 stream events received, first after 16 ms, none in the final 1 ms."
)
REFUSAL = (
    "API Error: Opus 5.5's safeguards flagged this message "
    "(https://www.anthropic.com/legal/aup). This sometimes happens with safe, normal "
    "conversations. Claude Code can't respond to this message with Opus 5.5.\n\nTry "
    "rephrasing the request in a new session or change your model.\n\nLearn more: "
    "https://support.claude.com/en/articles/8106465\n\nMessage ID: "
    "msg_000000000000000000000002"
)
LIMITED = Reading(
    error="API Error: Request rejected (429) · This request would exceed your account's "
    "rate limit. Please try again later.",
    usage=NOTHING,
    trouble=RATE,
)
# What each recorded stream says, apart from session and model.
READINGS = {
    "2.1.197/http401": Reading(error=NO_RESULT, trouble=LOGIN),
    "2.1.197/ok": Reading(COMPLETE, usage=used(2400, 90, 0.015799999999999998)),
    "2.1.197/resume": Reading(COMPLETE, usage=used(2400, 90, 0.015799999999999998)),
    "2.1.197/rlwarn_oauth": Reading(COMPLETE, usage=used(2400, 90, 0.00948)),
    "2.1.197/sig_GKILL_toolsleep": Reading(error=NO_RESULT),
    "2.1.197/sig_INT_slow": Reading(error=NO_RESULT),
    "2.1.197/sig_INT_toolsleep": Reading(
        error=aborted("tool_use"), usage=used(1200, 45, 0.007899999999999999)
    ),
    "2.1.197/sig_TERM_toolsleep": Reading(error=NO_RESULT),
    "2.1.197/usage_limit_oauth": Reading(
        error="You've hit your limit · resets 11:44pm (UTC)",
        usage=NOTHING,
        trouble=Trouble(
            Kind.QUOTA_EXHAUSTED,
            "usage limit (five_hour)",
            datetime(2026, 11, 15, 23, 44, 12, tzinfo=UTC),
        ),
    ),
    "2.1.325/budget": Reading(
        error="Reached maximum budget ($0.02)",
        usage=used(4800, 180, 0.02504),
        trouble=Trouble(Kind.BUDGET, "the agent's own budget is used up"),
    ),
    "2.1.325/close": Reading(
        error="API Error: Connection dropped (ECONNRESET). "
        "Check the gateway set in ANTHROPIC_BASE_URL, then try again.",
        usage=NOTHING,
        trouble=SERVER,
    ),
    "2.1.325/die": Reading(COMPLETE, usage=used(14400, 56, 0.06543999999999998)),
    "2.1.325/edits_denied": Reading(
        COMPLETE,
        usage=Usage(2021, 89, 633, 239, 0.0111856),
        denied=('Bash python3 -c "print(1)"',),
    ),
    "2.1.325/empty_stdin": Reading(error=NO_RESULT),
    "2.1.325/failed": Reading(FAILED, usage=used(2400, 90, 0.01252)),
    "2.1.325/hang_short_timeout": Reading(error="Request timed out", usage=NOTHING, trouble=SERVER),
    "2.1.325/hangmid": Reading(COMPLETE, usage=used(2400, 46, 0.00626)),
    "2.1.325/hangmid_watchdog": Reading(
        error="API Error: Stream idle timeout - no chunks received", usage=NOTHING, trouble=SERVER
    ),
    "2.1.325/http400": Reading(
        error="API Error: 400 fake error",
        usage=NOTHING,
        trouble=Trouble(Kind.AGENT_ERROR, "error 400"),
    ),
    "2.1.325/http401": Reading(error=NO_RESULT, trouble=LOGIN),
    "2.1.325/http401_maxretries0": Reading(
        error="Invalid API key · Fix external API key", usage=NOTHING, trouble=LOGIN
    ),
    "2.1.325/http429": LIMITED,
    "2.1.325/http429_maxretries2": LIMITED,
    "2.1.325/http429_once": Reading(COMPLETE, usage=used(2400, 90, 0.01252)),
    "2.1.325/http500": Reading(
        error=f"API Error: 500 fake error. {TEMPORARY}",
        usage=NOTHING,
        trouble=Trouble(Kind.OVERLOADED, "server error (500)"),
    ),
    "2.1.325/http529": Reading(
        error=f"API Error: 529 Overloaded. {TEMPORARY}",
        usage=NOTHING,
        trouble=Trouble(Kind.OVERLOADED, "service overloaded"),
    ),
    "2.1.325/malformed": Reading(
        error=MALFORMED, usage=Usage(1007, 1, 311, 113, 0.004675200000000001), trouble=SERVER
    ),
    "2.1.325/model_refusal": Reading(
        error=REFUSAL,
        usage=Usage(2021, 89, 633, 239, 0.0111856),
        trouble=Trouble(Kind.REFUSED, "the model refused"),
    ),
    "2.1.325/noauth": Reading(
        error="Not logged in · Please run /login", usage=NOTHING, trouble=LOGIN
    ),
    "2.1.325/nopromise": Reading(usage=used(2400, 90, 0.01252)),
    "2.1.325/ok": Reading(COMPLETE, usage=used(2400, 90, 0.01252)),
    "2.1.325/ok_include_partial_messages": Reading(COMPLETE, usage=used(2400, 90, 0.01252)),
    "2.1.325/quota": Reading(error="Credit balance is too low", usage=NOTHING, trouble=USED_UP),
    "2.1.325/refused": Reading(
        error="API Error: Connection refused — a firewall or proxy may be blocking it "
        "(ECONNREFUSED)",
        usage=NOTHING,
        trouble=SERVER,
    ),
    "2.1.325/resume": Reading(COMPLETE, usage=used(2400, 90, 0.01252)),
    "2.1.325/resume_bad_id": Reading(
        error="No conversation found with session ID: 00000000-0000-4000-8000-000000000000",
        usage=NOTHING,
    ),
    "2.1.325/rlwarn_oauth": Reading(COMPLETE, usage=used(2400, 90, 0.00626)),
    "2.1.325/sig_GINT_toolsleep": Reading(error=aborted("tool_use"), usage=used(1200, 45, 0.00626)),
    "2.1.325/sig_GKILL_toolsleep": Reading(error=NO_RESULT),
    "2.1.325/sig_GTERM_slow": Reading(error=NO_RESULT),
    "2.1.325/sig_GTERM_toolsleep": Reading(error=NO_RESULT),
    "2.1.325/sig_INT_slow": Reading(error=aborted("null"), usage=NOTHING),
    "2.1.325/sig_TERM_slow": Reading(error=NO_RESULT),
    "2.1.325/sig_TERM_toolsleep": Reading(error=NO_RESULT),
    "2.1.325/sseerror": Reading(COMPLETE, usage=used(2400, 46, 0.00626)),
    "2.1.325/tool_exit_nonzero": Reading(COMPLETE, usage=used(2400, 90, 0.01252)),
    "2.1.325/usage_limit_oauth": Reading(
        error="You've hit your limit · resets 11:43pm (UTC)",
        usage=NOTHING,
        trouble=Trouble(
            Kind.QUOTA_EXHAUSTED,
            "usage limit (five_hour)",
            datetime(2026, 11, 15, 23, 43, 59, tzinfo=UTC),
        ),
    ),
}

SAID: Notice = AgentText(f"I created hello.txt as asked.\n{DONE}")
WROTE: Notice = AgentTool("Write", "/repo/hello.txt")
NOTICES: dict[str, list[Notice]] = {
    "2.1.325/ok": [WROTE, SAID],
    "2.1.325/ok_include_partial_messages": [WROTE, SAID],
    "2.1.325/die": [SAID],
    "2.1.325/tool_exit_nonzero": [AgentTool("Bash", "echo out; echo err >&2; exit 3"), SAID],
    "2.1.325/usage_limit_oauth": [],
}


def read(output: bytes, stderr: bytes = b"") -> tuple[list[Notice], Reading]:
    return streams.read(StreamReader, output, stderr=stderr)


def says(text: str, message_id: str = "m1", **more: object) -> dict[str, object]:
    content = [{"type": "text", "text": text}]
    return block_event(content, message_id, **more)


def block_event(content: object, message_id: str = "m1", **more: object) -> dict[str, object]:
    message = {"id": message_id, "role": "assistant", "content": content}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None, **more}


RESULT = {"type": "result", "subtype": "success", "is_error": False, "result": "x"}


def test_every_capture_has_a_reading() -> None:
    assert recorded("claude") == sorted(READINGS)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("capture", READINGS)
def test_recorded_streams(capture: str, size: int) -> None:
    expected = READINGS[capture]
    opening = parsed(streams.stream("claude", capture).partition(b"\n")[0])
    model = str(opening.get("model", ""))
    usage = replace(expected.usage, model=model) if expected.usage else None
    whole = replace(expected, usage=usage, session=NEW if opening else None)
    notices = check_capture("claude", CLAUDE.reader, capture, whole, size)
    assert notices == NOTICES.get(capture, notices)


BLOCK = {"type": "text", "text": "a "}
TOOL = {"type": "tool_use", "name": "Read", "input": {}}
PROMISES: dict[str, tuple[list[object], Promise | None]] = {
    "in an earlier message": ([says(DONE), says("Bye.", "m2")], COMPLETE),
    "inline in an earlier message": ([says(f"x {DONE}"), says("Bye.", "m2")], None),
    "inline in the final message": ([says("Hi."), says(f"x {DONE}", "m2")], COMPLETE),
    "inline, then a tool": ([says(f"x {DONE}"), block_event([TOOL], "m2")], None),
    "over two blocks": ([says("<promise>COMP"), says("LETE</promise>")], COMPLETE),
    "at the end of a block, more of the message behind": ([says(DONE), says("Bye.")], COMPLETE),
    "between two blocks of the message": ([says("Hi."), says(DONE), says("Bye.")], COMPLETE),
    "inline in a block, more of the message behind": ([says(f"x {DONE}"), says("Bye.")], None),
    "in a block of its own": (
        [says("Text."), block_event([TOOL]), says(DONE), says("Bye.", "m2")],
        COMPLETE,
    ),
    "over two messages": ([says("<promise>COMP"), says("LETE</promise>", "m2")], None),
    "of a sub-agent": ([says(DONE, parent_tool_use_id="toolu_1"), says("Bye.", "m2")], None),
    "thought": ([block_event([{"type": "thinking", "thinking": DONE}])], None),
    "in a tool call": ([block_event([{**TOOL, "input": {"text": DONE}}])], None),
    "in a tool's result": (
        [{"type": "user", "message": {"content": [{"type": "tool_result", "content": DONE}]}}],
        None,
    ),
    "in the prompt": ([{"type": "user", "message": {"content": DONE}}, says("Bye.")], None),
    "in an error of the service": ([says(DONE, error="unknown"), says("Bye.", "m2")], None),
    "as plain content": ([block_event(DONE)], COMPLETE),
    "without ids": ([says(DONE, ""), says("Bye.", "")], COMPLETE),
    "in the result only": ([{**RESULT, "result": f"x {DONE}"}], COMPLETE),
    "strange events": ([[], 1, {}, {"type": 3}, block_event(7), block_event([8])], None),
}


@pytest.mark.parametrize(("events", "promise"), PROMISES.values(), ids=PROMISES)
def test_only_the_agents_own_text_counts(events: list[object], promise: Promise | None) -> None:
    ended = any(isinstance(event, dict) and event.get("type") == "result" for event in events)
    assert read(lines(*events, *([] if ended else [RESULT])))[1].promise == promise


def test_the_result_line_may_lack_its_newline() -> None:
    assert read(lines(says(DONE), RESULT).rstrip())[1] == Reading(COMPLETE)


def test_lines_that_are_no_json_are_passed_over() -> None:
    noise = b'warn\n{"type": \n\xff\xfe{\n' + b"[" * 100_000 + b"{\n{} {}\n\n\r\n"
    assert read(noise + lines(says(DONE)) + noise + lines(RESULT))[1] == Reading(COMPLETE)


def test_a_failure_is_kept_beside_an_error() -> None:
    failed = {**RESULT, "subtype": "error_max_turns", "errors": ["Reached \x1b[31mit", "again"]}
    assert read(lines(says("<promise>FAILED: no</promise>"), failed))[1] == Reading(
        Promise(complete=False, reason="no"),
        error="Reached it; again",
        trouble=Trouble(Kind.BUDGET, "the agent's own turns are used up"),
    )


@pytest.mark.parametrize(
    ("events", "limit"),
    [
        ([{"type": "system", "subtype": "api_retry", "error_status": 429}], RATE),
        ([says("x", error="connection_failed")], Trouble(Kind.OVERLOADED, "connection failed")),
        ([says("x", error="overloaded")], Trouble(Kind.OVERLOADED, "service overloaded")),
        ([says("x", error="billing_error", api_error_status=402)], USED_UP),
        ([says("x", error="rate_limit"), says("It goes on.", "m2")], None),
        ([{"type": "rate_limit_event", "rate_limit_info": {"status": "rejected"}}],
         USED_UP),
        ([{"type": "rate_limit_event",
           "rate_limit_info": {"status": "rejected", "resetsAt": 1e300}}], USED_UP),
        ([{"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}], None),
    ],
)  # fmt: skip
def test_limits_of_a_stream_that_breaks_off(events: list[object], limit: Trouble | None) -> None:
    assert read(lines(*events))[1] == Reading(error=NO_RESULT, trouble=limit)


def test_a_limit_that_did_not_stop_the_agent_is_none() -> None:
    rejected = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected"}}
    assert read(lines(rejected, says(DONE), RESULT))[1] == Reading(COMPLETE)


@pytest.mark.parametrize("named", [{}, {"error": "rate_limit"}], ids=["older", "with a name"])
def test_the_reset_that_the_words_of_a_limit_name(named: dict[str, str]) -> None:
    said = "Claude AI usage limit reached|1767330245"
    failed = {**RESULT, "is_error": True, "result": said}
    until = datetime(2026, 1, 2, 5, 4, 5, tzinfo=UTC)
    found = read(lines(says(said, **named), failed))[1]
    assert found == Reading(error=said, trouble=replace(USED_UP, until=until))


def test_a_refusal_is_no_error_of_the_service() -> None:
    refusal = {"type": "system", "subtype": "model_refusal_no_fallback"}
    said = "API Error: the safeguards flagged this message"
    failed = {**RESULT, "is_error": True, "result": said}
    refused = Trouble(Kind.REFUSED, "the model refused")
    assert read(lines(refusal, failed))[1] == Reading(error=said, trouble=refused)
    assert read(lines(refusal, says("Well then."), RESULT))[1] == Reading()


def test_the_last_words_on_standard_error_explain_a_missing_result() -> None:
    stderr = b"warning\nError: \x1b[31mInput must be provided\n\n"
    assert read(b"", stderr)[1].error == f"{NO_RESULT}: Error: Input must be provided"


def test_tool_calls_are_shown_short_and_plain() -> None:
    def tool(**arguments: object) -> dict[str, object]:
        return {"type": "tool_use", "name": "Ba\x1bsh", "input": arguments}

    calls = [tool(command="a\n\x1b]0;x\x07b"), tool(file_path="p" * 300), tool(n=1), tool()]
    assert read(lines(block_event(calls)))[0] == [
        AgentTool("Bah", "a b"),
        AgentTool("Bah", "p" * 199 + "…"),
        AgentTool("Bah"),
        AgentTool("Bah"),
    ]


def test_a_line_over_the_bound_is_dropped() -> None:
    reader = StreamReader(INTENT)
    reader.feed(b'{"type":"result","x":"')
    for _ in range(LINE_BYTES // 65_536 + 2):
        reader.feed(b"x" * 65_536)
    reader.feed(b'"}\n' + lines(says(DONE)))
    assert reader.finish(0, b"") == Reading(
        COMPLETE, error=f"{NO_RESULT} (a line over 16 MiB was dropped)"
    )


def test_several_results_of_one_call_are_added_up() -> None:
    def result(tokens: int, basis: str = "list") -> dict[str, object]:
        row = {"inputTokens": tokens, "outputTokens": 1, "costUSD": 0.5, "costBasis": basis}
        usage = {"input_tokens": tokens}
        return {**RESULT, "usage": usage, "model_usage_since_last_result": {"m": row, "odd": 3}}

    two = lines(result(10), result(5))
    assert read(two)[1].usage == Usage(15, 2)
    assert read(lines(result(10, "unknown")))[1].usage == Usage(10, 1)


def test_sub_agents_and_prices() -> None:
    def result(**rows: object) -> bytes:
        return lines({**RESULT, "usage": {"input_tokens": 3}, "modelUsage": rows})

    one = {"inputTokens": 2, "outputTokens": 4, "thinkingTokens": 1, "costUSD": 0.25}
    guess = {**one, "costBasis": "unknown"}
    assert read(result(a=one, b=one))[1].usage == Usage(4, 8, cost_usd=0.5, reasoning_tokens=2)
    assert read(result(a=one, b=guess))[1].usage == Usage(4, 8, reasoning_tokens=2)


@pytest.mark.parametrize("flaw", [{"is_error": None}, {"subtype": "unheard of"}, {"is_error": 0}])
def test_only_a_success_is_one(flaw: dict[str, object]) -> None:
    assert read(lines(says(DONE), {**RESULT, **flaw}))[1].error


def test_a_tool_that_was_not_allowed_is_named() -> None:
    denial = {"tool_name": "Write", "tool_use_id": "1", "tool_input": {"file_path": "/w/a"}}
    reading = read(lines(says(DONE), {**RESULT, "permission_denials": [denial, 3]}))[1]
    assert reading.denied == ("Write /w/a", "")


@pytest.mark.parametrize(
    ("intent", "words"),
    [
        (INTENT, ("--dangerously-skip-permissions", "--max-turns", "9")),
        (
            Intent("p", "/w", "/s", permissions=Permissions.EDITS),
            ("--permission-mode", "acceptEdits", "--max-turns", "9"),
        ),
        (
            Intent("Grüße\ud800", "/w", "/s", model="opus", resume=Session("s1")),
            (
                *("--dangerously-skip-permissions", "--model", "opus", "--max-turns", "9"),
                *("--resume", "s1"),
            ),
        ),
    ],
)
def test_the_call(intent: Intent, words: tuple[str, ...]) -> None:
    root = {"IS_SANDBOX": "1"} if os.geteuid() == 0 else {}
    assert KnownProgram(CLAUDE, extra_args=("--max-turns", "9")).invocation(intent) == Invocation(
        argv=(
            *("claude", "-p", "--output-format", "stream-json", "--verbose"),
            *("--include-partial-messages", *words),
        ),
        stdin=intent.prompt.encode("utf-8", "replace"),
        env={
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_TELEMETRY": "1",
            **root,
        },
        unset=CLAUDE.unset,
        writable=("~/.claude", "~/.claude.json"),
    )
    assert {"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT"} <= set(CLAUDE.unset)


def test_check_names_the_program_and_the_way_out(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    with pytest.raises(AgentMissing) as missing:
        KnownProgram(CLAUDE, str(program)).check()
    assert missing.value.message == f"The agent's program was not found: {program}"
    assert "npm install" in missing.value.hint
    assert "--agent-cmd" in missing.value.hint
    program.write_text("#!/bin/sh\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    KnownProgram(CLAUDE, str(program)).check()


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        ({"questions": [{"question": "Which?"}, {"question": "\x1b[1mWhen?"}]}, "Which?\nWhen?"),
        ({"questions": [3, {"header": "x"}]}, ""),
        ("odd", ""),
    ],
)
def test_a_question_by_tool(arguments: object, question: str) -> None:
    block = {"type": "tool_use", "name": "AskUserQuestion", "input": arguments}
    asked = {"type": "assistant", "message": {"id": "m1", "content": [block]}}
    assert read(lines(asked, says("I wait."), RESULT))[1].question == question


def test_a_question_at_the_end() -> None:
    assert read(lines(says("Which one?"), RESULT))[1].question == "Which one?"
    assert read(lines(says("Which one?"), says("That one."), RESULT))[1].question == ""
