"""Requests to a live loop: messages in a folder, and signals."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Ended, Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.records.inbox import SIGNALS, Inbox, send, wish
from untildone.domain.agents.agent import Ending
from untildone.domain.costs.budget import Budget
from untildone.domain.run.fact import (
    BudgetSet,
    ChoiceMade,
    Fact,
    GuidanceCleared,
    Guided,
    PersonDone,
    StopRequested,
    StoriesReordered,
    StoryParked,
    StoryRetried,
)
from untildone.domain.run.run import Choice, Stop, StopHow
from untildone.domain.stories.parking import Why


@pytest.fixture
def inbox(tmp_path: Path, wake: WakePipe) -> Iterator[Inbox]:
    handlers = {signum: signal.getsignal(signum) for signum in (*SIGNALS, signal.SIGUSR1)}
    inbox = Inbox(tmp_path / "inbox", wake)
    inbox.listen()
    yield inbox
    for signum, handler in handlers.items():
        signal.signal(signum, handler)


MESSAGES: list[tuple[dict[str, str], Fact]] = [
    ({"kind": "stop", "how": "now"}, StopRequested(Stop(StopHow.NOW))),
    ({"kind": "stop", "how": "after-story"}, StopRequested(Stop(StopHow.AFTER_STORY))),
    ({"kind": "choice", "choice": "keep"}, ChoiceMade(Choice.KEEP)),
    ({"kind": "done"}, PersonDone()),
    (
        {"kind": "budget", "budget": "time=1h,cost=off"},
        BudgetSet((Budget("time", 60), Budget("cost", 0))),
    ),
]


@pytest.mark.parametrize(("message", "fact"), MESSAGES)
def test_a_message_arrives_and_wakes(inbox: Inbox, message: dict[str, str], fact: Fact) -> None:
    send(inbox.folder, os.getpid(), message)
    assert inbox.wake.wait(1) == (inbox.wake.fd,)
    assert inbox.waiting()
    assert inbox.take() == (fact,)
    assert (inbox.take(), inbox.waiting(), inbox.wake.wait(0)) == ((), False, ())
    assert list(inbox.folder.iterdir()) == []


def test_messages_keep_their_order(inbox: Inbox) -> None:
    for message, _ in MESSAGES:
        send(inbox.folder, os.getpid(), message)
    assert inbox.take() == tuple(fact for _, fact in MESSAGES)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kind": "dance"}', '{"kind": "stop", "how": "x"}', "\xff"]
)
def test_nonsense_is_thrown_away(inbox: Inbox, text: str) -> None:
    (inbox.folder / "1.json").write_text(text, encoding="latin-1")
    assert inbox.take() == ()
    assert list(inbox.folder.iterdir()) == []


def test_a_draft_is_left_alone(inbox: Inbox) -> None:
    (inbox.folder / "1.draft").write_text("{")
    assert inbox.take() == ()
    assert [path.name for path in inbox.folder.iterdir()] == ["1.draft"]


def test_messages_to_an_earlier_loop_are_forgotten(inbox: Inbox) -> None:
    (inbox.folder / "1.json").write_text(json.dumps({"kind": "done"}))
    inbox.listen()
    assert inbox.take() == ()


@pytest.mark.parametrize("signum", SIGNALS)
def test_signals_are_requests(inbox: Inbox, signum: signal.Signals) -> None:
    assert not inbox.signalled()
    os.kill(os.getpid(), signum)
    assert inbox.wake.wait(1)
    assert (inbox.stop_now(), inbox.signalled()) == (True, True)
    assert inbox.take() == (StopRequested(Stop(StopHow.NOW, signum)),)


def test_what_counts_as_stop_now(inbox: Inbox) -> None:
    send(inbox.folder, os.getpid(), {"kind": "stop", "how": "after-iteration"})
    assert (inbox.stop_now(), inbox.signalled(), inbox.waiting()) == (False, False, True)
    send(inbox.folder, os.getpid(), {"kind": "stop", "how": "now"})
    assert (inbox.stop_now(), inbox.signalled()) == (True, False)


def test_a_message_to_a_dead_loop_does_not_fail(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import os; print(os.getpid())"],
        capture_output=True,
        check=True,
    )
    send(tmp_path / "inbox", int(done.stdout), {"kind": "done"})
    assert len(list((tmp_path / "inbox").glob("*.json"))) == 1


@pytest.mark.parametrize("pid", [0, -1])
def test_a_message_to_no_process_signals_nobody(
    pid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signalled: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *call: signalled.append(call))
    send(tmp_path / "inbox", pid, {"kind": "done"})
    assert signalled == []
    assert len(list((tmp_path / "inbox").glob("*.json"))) == 1


def test_a_stop_that_was_polled_before_still_reaches_the_agent(
    inbox: Inbox, processes: Processes
) -> None:
    send(inbox.folder, os.getpid(), {"kind": "stop", "how": "now"})
    assert not inbox.signalled()  # reads the message and uses up the wake-up
    ended = processes.run(Command(("sleep", "20"), inbox.folder), print, inbox.stop_now)
    assert ended == Ended(Ending.INTERRUPTED, -signal.SIGTERM)
    assert inbox.take() == (StopRequested(Stop(StopHow.NOW)),)


def test_wake_that_nobody_clears(wake: WakePipe) -> None:
    for _ in range(70_000):
        wake.set()
    assert wake.wait(0) == (wake.fd,)
    wake.clear()
    assert wake.wait(0) == ()


def test_wake_also_watches_others(wake: WakePipe) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x")
    assert wake.wait(1, (reader,)) == (reader,)
    os.close(reader)
    os.close(writer)


GUIDED = Guided("Use tabs.", ("1", "Log in"), "7")
SKIPPED = StoryParked(("2", "Session"), Why.SKIPPED, "later")


@pytest.mark.parametrize(
    "fact",
    [GUIDED, SKIPPED, StoryRetried(("1", "A")), StoriesReordered((("1", "A"),)), GuidanceCleared()],
    ids=lambda fact: type(fact).__name__,
)
def test_a_wish_stays_until_it_is_recorded(inbox: Inbox, fact: Fact) -> None:
    send(inbox.folder, os.getpid(), wish("demo", fact))
    assert inbox.waiting()
    assert inbox.take() == (fact,)
    assert inbox.take() == ()
    assert len(list(inbox.folder.iterdir())) == 1
    inbox.recorded()
    assert list(inbox.folder.iterdir()) == []


def test_a_wish_that_comes_after_the_taking_stays(inbox: Inbox) -> None:
    send(inbox.folder, os.getpid(), wish("demo", GUIDED))
    assert inbox.take() == (GUIDED,)
    send(inbox.folder, os.getpid(), wish("demo", SKIPPED))
    assert inbox.waiting()
    inbox.recorded()
    assert len(list(inbox.folder.iterdir())) == 1
    assert inbox.take() == (SKIPPED,)


def test_a_new_loop_hears_the_wishes_for_its_change(inbox: Inbox) -> None:
    send(inbox.folder, 0, wish("demo", GUIDED))
    send(inbox.folder, 0, wish("other", SKIPPED))
    (inbox.folder / "odd.json").write_text("[")
    inbox.listen("demo")
    assert inbox.take() == (GUIDED,)
    assert len(list(inbox.folder.iterdir())) == 1


def test_a_skipped_story_ends_its_own_call_only(inbox: Inbox) -> None:
    send(inbox.folder, 0, wish("demo", SKIPPED))
    assert (inbox.ends_call("1"), inbox.ends_call("2")) == (False, True)


@pytest.mark.parametrize(
    "message", [{"kind": "wish"}, {"kind": "wish", "what": "Guided", "fact": []}]
)
def test_a_wish_that_makes_no_sense_is_dropped(inbox: Inbox, message: dict[str, object]) -> None:
    send(inbox.folder, 0, message)
    assert inbox.take() == ()
    assert list(inbox.folder.iterdir()) == []
