import json

import pytest
from msgspec.structs import replace

from tests.adapters.agents.streams import (
    COMPLETE,
    CONTEXT,
    DONE,
    INTENT,
    LOGIN,
    NEW,
    NO_RESULT,
    RATE,
    SERVER,
    SIZES,
    USED_UP,
    check_capture,
    read,
    recorded,
)
from untildone.adapters.agents.aider import AIDER, AiderReader
from untildone.adapters.agents.program import KnownProgram
from untildone.domain.agents.agent import (
    AgentText,
    AgentTool,
    Intent,
    Kind,
    Notice,
    Permissions,
    Reading,
    Session,
    Trouble,
    Usage,
)
from untildone.domain.agents.promise import Promise

LITELLM = "litellm.{0}: {0}: OpenAIException - "
GAVE_UP = "Only 3 reflections allowed, stopping."


def used(calls: int) -> Usage:
    """The recorded server counts 1200 and 45 for a call; aider says nothing of the cached ones."""
    return Usage(1200 * calls, 45 * calls, cost_usd=0.003075 * calls, model="openai/gpt-4o")


READINGS = {
    "close": Reading(
        error=LITELLM.format("InternalServerError") + "Connection error.",
        trouble=Trouble(Kind.OVERLOADED, "server error (500)"),
    ),
    "http400": Reading(
        error="litellm.BadRequestError: OpenAIException - fake error",
        trouble=Trouble(Kind.AGENT_ERROR, "error 400"),
    ),
    "http401": Reading(
        error=LITELLM.format("AuthenticationError") + "Incorrect API key provided.", trouble=LOGIN
    ),
    "log_http401": Reading(
        error=LITELLM.format("AuthenticationError") + "fake error", trouble=LOGIN, session=NEW
    ),
    "log_ok": Reading(COMPLETE, usage=used(1), session=NEW),
    "log_reflections": Reading(COMPLETE, error=GAVE_UP, usage=used(4), session=NEW),
    "ok": Reading(COMPLETE, usage=Usage(778, 22, estimated=True, model="openai/fake-model")),
    "sseerror": Reading(error=LITELLM.format("APIConnectionError") + "Overloaded", trouble=SERVER),
}
NOTICES: dict[str, list[Notice]] = {
    "log_ok": [
        AgentText(f"I will create the file.\n\n\n\nhello.txt\n\n```\nhello\n\n```\n\n\n{DONE}\n\n"),
        AgentTool("edit", "hello.txt"),
    ],
}
TOKENS = "Tokens: 1.2k sent, 45 received."


def logged(event: str, user: str = "u", **properties: object) -> str:
    return json.dumps({"event": event, "properties": properties, "user_id": user, "time": 1})


def said(*rows: str) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


LAUNCHED, STARTING = logged("launched"), logged("message_send_starting")
SENT = logged("message_send", prompt_tokens=10, completion_tokens=2, cost=0.5)
EXIT = logged("exit", reason="Completed --message-file")
COUNTED = Usage(10, 2, cost_usd=0.5)


def answer(*rows: str) -> tuple[str, ...]:
    return (STARTING, *rows, "", TOKENS, SENT)


def run(*rows: str) -> Reading:
    return read(AiderReader, said(LAUNCHED, *rows, EXIT))[1]


def test_every_capture_has_a_reading() -> None:
    assert recorded("aider") == [f"0.86.2/{name}" for name in sorted(READINGS)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("capture", READINGS)
def test_recorded_output(capture: str, size: int) -> None:
    notices = check_capture("aider", AIDER.reader, f"0.86.2/{capture}", READINGS[capture], size)
    if size == 0:
        assert notices == NOTICES.get(capture, notices)


PROMISES: dict[str, tuple[tuple[str, ...], Promise | None]] = {
    "in an answer": (answer("Hi.", DONE), COMPLETE),
    "at the end of the last answer": (answer(f"x {DONE}"), COMPLETE),
    "at the end of an earlier answer": ((*answer(f"x {DONE}"), *answer("Bye.")), None),
    "in an earlier answer": ((*answer(DONE), *answer("Bye.")), COMPLETE),
    "before the answer": ((DONE, *answer("Bye.")), None),
    "after the answer": ((*answer("Bye."), DONE), None),
    "in an answer that broke off": (
        answer(DONE, "litellm.APIError: x", "Retrying in 0.2 seconds...", "Bye."),
        None,
    ),
    "thought": (
        answer("------", "► **THINKING**", DONE, "------", "► **ANSWER**", "Bye."),
        None,
    ),
    "after a thought": (answer("► **THINKING**", "x", "► **ANSWER**", DONE), COMPLETE),
    "in a file": (answer("hello.txt", "```", DONE, "```"), None),
    "before words like those of aider": (answer(f"x {DONE}", TOKENS, "Bye."), None),
    "before an event that is none": (answer(f"x {DONE}", logged("exit", "v"), "Bye."), None),
}


@pytest.mark.parametrize(("rows", "promise"), PROMISES.values(), ids=PROMISES)
def test_only_an_answer_counts(rows: tuple[str, ...], promise: Promise | None) -> None:
    reading = run(*rows)
    assert (reading.promise, reading.error) == (promise, "")


def failing(name: str, text: str, advice: str = "") -> tuple[str, ...]:
    return (STARTING, LITELLM.format(name) + text, *([advice] if advice else []), "")


@pytest.mark.parametrize(
    ("rows", "error", "trouble"),
    [
        (failing("RateLimitError", "Slow down.", "The API provider has rate limited you. Check "
         "your quotas."), LITELLM.format("RateLimitError") + "Slow down.", RATE),
        (failing("RateLimitError", "The usage limit has been reached"), None, USED_UP),
        (failing("ServiceUnavailableError", "x"), None,
         Trouble(Kind.OVERLOADED, "server error (503)")),
        (failing("Timeout", "x"), None, SERVER),
        (failing("ContentPolicyViolationError", "x"), None,
         Trouble(Kind.REFUSED, "the model refused")),
        ((STARTING, "litellm.RateLimitError: is what", "", "Model openai/x has hit a token limit!",
          "Input tokens: ~1"), "Model openai/x has hit a token limit!", CONTEXT),
        ((*answer("x"), "Model openai/x has hit a token limit!"),
         "Model openai/x has hit a token limit!", CONTEXT),
        ((*answer(DONE), GAVE_UP), GAVE_UP, None),
        ((*answer(DONE), "The LLM did not conform to the edit format."),
         "The LLM did not conform to the edit format.", None),
        ((STARTING, logged("message_send_exception", exception="Connection reset")),
         "Connection reset", SERVER),
        ((*answer(DONE), STARTING, "rate limit"), "rate limit", None),
        ((logged("oauth_flow_initiated"),), "no model and no API key", LOGIN),
        ((), "Completed --message-file", None),
        (answer("Empty response received from LLM. Check your provider account?"),
         "Empty response received from LLM. Check your provider account?",
         Trouble(Kind.REFUSED, "the model refused")),
    ],
)  # fmt: skip
def test_what_stands_in_the_place_of_an_answer_is_the_error(
    rows: tuple[str, ...], error: str | None, trouble: Trouble | None
) -> None:
    reading = run(*rows)
    assert reading.error
    assert error is None or reading.error == error
    assert reading.trouble == trouble


def test_a_question_of_aiders_own_is_not_the_models() -> None:
    assert run(*answer("Done.\nAdd src/a.py to the chat? (Y)es/(N)o [Yes]: y")).question == ""
    assert run(*answer("Empty response received from LLM. Check it?")).question == ""
    assert run(*answer("Which port?")).question == "Which port?"


def test_edits_that_went_wrong_may_be_made_good() -> None:
    missed = "The LLM did not conform to the edit format."
    assert run(*answer(DONE), missed, *answer(DONE)).error == ""


def test_with_a_log_the_end_must_be_there() -> None:
    reading = read(AiderReader, said(LAUNCHED, *answer(DONE)), stderr=b"Traceback\nOops\n")[1]
    assert reading == Reading(
        COMPLETE, error=f"{NO_RESULT}: Oops", usage=COUNTED, session=reading.session
    )


def test_without_a_log_the_tokens_must_be_there() -> None:
    assert read(AiderReader, said("Aider v1", DONE))[1] == Reading(error=NO_RESULT)
    assert read(AiderReader, said(DONE, TOKENS, "Bye."))[1] == Reading(
        COMPLETE, usage=Usage(1200, 45, estimated=True)
    )
    late = read(AiderReader, said(DONE, TOKENS, LITELLM.format("RateLimitError") + "x"))[1]
    assert (late.promise, late.trouble) == (COMPLETE, RATE)


@pytest.mark.parametrize(
    ("line", "usage"),
    [
        (TOKENS, COUNTED),
        ("Tokens: 10 sent, 3 cache write, 4 cache hit, 2 received. Cost: $1 message, $1 session.",
         Usage(3, 2, 4, 3, cost_usd=0.5)),
        ("Tokens: 1.2M sent, 1.5k cache hit, 2k received.",
         Usage(0, 2, 1500, cost_usd=0.5, estimated=True)),
    ],
)  # fmt: skip
def test_the_cache_is_in_the_line_only(line: str, usage: Usage) -> None:
    assert run(STARTING, "Hi.", "", line, SENT).usage == usage


def test_a_price_that_is_not_known_is_no_price() -> None:
    free = logged("message_send", prompt_tokens=10, completion_tokens=2, cost=0.0)
    assert run(STARTING, "Hi.", TOKENS, free).usage == Usage(10, 2)


def test_a_long_line_is_no_danger() -> None:
    reader = AiderReader(INTENT)
    reader.feed(said(LAUNCHED, STARTING))
    for _ in range(100):
        reader.feed(b"x" * 65_536)
    reader.feed(said(DONE, TOKENS, SENT, EXIT))
    assert reader.finish(0, b"").promise == COMPLETE


@pytest.mark.parametrize(
    ("intent", "words"),
    [
        (INTENT, ()),
        (Intent("p", "/w", "/s", model="openai/gpt"), ("--model", "openai/gpt")),
        (
            Intent("p", "/w", "/s", permissions=Permissions.EDITS),
            ("--no-auto-lint", "--no-auto-test"),
        ),
        (
            Intent("p", "/w", "/s", resume=Session("s1")),
            ("--restore-chat-history", "--chat-history-file", "/s/s1.md"),
        ),
    ],
)
def test_the_call(intent: Intent, words: tuple[str, ...]) -> None:
    call = KnownProgram(AIDER).invocation(intent)
    always = ("--yes-always", "--no-auto-commits", "--no-gitignore", "--no-analytics")
    assert {*words, *always} <= set(call.argv)
    assert ("--restore-chat-history" in call.argv) == (intent.resume is not None)
    assert ("--no-auto-lint" in call.argv) == (intent.permissions is Permissions.EDITS)
    assert call.argv[call.argv.index("--message-file") + 1] == "/dev/stdin"
    assert call.argv[call.argv.index("--analytics-log") + 1] == "/dev/stdout"
    assert call.stdin == b"p" if intent.prompt == "p" else call.stdin
    assert call.writable == ("~/.aider",)


def test_a_fresh_conversation_is_kept_beside_the_run() -> None:
    reading = run(*answer("Hi."))
    assert reading.session
    history = f"/s/{reading.session.id}.md"
    assert history in KnownProgram(AIDER).invocation(INTENT).argv
    again = replace(INTENT, resume=reading.session)
    assert history in KnownProgram(AIDER).invocation(again).argv
