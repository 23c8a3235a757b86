"""Verdicts: how a call went, and how long to wait out a limit."""

from datetime import datetime, timedelta
from typing import assert_never

from msgspec import Struct

from untildone.domain.agents.agent import CUT_SHORT, AgentReport, Ending, Kind, Reading, Trouble
from untildone.domain.plain_text import cut
from untildone.domain.run.run import Outcome

FIRST_WAIT_S = 5
LONGEST_WAIT_S = 15 * 60
JITTER = 0.25
AFTER_RESET_S = 1
# In a row: an agent that always hangs must use up attempts in the end.
HANGS_NOT_COUNTED = 2
REASON_BYTES = 4000
QUESTION_CHARS = 4000
ASKS = "the agent asks"
# Tools that only look or ask: without one of them the work may be done all the same.
LOOKING = (
    *("Glob", "Grep", "LS", "Read", "WebFetch", "WebSearch", "web_fetch", "web_search"),
    "AskUserQuestion",
)


class Verdict(Struct, frozen=True):
    """The outcome of an agent call, its reason, and the trouble behind it if there was one."""

    outcome: Outcome
    reason: str = ""
    trouble: Trouble | None = None
    question: str = ""


def judge(report: AgentReport, limit_hits: int = 0) -> Verdict:
    """How a call went, in the contract's order of precedence.

    `limit_hits` counts the calls in a row before this one that came to nothing by no fault of the
    agent.
    """
    match report.ending:
        case Ending.INTERRUPTED:
            return Verdict(Outcome.INTERRUPTED, "the loop was stopped during this attempt")
        case Ending.TIMEOUT:
            reason = "the hard time limit of the iteration was reached"
            return Verdict(Outcome.TIMEOUT, reason, _unanswered(report, limit_hits))
        case Ending.IDLE_TIMEOUT:
            reason = "the agent was silent for too long"
            return Verdict(Outcome.IDLE_TIMEOUT, reason, _unanswered(report, limit_hits))
        case Ending.REPEATING:
            reason = "the agent said or did the same thing over and over and was ended"
            return Verdict(Outcome.AGENT_ERROR, reason, Trouble(Kind.REPEATING, "repeating"))
        case Ending.NOT_STARTED:
            reason = report.reading.error or "the agent could not be started"
            return Verdict(Outcome.AGENT_ERROR, reason, Trouble(Kind.CRASHED, "not started"))
        case Ending.EXITED | Ending.LINGERED:
            return _judge_exit(report)
        case _:
            assert_never(report.ending)


def _unanswered(report: AgentReport, limit_hits: int) -> Trouble | None:
    """The trouble of a call that ran out of time, if it was not the agent's own."""
    known = report.reading.trouble
    if known and known.passing:
        return known  # its program waits for what we can wait for ourselves
    # The CLI started but the model never answered, so no attempt is counted.
    hung = report.begun and not report.spoke and limit_hits < HANGS_NOT_COUNTED
    return Trouble(Kind.HUNG, "no answer") if hung else None


def _judge_exit(report: AgentReport) -> Verdict:
    reading, code = report.reading, report.exit_code
    if reading.promise and reading.promise.asks:
        return _asks(reading.promise.reason or "The agent asks, but did not say what.")
    if reading.promise and not reading.promise.complete:
        return Verdict(Outcome.FAILED, reading.promise.reason)
    if reading.error or code:
        return _failed_call(reading, code)
    if reading.promise:
        return _completed(reading)
    if reading.question:
        return _asks(reading.question)
    return Verdict(Outcome.NO_PROMISE, "the agent ended without a promise")


def _failed_call(reading: Reading, code: int | None) -> Verdict:
    crashed = reading.error.startswith(CUT_SHORT) or not reading.error
    trouble = reading.trouble or (Trouble(Kind.CRASHED, "crashed") if crashed else None)
    reason = reading.error or f"the agent exited with code {code}"
    return Verdict(Outcome.AGENT_ERROR, reason, trouble)


def _completed(reading: Reading) -> Verdict:
    missed = [tool for tool in reading.denied if tool.partition(" ")[0] not in LOOKING]
    if not missed:
        return Verdict(Outcome.COMPLETE)
    reason = f"COMPLETE, but these tools were denied: {', '.join(missed)}"
    return Verdict(Outcome.AGENT_ERROR, reason)


def _asks(question: str) -> Verdict:
    asked = cut(question, QUESTION_CHARS)
    return Verdict(Outcome.NO_PROMISE, f"{ASKS}: {asked}", question=asked)


def wake_at(limit: Trouble, limit_hits: int, now: datetime) -> datetime:
    """When to call again: the stated reset, else a back-off that doubles up to a bound.

    Several loops on one account should not all wake at once: the back-off is stretched a little,
    by a part of a second that differs between them.
    """
    until = now + timedelta(seconds=limit.after_s) if limit.after_s else limit.until
    if until and until > now:
        return until + timedelta(seconds=AFTER_RESET_S)
    seconds = min(FIRST_WAIT_S * 2 ** min(limit_hits, 20), LONGEST_WAIT_S)
    return now + timedelta(seconds=seconds * (1 + JITTER * now.microsecond / 1_000_000))
