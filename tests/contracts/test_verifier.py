"""What the loop relies on when it runs a check, whoever runs it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.verifier import FakeVerifier
from untildone.adapters.checks.shell import ShellChecks
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.sandbox import RunEnvironment
from untildone.domain.checks.checks import Checked
from untildone.ports import Verifier

FAILS = "echo red; exit 1"
# Makes a verifier for which only FAILS fails; `stopped`: somebody wants the loop to stop.
Make = Callable[[Path, bool], Verifier]


def _real(top: Path, stopped: bool) -> Verifier:
    wake = WakePipe()
    if stopped:
        wake.set()
    return ShellChecks(
        Processes(wake.fd), RunEnvironment({}), top, top / "reports", lambda: stopped
    )


def _fake(top: Path, stopped: bool) -> Verifier:
    verifier = FakeVerifier({FAILS: ["red"], "sleep 60": ["interrupted"]})
    verifier.interrupted = stopped
    return verifier


MAKERS: dict[str, Make] = {"real": _real, "fake": _fake}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Make:
    return MAKERS[request.param]


def test_what_passes_has_nothing_to_say(make: Make, tmp_path: Path) -> None:
    assert make(tmp_path, False).run("true", 9) == Checked()
    assert make(tmp_path, False).run("true", 9, str(tmp_path)) == Checked()


def test_what_fails_says_how_and_what_it_printed(make: Make, tmp_path: Path) -> None:
    checked = make(tmp_path, False).run(FAILS, 9)
    assert (checked.how, checked.output.strip(), checked.interrupted) == (
        "exit code 1",
        "red",
        False,
    )
    assert "red" in checked.reason


def test_what_is_interrupted_has_not_passed(make: Make, tmp_path: Path) -> None:
    checked = make(tmp_path, True).run("sleep 60", 9)
    assert checked.interrupted
    assert checked.reason
