"""How OpenAI says that something went wrong: the same bodies in Responses and Chat Completions."""

from __future__ import annotations

from tests.modelserver.script import BadDay, Day
from tests.modelserver.wire import STATUS, Failure, Json, after

ERRORS: dict[Day, tuple[str, str | None, str]] = {
    Day.RATE_LIMIT: ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    Day.OVERLOADED: ("server_error", None, "The server is overloaded or not ready yet."),
    Day.SERVER_ERROR: ("server_error", None, "The server had an error while processing this."),
    Day.UNAVAILABLE: ("server_error", None, "Service unavailable."),
    Day.BAD_KEY: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided: sk-x."),
    Day.QUOTA: (
        "insufficient_quota",
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    Day.CONTEXT: (
        "invalid_request_error",
        "context_length_exceeded",
        "Your input exceeds the context window of this model. Please adjust your input.",
    ),
}


def failure(bad: BadDay, now: float) -> Failure:
    """The status and body for this bad day."""
    if bad.day is Day.USAGE_LIMIT:
        error: Json = {
            "type": "usage_limit_reached",
            "message": "The usage limit has been reached",
            "plan_type": "plus",
        }
        if bad.reset_s is not None:
            error |= {"resets_at": int(now + bad.reset_s), "resets_in_seconds": int(bad.reset_s)}
        return Failure(429, {"error": error})
    kind, code, message = ERRORS[bad.day]
    if bad.day is Day.RATE_LIMIT and bad.reset_s is not None:
        message += f" Please try again in {bad.reset_s:g}s."
    status = 429 if bad.day is Day.QUOTA else STATUS[bad.day]
    error = {"message": message, "type": kind, "param": None, "code": code}
    return Failure(status, {"error": error}, after(bad))
