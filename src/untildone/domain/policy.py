"""Verdicts: how a call went, and how long to wait out a limit."""

from datetime import datetime, timedelta
from typing import assert_never

from untildone.domain.agent import AgentReport, Ending, Trouble
from untildone.domain.run import Outcome

FIRST_WAIT_S = 30
LONGEST_WAIT_S = 15 * 60
AFTER_RESET_S = 1
REASON_BYTES = 4000


def judge(report: AgentReport) -> tuple[Outcome, str]:
    """The outcome of an agent call and its reason, in the contract's order of precedence."""
    match report.ending:
        case Ending.INTERRUPTED:
            return Outcome.INTERRUPTED, "the loop was stopped during this attempt"
        case Ending.TIMEOUT:
            return Outcome.TIMEOUT, "the hard time limit of the iteration was reached"
        case Ending.IDLE_TIMEOUT:
            return Outcome.IDLE_TIMEOUT, "the agent was silent for too long"
        case Ending.NOT_STARTED:
            return Outcome.AGENT_ERROR, report.reading.error or "the agent could not be started"
        case Ending.EXITED:
            return _judge_exit(report)
        case _:
            assert_never(report.ending)


def _judge_exit(report: AgentReport) -> tuple[Outcome, str]:
    reading = report.reading
    if reading.promise and not reading.promise.complete:
        return Outcome.FAILED, reading.promise.reason
    if reading.error:
        return Outcome.AGENT_ERROR, reading.error
    if report.exit_code:
        return Outcome.AGENT_ERROR, f"the agent exited with code {report.exit_code}"
    if reading.promise:
        return Outcome.COMPLETE, ""
    return Outcome.NO_PROMISE, "the agent ended without a promise"


def wake_at(limit: Trouble, strikes: int, now: datetime) -> datetime:
    """When to call again: the stated reset, else a back-off that doubles up to a bound."""
    until = now + timedelta(seconds=limit.after_s) if limit.after_s else limit.until
    if until and until > now:
        return until + timedelta(seconds=AFTER_RESET_S)
    return now + timedelta(seconds=min(FIRST_WAIT_S * 2**strikes, LONGEST_WAIT_S))
