"""What kind of trouble the words of an error stand for."""

from datetime import UTC, datetime

import pytest

from untildone.adapters.agents.reading.error_kinds import (
    USAGE_LIMIT,
    classify_error,
    clear_trouble,
    why_line,
    with_reset,
)
from untildone.domain.agents.agent import Kind, Trouble

# As real programs say it on a bad day of the scripted model.
SAID = [
    ("We’re currently experiencing high demand, which may cause temporary errors.", "overloaded"),
    ("[API Error: The service is currently unavailable.]", "overloaded"),
    ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limited"),
    ("unexpected status 401 Unauthorized: Incorrect API key provided: sk-x.", "not_logged_in"),
    ("429 The usage limit has been reached", "quota_exhausted"),
    ("[API Error: Model stream ended without a finish reason.]", "overloaded"),
    ("The server had an error while processing your request.", "overloaded"),
    ("Missing MISTRAL_API_KEY environment variable for mistral provider", "not_logged_in"),
    # qwen after `content_filter`
    ("[API Error: Model stream ended with empty response text.]", "refused"),
]


@pytest.mark.parametrize(("message", "kind"), SAID)
def test_words_have_a_kind(message: str, kind: str) -> None:
    trouble = classify_error(message)
    assert trouble is not None
    assert trouble.kind is Kind(kind)


def test_the_reset_of_older_claude_code_is_in_seconds_since_1970() -> None:
    at = datetime(2026, 1, 2, 5, 4, 5, tzinfo=UTC)
    message = f"Claude AI usage limit reached|{at.timestamp():.0f}"
    assert classify_error(message) == Trouble(Kind.QUOTA_EXHAUSTED, USAGE_LIMIT, at)
    assert classify_error(f"{message}123") == Trouble(Kind.QUOTA_EXHAUSTED, USAGE_LIMIT)


def test_other_words_have_none() -> None:
    assert classify_error("the file could not be found") is None
    assert classify_error("No matching package was found for ratelimit==2.2") is None
    assert classify_error("Cannot find module ratelimiter") is None


TOLD = {
    "": "",
    "only words": "only words",
    "Error: Cannot find module 'x'\n    at Module._load (node:1:2)\n\nNode.js v22.1.0": (
        "Error: Cannot find module 'x'"
    ),
    'Traceback:\n  File "a.py", line 3\nValueError: no port\n': "ValueError: no port",
    "panic: boom\n\ngoroutine 1 [running]:\nmain.main()\nexit status 2": "panic: boom",
    "fatal: no key\nhint: run `x login`, it may have failed": "fatal: no key",
    "Warning: failed to load a theme\nplain last line": "plain last line",
    "429 Too Many Requests\nError: giving up": "429 Too Many Requests",
}


@pytest.mark.parametrize("stderr", TOLD)
def test_the_line_that_says_why_is_told(stderr: str) -> None:
    assert why_line(stderr) == TOLD[stderr]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Error: HTTP 401", Kind.NOT_LOGGED_IN),
        ("request failed with status 429", Kind.RATE_LIMITED),
        ("401 Unauthorized", Kind.NOT_LOGGED_IN),
        ("Error: Not logged in. Run `x login`.", Kind.NOT_LOGGED_IN),
        ("Please log in first", Kind.NOT_LOGGED_IN),
        ("API key is missing", Kind.NOT_LOGGED_IN),
        ("Rate limit exceeded, try again in 30s", Kind.RATE_LIMITED),
        ("503 Service Unavailable", Kind.OVERLOADED),
        ("You have hit: usage limit reached", Kind.QUOTA_EXHAUSTED),
    ],
)
def test_clear_words_of_any_program_have_a_kind(line: str, kind: Kind) -> None:
    trouble = clear_trouble(line, None)
    assert trouble
    assert trouble.kind is kind


@pytest.mark.parametrize(
    "line",
    [
        "app.py:429: error",
        "Error: connection refused on port 5432",
        "test_authentication failed",
        "AssertionError: 401 != 200",
        "could not resolve credentials.json",
        "error: rate limiter is not installed",
    ],
)
def test_words_that_may_be_the_projects_own_have_none(line: str) -> None:
    assert clear_trouble(line, None) is None


def test_a_reset_that_only_other_words_state_is_taken() -> None:
    limited = Trouble(Kind.RATE_LIMITED, "rate limit")
    stderr = "Attempt 1 failed. Please retry in 40s.\nPlease retry in 75s."
    assert with_reset(limited, stderr, None) == Trouble(Kind.RATE_LIMITED, "rate limit", None, 75.0)
    known = Trouble(Kind.RATE_LIMITED, "rate limit", None, 3.0)
    assert with_reset(known, stderr, None) == known
    refused = Trouble(Kind.REFUSED, "no")
    assert with_reset(refused, stderr, None) == refused
    assert with_reset(None, stderr, None) is None
