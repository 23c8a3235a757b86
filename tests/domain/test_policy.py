"""Verdicts on a call, and waits."""

from datetime import timedelta

import pytest

from tests.fakes.plans import NOW, at
from untildone.domain.agent import AgentReport, Ending, Kind, Reading, Trouble
from untildone.domain.policy import judge, wake_at
from untildone.domain.promise import Promise
from untildone.domain.run import Outcome

COMPLETE = Promise(complete=True)
FAILED = Promise(complete=False, reason="no net")


def exited(code: int, promise: Promise | None = None, error: str = "") -> AgentReport:
    return AgentReport(Ending.EXITED, code, Reading(promise, error))


VERDICTS: dict[str, tuple[AgentReport, Outcome, str]] = {
    "complete": (exited(0, COMPLETE), Outcome.COMPLETE, ""),
    "failed": (exited(0, FAILED), Outcome.FAILED, "no net"),
    "failed without a reason": (exited(0, Promise(complete=False)), Outcome.FAILED, ""),
    "failed keeps its reason whatever the exit code": (
        exited(1, FAILED),
        Outcome.FAILED,
        "no net",
    ),
    "failed keeps its reason whatever the error": (
        exited(1, FAILED, "broke"),
        Outcome.FAILED,
        "no net",
    ),
    "complete, but exit 3": (
        exited(3, COMPLETE),
        Outcome.AGENT_ERROR,
        "the agent exited with code 3",
    ),
    "complete, but an error": (exited(0, COMPLETE, "broke"), Outcome.AGENT_ERROR, "broke"),
    "an error comes before the exit code": (exited(3, None, "broke"), Outcome.AGENT_ERROR, "broke"),
    "killed by a signal": (exited(-9), Outcome.AGENT_ERROR, "the agent exited with code -9"),
    "no promise": (exited(0), Outcome.NO_PROMISE, "the agent ended without a promise"),
    "time-out in spite of a promise": (
        AgentReport(Ending.TIMEOUT, -9, Reading(COMPLETE)),
        Outcome.TIMEOUT,
        "the hard time limit of the iteration was reached",
    ),
    "idle time-out": (
        AgentReport(Ending.IDLE_TIMEOUT),
        Outcome.IDLE_TIMEOUT,
        "the agent was silent for too long",
    ),
    "interrupted": (
        AgentReport(Ending.INTERRUPTED, -15, Reading(FAILED)),
        Outcome.INTERRUPTED,
        "the loop was stopped during this attempt",
    ),
    "not started": (
        AgentReport(Ending.NOT_STARTED, None, Reading(error="claude: No such file")),
        Outcome.AGENT_ERROR,
        "claude: No such file",
    ),
    "not started, no word": (
        AgentReport(Ending.NOT_STARTED),
        Outcome.AGENT_ERROR,
        "the agent could not be started",
    ),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdict(name: str) -> None:
    report, outcome, reason = VERDICTS[name]
    assert judge(report) == (outcome, reason)


@pytest.mark.parametrize(
    ("strikes", "seconds"), [(0, 30), (1, 60), (2, 120), (4, 480), (5, 900), (6, 900), (500, 900)]
)
def test_back_off_doubles_up_to_a_bound(strikes: int, seconds: int) -> None:
    assert wake_at(Trouble(Kind.OVERLOADED, "overloaded"), strikes, NOW) - NOW == timedelta(
        seconds=seconds
    )


def test_a_stated_reset_is_believed_if_it_is_to_come() -> None:
    assert wake_at(Trouble(Kind.QUOTA_EXHAUSTED, "usage limit", at(3600)), 4, NOW) == at(3601)
    assert wake_at(Trouble(Kind.QUOTA_EXHAUSTED, "usage limit", at(0)), 0, NOW) == at(30)
    assert wake_at(Trouble(Kind.QUOTA_EXHAUSTED, "usage limit", at(-5)), 1, NOW) == at(60)
