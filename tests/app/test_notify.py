"""Which events are worth a message, each thing once."""

import pytest

from untildone.app.bus import EventObject
from untildone.app.notify import LONGEST, Messages, Messenger, Undelivered
from untildone.domain.reporting.notification import EVENTS, Notification

START: EventObject = {"event": "run_started", "change_id": "demo"}
CALL: EventObject = {"event": "iteration_started"}
DONE: EventObject = {"event": "complete", "reason": "success", "stories": {"verified": 2}}
LIMIT: EventObject = {
    "event": "waiting",
    "at": "2026-01-02T01:00:00+00:00",
    "why": "usage limit",
    "until": "2026-01-02T03:04:05+00:00",
    "class": "quota_exhausted",
}
DECISION: EventObject = {"event": "waiting", "why": "your word", "until": None, "class": "decision"}
ASKS: EventObject = {"event": "story_parked", "story_id": "2", "question": "Red?"}
SKIPPED: EventObject = {"event": "story_parked", "story_id": "2", "question": ""}


def told(*events: EventObject, earlier: tuple[EventObject, ...] = ()) -> list[Notification]:
    messages = Messages(earlier)
    return [message for event in (START, *events) for message in messages.of(event)]


def names(*events: EventObject, earlier: tuple[EventObject, ...] = ()) -> list[str]:
    return [message.event for message in told(*events, earlier=earlier)]


def ended(reason: str) -> EventObject:
    return {"event": "complete", "reason": reason}


def spent(amount: float, name: str = "tokens", limit: float = 100.0) -> EventObject:
    row = {"name": name, "limit": limit, "spent": amount}
    return {"event": "iteration_ended", "budgets": [row]}


def test_the_end_is_told_once() -> None:
    (done,) = told(CALL, DONE, DONE)
    assert done.title == "untildone: demo is done"
    assert done.body.startswith("2 stories verified by a check. Look: ")
    assert (done.event, done.status, done.change_id) == ("done", "done", "demo")
    assert names(START, DONE, earlier=(START, CALL, DONE)) == []
    assert names(CALL, DONE, CALL, DONE) == ["done", "done"]
    assert told(ended("success"))[0].body.startswith("Look: ")


def test_who_stops_a_run_knows_it() -> None:
    assert names(CALL, ended("stopped")) == []


def test_stuck_says_why_and_what_to_type() -> None:
    error: EventObject = {
        "event": "error",
        "message": "Story 1: no retry is left",
        "reason": "no luck",
        "hint": "`untildone resume demo`",
    }
    (stuck,) = told(CALL, error, ended("max_retries"))
    rows = ["Story 1: no retry is left.", "no luck", "Next: `untildone resume demo`"]
    assert stuck.body.splitlines() == rows
    assert (stuck.event, stuck.status) == ("stuck", "stuck")
    (stalled,) = told(CALL, ended("stalled"))
    assert (stalled.title, stalled.body) == ("untildone: demo is stalled", "no progress.")


def test_limits_and_questions() -> None:
    assert names(LIMIT, LIMIT, DECISION, DECISION) == ["limit", "question"]
    assert names(LIMIT, earlier=(START, LIMIT)) == []
    assert "waits until Jan 02" in told(LIMIT)[0].title
    (asked,) = told(ASKS, SKIPPED)
    assert asked.body == 'Story 2 asks: Red?\nAnswer: untildone guide demo --story 2 "your answer"'


def test_short_waits_are_told_once_until_a_call_gets_through() -> None:
    def short(second: int, kind: str) -> EventObject:
        return {**LIMIT, "until": f"2026-01-02T01:00:0{second}+00:00", "class": kind}

    limits = [short(second, "rate_limited") for second in (1, 2, 3)]
    through: EventObject = {"event": "iteration_ended"}
    assert names(*limits) == ["limit"]
    assert names(*limits[:2], through, limits[2]) == ["limit", "limit"]
    assert names(short(1, "overloaded"), {**LIMIT, "class": "overloaded"}) == ["limit"]
    assert names(limits[0], LIMIT) == ["limit", "limit"]


def test_budgets_at_their_steps() -> None:
    steps = [message.title for message in told(*map(spent, (49, 50, 79, 85, 90)))]
    assert [title.partition(": ")[2].split(":")[1][:5] for title in steps] == [" 50 %", " 80 %"]
    assert names(spent(50), earlier=(START, spent(60))) == []
    assert names(spent(50), spent(100, limit=200.0)) == ["budget", "budget"]
    assert names(spent(90, "story-tokens")) == []


@pytest.mark.parametrize(
    "how", [{"event": "error", "hint": "`x`"}, {"event": "waiting", "why": "w"}]
)
def test_a_budget_that_is_used_up(how: EventObject) -> None:
    over = {"budget": "tokens", "limit": 100.0, "spent": 120.0, "class": "budget", "message": "m"}
    (message,) = told({**how, **over}, {**how, **over})
    assert message.title == "untildone: demo: 100 % of the budget of tokens is used"
    assert message.status == ("stopped" if "hint" in how else "running")


def test_a_message_is_short_and_plain() -> None:
    long: EventObject = {**ASKS, "question": "\x1b[31m" + "x" * 2000}
    (message,) = told(long)
    assert len(message.body) == LONGEST
    assert "\x1b" not in message.body


def test_other_events_are_not_worth_it() -> None:
    assert names({"event": "agent_text"}, {"event": "iteration_ended"}, {"event": "error"}) == []


def test_a_messenger_sends_what_is_wanted_and_says_what_did_not_arrive() -> None:
    sent: list[str] = []
    failed: list[tuple[str, str]] = []

    def send(message: Notification, event: EventObject) -> None:
        sent.append(message.event)
        if message.event == "limit":
            raise Undelivered("nobody there")

    messenger = Messenger(
        Messages(), set(EVENTS) - {"question"}, send, lambda *row: failed.append(row)
    )
    for event in (START, LIMIT, ASKS, CALL, DONE):
        messenger(event)
    assert sent == ["limit", "done"]
    assert failed == [("limit", "nobody there")]
