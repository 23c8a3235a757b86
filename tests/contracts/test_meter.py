"""What the loop relies on when it asks what a call cost."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.meter import FakeMeter
from tests.fakes.plans import NOW
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.sessions.meter import UsageMeter
from untildone.adapters.sessions.watch import SessionWatch
from untildone.domain.agents.agent import Usage
from untildone.ports import Meter


def _real(top: Path) -> Meter:
    sessions = SessionWatch(top, lambda: NOW)
    return UsageMeter(Processes(WakePipe().fd), sessions, "", lambda: NOW, lambda: False)


MAKERS: dict[str, Callable[[Path], Meter]] = {"real": _real, "fake": lambda top: FakeMeter()}


@pytest.fixture(params=MAKERS)
def meter(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Meter:
    # Neither records nor a usage command of this machine.
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    return MAKERS[request.param](tmp_path)


def test_what_the_agent_reports_is_believed(meter: Meter) -> None:
    reported = Usage(10, 5, 3, 2, cost_usd=0.25)
    meter.start("claude")
    assert meter.measure(reported, "session") == (reported, [])


def test_without_any_number_there_is_no_usage(meter: Meter) -> None:
    meter.start("claude")
    assert meter.measure(None, "") == (None, [])


def test_it_measures_call_after_call(meter: Meter) -> None:
    for tokens in (1, 2):
        meter.start("claude")
        assert meter.measure(Usage(tokens, cost_usd=0.1), "") == (Usage(tokens, cost_usd=0.1), [])
