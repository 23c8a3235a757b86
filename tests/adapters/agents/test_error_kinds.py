"""What kind of trouble the words of an error stand for."""

from datetime import UTC, datetime

import pytest

from untildone.adapters.agents.reading.error_kinds import USAGE_LIMIT, classify_error
from untildone.domain.agents.agent import Kind, Trouble

# As real programs say it on a bad day of the scripted model.
SAID = [
    ("We’re currently experiencing high demand, which may cause temporary errors.", "overloaded"),
    ("[API Error: The service is currently unavailable.]", "overloaded"),
    ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limited"),
    ("unexpected status 401 Unauthorized: Incorrect API key provided: sk-x.", "not_logged_in"),
    ("429 The usage limit has been reached", "quota_exhausted"),
    ("[API Error: Model stream ended without a finish reason.]", "overloaded"),
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
