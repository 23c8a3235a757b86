"""Waiting for a run that another process drives: for its end, or for news of it."""

import contextlib
import math
from collections.abc import Callable

from msgspec import Struct

from untildone.commands.look.feed import EventObject, Feed, Followed
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


class Wait:
    """For the end of a run, or for the next thing worth knowing of it.

    That is news since the event whose number is `after`, or from now on.
    """

    def __init__(self, feed: Feed, *, for_news: bool = False, after: int | None = None) -> None:
        self._feed = feed
        self._for_news = for_news
        self._after = after
        self._last: EventObject = {}
        self._looked = False
        # The loop may wait for the choice now, or go on by itself.
        self._ending: EventObject | None = None

    def look(self) -> News | None:
        """What was waited for, if it has come."""
        batch = self._feed.look()
        self._last = batch[-1] if batch else self._last
        found = self._news(batch) if self._for_news else None
        self._looked = True
        if found:
            return News(str(found["event"]), self._feed.run, _seq(found), found)
        return None if self._feed.alive else self._ended()

    def given_up(self) -> News:
        return News("timeout", self._feed.run, self._feed.seq, {})

    def _news(self, batch: list[EventObject]) -> EventObject | None:
        fresh = batch if self._looked else self._since(batch)
        at_its_end = self._ending if not batch and self._feed.alive else None
        found = next(filter(_is_news, fresh), at_its_end)
        self._ending = next((row for row in fresh if row["event"] == "complete"), self._ending)
        return found

    def _since(self, events: list[EventObject]) -> list[EventObject]:
        """What of the past is new. Nothing, unless the loop waits for the person by now.

        Then nothing would come before they have answered. A number that is not there yet is one of
        another run.
        """
        if self._after is not None:
            after = self._after if self._after <= self._feed.seq else 0
            return [event for event in events if _seq(event) > after]
        if not self._feed.alive or views.phase(self._feed.run) not in FOR_THE_PERSON:
            return []
        asked = [event for event in events if event["event"] in ("complete", "waiting")]
        return asked[-1:]

    def _ended(self) -> News:
        ended = self._feed.run
        if ended.died:
            return News("died", ended, self._feed.seq, {}, DIED)
        return News("finished", ended, self._feed.seq, self._last, exit_code(ended))


def wait(
    run: Followed,
    seconds: float | None,
    *,
    for_news: bool = False,
    after: int | None = None,
    pause: Callable[[float], object] | None = None,
) -> News:
    """What was waited for, or after this time that it has not come."""
    clock, pause = run.repository.clock, pause or run.pause
    end = math.inf if seconds is None else clock.monotonic() + seconds
    with contextlib.closing(Feed(run)) as feed:
        waiting = Wait(feed, for_news=for_news, after=after)
        while not (news := waiting.look()):
            left = end - clock.monotonic()
            if left <= 0:
                return waiting.given_up()
            pause(left)
        return news


def _is_news(event: EventObject) -> bool:
    match event:
        case {"event": "checkpoint_saved" | "story_parked" | "waiting"}:
            return True
        case {"event": "error", "story_id": story}:
            return bool(story)
        case _:
            return False


def _seq(event: EventObject) -> int:
    found = event.get("seq", 0)
    return found if isinstance(found, int) else 0
