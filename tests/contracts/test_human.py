"""What the loop relies on when it asks the person and nobody is at a terminal."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.human import FakeHuman
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.records.inbox import Inbox, send
from untildone.adapters.terminal import Person
from untildone.domain.run.run import Choice
from untildone.ports import Human

# A person with this answer to the completion choice; without one there is mail.
Make = Callable[[Path, Choice | None], Human]


def _real(folder: Path, answer: Choice | None) -> Human:
    if answer is None:
        send(folder, 0, {"kind": "done"})
    return Person(Inbox(folder, WakePipe()), answer or "ask", at_terminal=False)


def _fake(folder: Path, answer: Choice | None) -> Human:
    human = FakeHuman(FakeClock(), answer)
    human.budgets, human.decisions = [None], [None]
    return human


MAKERS: dict[str, Make] = {"real": _real, "fake": _fake}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Make:
    return MAKERS[request.param]


@pytest.mark.parametrize("choice", Choice)
def test_a_choice_that_was_made_before(make: Make, tmp_path: Path, choice: Choice) -> None:
    human = make(tmp_path, choice)
    assert (human.choose(), human.present()) == (choice, False)


def test_mail_comes_before_every_answer(make: Make, tmp_path: Path) -> None:
    human = make(tmp_path, None)
    assert human.choose() is None
    assert human.new_budget("money") is None
    assert human.decide(("1", "First")) is None
    human.wait_for_word()
    human.wait_until(60)
