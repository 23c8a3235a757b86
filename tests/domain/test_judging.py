"""Verdicts on a call, and waits."""

from datetime import timedelta

import pytest

from tests.fakes.plans import NOW, at
from untildone.domain.agents.agent import CUT_SHORT, AgentReport, Ending, Kind, Reading, Trouble
from untildone.domain.agents.promise import Promise
from untildone.domain.run.judging import Verdict, judge, wake_at
from untildone.domain.run.run import Outcome

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
    "the same over and over": (
        AgentReport(Ending.REPEATING, -15, Reading(COMPLETE)),
        Outcome.AGENT_ERROR,
        "the agent said or did the same thing over and over and was ended",
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
    "lingered after its last event": (
        AgentReport(Ending.LINGERED, None, Reading(COMPLETE)),
        Outcome.COMPLETE,
        "",
    ),
    "lingered after an error": (
        AgentReport(Ending.LINGERED, None, Reading(COMPLETE, "broke")),
        Outcome.AGENT_ERROR,
        "broke",
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
    verdict = judge(report)
    assert (verdict.outcome, verdict.reason) == (outcome, reason)


BUSY = Trouble(Kind.OVERLOADED, "server error")
LOGIN = Trouble(Kind.NOT_LOGGED_IN, "not logged in")
HUNG = Trouble(Kind.HUNG, "no answer")
CRASHED = Trouble(Kind.CRASHED, "crashed")
TROUBLES: dict[str, tuple[AgentReport, Trouble | None]] = {
    "of the stream": (AgentReport(Ending.EXITED, 1, Reading(error="x", trouble=LOGIN)), LOGIN),
    "with exit 0": (
        AgentReport(Ending.EXITED, 0, Reading(error="x", trouble=BUSY)),
        BUSY,
    ),
    "an error of no kind": (AgentReport(Ending.EXITED, 1, Reading(error="x")), None),
    "an exit code and no word": (AgentReport(Ending.EXITED, 3, Reading(COMPLETE)), CRASHED),
    "no last event": (AgentReport(Ending.EXITED, 0, Reading(error=f"{CUT_SHORT}: x")), CRASHED),
    "not started": (AgentReport(Ending.NOT_STARTED), Trouble(Kind.CRASHED, "not started")),
    "silence after a start": (AgentReport(Ending.IDLE_TIMEOUT, -9, begun=True), HUNG),
    "no end after a start": (AgentReport(Ending.TIMEOUT, -9, begun=True), HUNG),
    "silence without a start": (AgentReport(Ending.IDLE_TIMEOUT, -9), None),
    "silence after a word": (
        AgentReport(Ending.IDLE_TIMEOUT, -9, begun=True, spoke=True),
        None,
    ),
    "silence at a limit": (
        AgentReport(Ending.IDLE_TIMEOUT, -9, Reading(trouble=BUSY), begun=True, spoke=True),
        BUSY,
    ),
    "complete": (exited(0, COMPLETE), None),
    "failed": (exited(1, FAILED, "x"), None),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_trouble(name: str) -> None:
    report, trouble = TROUBLES[name]
    assert judge(report).trouble == trouble


def test_an_agent_that_always_hangs_uses_up_attempts_in_the_end() -> None:
    report = AgentReport(Ending.IDLE_TIMEOUT, -9, begun=True)
    assert [judge(report, limit_hits).trouble for limit_hits in range(5)] == [HUNG] * 2 + [None] * 3


@pytest.mark.parametrize(
    ("denied", "outcome"),
    [
        (("WebSearch cats", "Read a.txt"), Outcome.COMPLETE),
        (("Read a.txt", "Write b.txt"), Outcome.AGENT_ERROR),
        (("Bash rm x",), Outcome.AGENT_ERROR),
        (("AskUserQuestion",), Outcome.COMPLETE),
    ],
)
def test_complete_with_denied_writes_is_not_complete(
    denied: tuple[str, ...], outcome: Outcome
) -> None:
    verdict = judge(AgentReport(Ending.EXITED, 0, Reading(COMPLETE, denied=denied)))
    assert verdict.outcome is outcome
    assert verdict.reason.endswith(denied[-1]) == (outcome is Outcome.AGENT_ERROR)


@pytest.mark.parametrize(
    ("limit_hits", "seconds"), [(0, 5), (1, 10), (2, 20), (7, 640), (8, 900), (9, 900), (500, 900)]
)
def test_back_off_doubles_up_to_a_bound(limit_hits: int, seconds: int) -> None:
    assert wake_at(Trouble(Kind.OVERLOADED, "overloaded"), limit_hits, NOW) - NOW == timedelta(
        seconds=seconds
    )


def test_a_stated_reset_is_believed_if_it_is_to_come() -> None:
    assert wake_at(Trouble(Kind.QUOTA_EXHAUSTED, "usage limit", at(3600)), 4, NOW) == at(3601)
    assert wake_at(Trouble(Kind.QUOTA_EXHAUSTED, "usage limit", at(0)), 0, NOW) == at(5)
    assert wake_at(Trouble(Kind.QUOTA_EXHAUSTED, "usage limit", at(-5)), 1, NOW) == at(10)
    assert wake_at(Trouble(Kind.RATE_LIMITED, "rate limit", after_s=20), 3, NOW) == at(21)


def test_loops_do_not_all_wake_at_once() -> None:
    waits = [
        wake_at(BUSY, 1, NOW + timedelta(microseconds=us)) - NOW for us in (0, 400_000, 999_999)
    ]
    assert waits == sorted(set(waits))
    assert waits[-1] < timedelta(seconds=14)


ASK = Promise(complete=False, reason="a or b?", asks=True)


@pytest.mark.parametrize(
    ("report", "question"),
    [
        (exited(0, ASK), "a or b?"),
        (exited(1, ASK, "broke"), "a or b?"),
        (exited(0, Promise(complete=False, asks=True)), "The agent asks, but did not say what."),
        (AgentReport(Ending.EXITED, 0, Reading(question="Which?")), "Which?"),
    ],
)
def test_a_question_is_no_failure(report: AgentReport, question: str) -> None:
    asked = Verdict(Outcome.NO_PROMISE, f"the agent asks: {question}", question=question)
    assert judge(report) == asked


@pytest.mark.parametrize(
    ("code", "reading", "outcome"),
    [
        (0, Reading(COMPLETE, question="Anything else?"), Outcome.COMPLETE),
        (0, Reading(FAILED, question="Which?"), Outcome.FAILED),
        (1, Reading(question="Which?"), Outcome.AGENT_ERROR),
        (0, Reading(error="broke", question="Which?"), Outcome.AGENT_ERROR),
    ],
)
def test_a_question_counts_at_an_ordinary_end_without_a_promise(
    code: int, reading: Reading, outcome: Outcome
) -> None:
    verdict = judge(AgentReport(Ending.EXITED, code, reading))
    assert (verdict.outcome, verdict.question) == (outcome, "")
