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
from untildone.adapters.agents.droid import DROID, DroidReader
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

USED = Usage(2260, 89, 633, model="custom:Scripted-0")
READINGS = {
    "ctx": Reading(
        error="400 Your input exceeds the context window of this model. Please adjust your input.",
        trouble=CONTEXT,
    ),
    "die": Reading(
        error="The socket connection was closed unexpectedly. For more information, pass "
        "`verbose: true` in the second argument to fetch()",
        trouble=SERVER,
    ),
    "edits_denied": Reading(
        error="Exec ended early: insufficient permission to proceed. Re-run with --auto medium or "
        "--auto high. For destructive commands, use --skip-permissions-unsafe.",
    ),
    # A stream that ends early is taken for a whole answer, of which nobody told the tokens.
    "eof": Reading(),
    "failed": Reading(FAILED, usage=USED),
    "hang": Reading(error=NO_RESULT),
    "http401": Reading(error="401 Incorrect API key provided: sk-x.", trouble=LOGIN),
    "http429": Reading(
        error="429 Rate limit reached for requests. Please try again in 1s.",
        trouble=replace(RATE, after_s=1.0),
    ),
    "model_refusal": Reading(
        error="Request failed due to triggering the model provider's content moderation policy. "
        "Please modify your message and try again.",
        trouble=Trouble(Kind.REFUSED, "the model refused"),
    ),
    "noauth": Reading(
        error="Error: Authentication failed. Please log in using /login or set a valid "
        "FACTORY_API_KEY environment variable.",
        trouble=LOGIN,
    ),
    "nopromise": Reading(usage=USED),
    "ok": Reading(COMPLETE, usage=USED),
    "tool_exit_nonzero": Reading(COMPLETE, usage=USED),
}
NOTICES: dict[str, list[Notice]] = {
    "ok": [
        AgentTool("Create", "/repo/hello.txt"),
        AgentText(f"I wrote hello.txt as asked.\n{DONE}"),
    ],
    "die": [],
}
ENDED = {"type": "completion"}


def says(text: object, role: str = "assistant") -> dict[str, object]:
    return {"type": "message", "role": role, "id": "m", "text": text}


def error(message: str, source: str = "agent_loop") -> dict[str, object]:
    return {"type": "error", "source": source, "message": message}


def test_every_capture_has_a_reading() -> None:
    assert recorded("droid") == [f"0.215.0/{name}" for name in sorted(READINGS)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("capture", READINGS)
def test_recorded_streams(capture: str, size: int) -> None:
    name = f"0.215.0/{capture}"
    notices = check_capture("droid", DROID.reader, name, READINGS[capture], size)
    assert notices == NOTICES.get(capture, notices)


PROMISES: dict[str, tuple[list[object], Promise | None]] = {
    "in a message": ([says(f"Hi.\n{DONE}")], COMPLETE),
    "in the prompt": ([says(DONE, "user"), says("Bye.")], None),
    "in a tool's answer": ([{"type": "tool_result", "value": DONE}], None),
    "in a tool call": ([{"type": "tool_call", "parameters": {"command": DONE}}], None),
    "in its last event alone": ([{"type": "completion", "finalText": DONE}], None),
    "strange events": ([[], 1, {}, {"type": 3}, says(7)], None),
}


@pytest.mark.parametrize(("events", "promise"), PROMISES.values(), ids=PROMISES)
def test_only_the_agents_own_text_counts(events: list[object], promise: Promise | None) -> None:
    assert read(DroidReader, lines(*events, ENDED))[1] == Reading(promise)


def test_an_error_after_the_last_word_counts_and_one_before_it_does_not() -> None:
    late = read(DroidReader, lines(says(DONE), error("It broke."), error("x", "cli"), ENDED))[1]
    assert late.error == "It broke."
    assert read(DroidReader, lines(error("It broke."), says(DONE), ENDED))[1].error == ""


def test_the_last_event_ends_the_call() -> None:
    reader = DroidReader(INTENT)
    seen = []
    for event in (says(DONE), error("x"), error("Exec failed", "cli"), says("on"), ENDED):
        reader.feed(lines(event))
        seen.append(reader.over)
    assert seen == [False, False, True, False, True]


@pytest.mark.parametrize(
    ("intent", "words"),
    [
        (INTENT, ("--skip-permissions-unsafe",)),
        (
            Intent("p", "/w", "/s", permissions=Permissions.EDITS),
            ("--auto", "low", "--remove-tools", "Execute"),
        ),
        (
            Intent("p", "/w", "/s", model="claude-opus-5"),
            ("--skip-permissions-unsafe", "-m", "claude-opus-5"),
        ),
    ],
)
def test_the_call(intent: Intent, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTORY_HOME_OVERRIDE", "/elsewhere")
    assert KnownProgram(DROID).invocation(intent) == Invocation(
        argv=("droid", "exec", "-o", "stream-json", *words),
        stdin=intent.prompt.encode(),
        env={"FACTORY_DROID_AUTO_UPDATE_ENABLED": "false"},
        unset=DROID.unset,
        writable=("/elsewhere/.factory",),
    )
