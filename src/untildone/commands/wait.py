"""Waiting for a run that another process drives: for its end, or for news of it."""

import math
from collections.abc import Iterator

from msgspec import Struct

from untildone.commands.feed import EventObject, Followed
from untildone.commands.run_ending import exit_code
from untildone.domain.reporting import views
from untildone.domain.run.run import Run

DIED = 1
# Phases in which nothing goes on before the person has said something.
FOR_THE_PERSON = ("awaiting_choice", "awaiting_decision", "awaiting_person", "waiting_budget")


class News(Struct, frozen=True):
    """What `wait` has waited for. `event` is the event behind it, if there is one."""

    name: str
    run: Run
    seq: int
    event: EventObject
    exit_code: int | None = None  # of the run, once it has ended

    @property
    def data(self) -> dict[str, object]:
        """As `wait --json` prints it."""
        event, run = self.event, self.run
        story = event.get("story_id") or ""
        why = event.get("question") or event.get("reason") or event.get("why") or ""
        return views.codec_ready(
            {
                "event": self.name,
                "change_id": run.plan.change_id,
                "status": run.status,
                "phase": views.phase(run),
                "story_id": story,
                "reason": why if self.exit_code is None else run.reason,
                "seq": self.seq,
            }
        )


def wait_for_end(run: Followed, seconds: float | None) -> News:
    """How the run has ended, or that it has not in this time."""
    last: EventObject = {}
    for batch in _looks(run, seconds):
        if batch is None:
            return News("timeout", run.run(), _seq(last), {})
        last = batch[-1] if batch else last
    return _ended(run, last)


def wait_for_next(run: Followed, seconds: float | None, after: int | None) -> News:
    """The next thing worth knowing; after an event that is known by its number, or from now on."""
    last: EventObject = {}
    ending: EventObject | None = None  # the loop may wait for the choice now, or go on by itself
    for k, batch in enumerate(_looks(run, seconds)):
        if batch is None:
            return News("timeout", run.run(), _seq(last), {})
        last = batch[-1] if batch else last
        fresh = batch if k else _since(run, batch, after)
        found = next(filter(_is_news, fresh), ending if not batch and run.alive() else None)
        if found:
            return News(str(found["event"]), run.run(), _seq(found), found)
        ending = next((event for event in fresh if event["event"] == "complete"), ending)
    return _ended(run, last)


def _looks(run: Followed, seconds: float | None) -> Iterator[list[EventObject] | None]:
    """What is new at each look; None when the time is over and the loop is not."""
    clock = run.repository.clock
    end = math.inf if seconds is None else clock.monotonic() + seconds
    for batch in run.batches(lambda: run.pause(max(0.0, end - clock.monotonic()))):
        yield batch
        if clock.monotonic() >= end and run.alive():
            yield None


def _ended(run: Followed, last: EventObject) -> News:
    ended = run.run()
    if ended.died:
        return News("died", ended, _seq(last), {}, DIED)
    return News("finished", ended, _seq(last), last, exit_code(ended))


def _is_news(event: EventObject) -> bool:
    match event:
        case {"event": "checkpoint_saved" | "story_parked" | "waiting"}:
            return True
        case {"event": "error", "story_id": story}:
            return bool(story)
        case _:
            return False


def _since(run: Followed, events: list[EventObject], after: int | None) -> list[EventObject]:
    """What of the past is new. Nothing, unless the loop waits for the person by now.

    Then nothing would come before they have answered.
    """
    if after is not None:
        return [event for event in events if _seq(event) > after]
    if not run.alive() or views.phase(run.run()) not in FOR_THE_PERSON:
        return []
    asked = [event for event in events if event["event"] in ("complete", "waiting")]
    return asked[-1:]


def _seq(event: EventObject) -> int:
    found = event.get("seq", 0)
    return found if isinstance(found, int) else 0
