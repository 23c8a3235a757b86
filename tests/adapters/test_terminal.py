"""The person: answers by flag, by typing at a real terminal, by message, and waits."""

import json
import os
import pty
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.records.inbox import Inbox
from untildone.adapters.terminal import LATER, Person
from untildone.domain.costs.budget import Budget
from untildone.domain.run.fact import BudgetSet, PersonDone, StopRequested
from untildone.domain.run.run import Choice, Stop, StopHow

AGAIN = "Please type cleanup, keep or later (or c, k, l): "


@pytest.fixture
def inbox(tmp_path: Path, wake: WakePipe) -> Inbox:
    return Inbox(tmp_path, wake)


@pytest.fixture
def keyboard() -> Iterator[int]:
    """The other end of a terminal that is our standard input."""
    ours = os.dup(0)
    master, slave = pty.openpty()
    os.dup2(slave, 0)
    os.close(slave)
    yield master
    os.dup2(ours, 0)
    os.close(ours)
    os.close(master)


def drop(inbox: Inbox) -> None:
    (inbox.folder / "1.json").write_text(json.dumps({"kind": "done"}))


def wake_with_message(inbox: Inbox) -> None:
    drop(inbox)
    inbox.wake.set()


def hang_up(keyboard: int) -> None:
    """The person closes the terminal's window."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, keyboard)
    os.close(nowhere)


@pytest.mark.parametrize("choice", Choice)
def test_answer_by_flag(inbox: Inbox, choice: Choice) -> None:
    assert Person(inbox, choice, at_terminal=False).choose() is choice


TYPED = {
    "cleanup\n": (Choice.CLEANUP, 0),
    "c\n": (Choice.CLEANUP, 0),
    "keep\n": (Choice.KEEP, 0),
    " K \n": (Choice.KEEP, 0),
    "what?\nkeep\n": (Choice.KEEP, 1),
    "\n\nc\nkeep\n": (Choice.CLEANUP, 2),
    "ж\nkeep\n": (Choice.KEEP, 1),
    "later\n": (LATER, 0),
    "L\n": (LATER, 0),
}


@pytest.mark.parametrize("typed", TYPED)
def test_answer_by_typing(
    typed: str, inbox: Inbox, keyboard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    choice, asked_again = TYPED[typed]
    os.write(keyboard, typed.encode())
    assert Person(inbox, "ask", at_terminal=True).choose() is choice
    assert capsys.readouterr() == ("", AGAIN * asked_again)


def test_a_word_in_two_parts(inbox: Inbox, keyboard: int) -> None:
    end_of_file = b"\x04"  # a terminal hands over an unfinished line at Ctrl-D
    os.write(keyboard, b"kee" + end_of_file)
    later = threading.Timer(0.1, os.write, (keyboard, b"p\n"))
    later.start()
    assert Person(inbox, "ask", at_terminal=True).choose() is Choice.KEEP
    later.join()


def test_the_end_of_file_is_no_answer(
    inbox: Inbox, keyboard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    os.write(keyboard, b"\x04")
    later = threading.Timer(0.1, os.write, (keyboard, b"keep\n"))
    later.start()
    assert Person(inbox, "ask", at_terminal=True).choose() is Choice.KEEP
    later.join()
    assert capsys.readouterr() == ("", AGAIN)


def test_the_end_of_a_pipe_is_a_terminal_that_went_away(inbox: Inbox, keyboard: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    later = threading.Timer(0.2, wake_with_message, (inbox,))
    later.start()
    assert Person(inbox, "ask", at_terminal=True).choose() is None
    later.join()
    assert inbox.take() == (PersonDone(),)


def test_after_the_terminal_went_away_only_a_message_helps(inbox: Inbox, keyboard: int) -> None:
    hang_up(keyboard)
    later = threading.Timer(0.2, wake_with_message, (inbox,))
    later.start()
    assert Person(inbox, "ask", at_terminal=True).choose() is None
    later.join()
    assert inbox.take() == (PersonDone(),)


def test_a_message_comes_before_what_is_typed(inbox: Inbox, keyboard: int) -> None:
    os.write(keyboard, b"keep\n")
    drop(inbox)
    person = Person(inbox, "ask", at_terminal=True)
    assert person.choose() is None
    assert inbox.take() == (PersonDone(),)
    assert person.choose() is Choice.KEEP


def test_a_request_comes_first(inbox: Inbox) -> None:
    person = Person(inbox, "ask", at_terminal=False)
    drop(inbox)
    assert person.choose() is None
    person.wait_for_word()
    started = time.monotonic()
    person.wait_until(60)
    assert time.monotonic() - started < 1


def test_a_word_is_waited_for(inbox: Inbox) -> None:
    later = threading.Timer(0.1, wake_with_message, (inbox,))
    later.start()
    Person(inbox, "ask", at_terminal=False).wait_for_word()
    later.join()
    assert inbox.take() == (PersonDone(),)


STOP = StopRequested(Stop(StopHow.NOW))
AMOUNTS: dict[str, tuple[BudgetSet | StopRequested, str]] = {
    "tokens=400k\n": (BudgetSet((Budget("tokens", 400_000),)), ""),
    "400K\n": (BudgetSet((Budget("tokens", 400_000),)), ""),
    "cost=off\n": (BudgetSet((Budget("cost", 0),)), ""),
    "stop\n": (STOP, ""),
    "\ns\n": (STOP, "Please type an amount, such as tokens=2M, or stop: "),
    "more\nstop\n": (
        STOP,
        "`tokens=more` is no budget of tokens: write for example `tokens=2M`, or type stop: ",
    ),
}


@pytest.mark.parametrize("typed", AMOUNTS)
def test_a_budget_is_typed(
    typed: str, inbox: Inbox, keyboard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    fact, said = AMOUNTS[typed]
    os.write(keyboard, typed.encode())
    person = Person(inbox, "keep", at_terminal=True)
    assert person.present()
    assert person.new_budget("tokens") == fact
    assert capsys.readouterr() == ("", said)


def test_a_budget_may_come_by_message(inbox: Inbox, keyboard: int) -> None:
    person = Person(inbox, "keep", at_terminal=True)
    drop(inbox)
    assert person.new_budget("tokens") is None
    assert inbox.take() == (PersonDone(),)
    hang_up(keyboard)
    later = threading.Timer(0.2, wake_with_message, (inbox,))
    later.start()
    assert person.new_budget("tokens") is None
    later.join()
    assert inbox.take() == (PersonDone(),)
    assert not person.present()


def test_waits_are_ended_by_a_wake(inbox: Inbox) -> None:
    person = Person(inbox, "ask", at_terminal=False)
    started = time.monotonic()
    person.wait_until(0.05)
    person.wait_until(0)
    assert 0.04 < time.monotonic() - started < 0.9
