"""What the loop relies on when it calls an agent, whoever plays it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.agent import FakeAgent, said
from tests.fakes.plans import LIMITS
from untildone.adapters.agents.call import AgentCaller
from untildone.adapters.agents.command import CommandProgram
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.sandbox import RunEnvironment
from untildone.domain.agents.agent import AgentReport, AgentText, Ending, Intent, Notice, Reading
from untildone.domain.agents.promise import Promise
from untildone.ports import Agent, Notify

DONE = "<promise>COMPLETE</promise>"
# Makes an agent that prints this text and exits with this code; without one it is interrupted.
Make = Callable[[Path, str, int | None], Agent]


def _real(folder: Path, text: str, code: int | None) -> Agent:
    program = folder / "agent"
    ends = "sleep 60" if code is None else f"exit {code}"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\nprintf '%s' '{text}'\n{ends}\n")
    program.chmod(0o755)
    wake = WakePipe()
    programs = {"command": CommandProgram(str(program))}
    environment = RunEnvironment({})

    def ends_call(story_id: str) -> bool:
        return code is None and story_id == "1"

    return AgentCaller(Processes(wake.fd), programs, environment, folder / "pid", ends_call)


def _fake(folder: Path, text: str, code: int | None) -> Agent:
    promise = Promise(complete=True) if DONE in text else None

    def reply(notify: Notify) -> AgentReport:
        if code is None:
            return AgentReport(Ending.INTERRUPTED)
        notify(AgentText(text))
        return said(promise) if code == 0 else AgentReport(Ending.EXITED, code, Reading(promise))

    return FakeAgent(reply)


MAKERS: dict[str, Make] = {"real": _real, "fake": _fake}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Make:
    return MAKERS[request.param]


def call(agent: Agent, folder: Path) -> tuple[AgentReport, list[Notice]]:
    notices: list[Notice] = []
    intent = Intent("Do it.", str(folder), str(folder), "1", 1, agent="command")
    return agent.run(intent, LIMITS, str(folder / "log"), notices.append), notices


def test_a_promise_and_what_was_said(make: Make, tmp_path: Path) -> None:
    report, notices = call(make(tmp_path, DONE, 0), tmp_path)
    assert (report.ending, report.exit_code) == (Ending.EXITED, 0)
    assert report.reading.promise == Promise(complete=True)
    assert notices == [AgentText(DONE)]


def test_an_exit_code_is_reported_as_it_is(make: Make, tmp_path: Path) -> None:
    report, _ = call(make(tmp_path, "sorry", 3), tmp_path)
    assert (report.ending, report.exit_code, report.reading.promise) == (Ending.EXITED, 3, None)


def test_an_interrupted_call_is_no_error(make: Make, tmp_path: Path) -> None:
    report, _ = call(make(tmp_path, "", None), tmp_path)
    assert report.ending is Ending.INTERRUPTED
    assert (report.reading.promise, report.reading.error) == (None, "")
