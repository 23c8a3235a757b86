"""The person: answers by flag, by message, and waits that a request ends."""

import json
import time
from pathlib import Path

import pytest

from untildone.adapters.inbox import Inbox
from untildone.adapters.terminal import Person
from untildone.adapters.wake import Wake
from untildone.domain.run import Choice


@pytest.fixture
def inbox(tmp_path: Path, wake: Wake) -> Inbox:
    return Inbox(tmp_path, wake)


def drop(inbox: Inbox) -> None:
    (inbox.folder / "1.json").write_text(json.dumps({"kind": "done"}))


@pytest.mark.parametrize("choice", Choice)
def test_answer_by_flag(inbox: Inbox, choice: Choice) -> None:
    assert Person(inbox, choice, at_terminal=False).choose() is choice


def test_a_request_comes_first(inbox: Inbox) -> None:
    person = Person(inbox, "ask", at_terminal=False)
    drop(inbox)
    assert person.choose() is None
    person.wait_for_word()
    started = time.monotonic()
    person.wait_until(60)
    assert time.monotonic() - started < 1


def test_waits_are_ended_by_a_wake(inbox: Inbox) -> None:
    person = Person(inbox, "ask", at_terminal=False)
    started = time.monotonic()
    person.wait_until(0.05)
    person.wait_until(0)
    assert 0.04 < time.monotonic() - started < 0.9
