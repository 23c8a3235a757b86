"""What the loop relies on when it looks for requests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.mail import FakeMail
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.records.inbox import Inbox, send, wish
from untildone.domain.run.fact import Fact, Guided, PersonDone, StopRequested
from untildone.domain.run.run import Stop, StopHow
from untildone.ports import Mail

NOW = StopRequested(Stop(StopHow.NOW))
LATER = StopRequested(Stop(StopHow.AFTER_STORY))
# A mailbox, and how somebody drops a request into it.
Scene = tuple[Mail, Callable[[Fact], None]]


def _real(folder: Path) -> Scene:
    def drop(fact: Fact) -> None:
        match fact:
            case StopRequested(stop):
                send(folder, 0, {"kind": "stop", "how": stop.how})
            case PersonDone():
                send(folder, 0, {"kind": "done"})
            case _:
                send(folder, 0, wish("demo", fact))

    return Inbox(folder, WakePipe()), drop


def _fake(folder: Path) -> Scene:
    mail = FakeMail()
    return mail, mail.drop


MAKERS: dict[str, Callable[[Path], Scene]] = {"real": _real, "fake": _fake}


@pytest.fixture(params=MAKERS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return MAKERS[request.param](tmp_path / "inbox")


def test_each_request_is_taken_once_and_in_order(scene: Scene) -> None:
    mail, drop = scene
    assert mail.take() == ()
    asked = (Guided("use make"), PersonDone(), LATER)
    for fact in asked:
        drop(fact)
    assert mail.take() == asked
    assert mail.take() == ()
    mail.recorded()
    drop(NOW)
    assert mail.take() == (NOW,)


def test_only_a_stop_that_waits_for_nothing_stops_now(scene: Scene) -> None:
    mail, drop = scene
    drop(LATER)
    assert not mail.stop_now()
    drop(NOW)
    assert mail.stop_now()
    assert mail.take() == (LATER, NOW)
    assert not mail.stop_now()
