"""One look at a run, and the thread that takes look after look."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from untildone.commands.look.feed import Feed, Followed
from untildone.domain.errors import UserError
from untildone.domain.reporting import views
from untildone.domain.reporting.account import Account, StoryAccount
from untildone.domain.run.run import Iteration, Run
from untildone.domain.stories.parking import Parked
from untildone.domain.stories.story import StoryKey
from untildone.interfaces.tui.lines import MOST_ENTRIES

EventObject = Mapping[str, object]
New = dict[int, list[EventObject]]  # events by the number of the call
# Much less than anybody notices.
LOOK_S = 0.1
GONE = "The record of this run was removed"
CHECKS = ("verify_started", "verify_ended")


class Look(Struct, frozen=True):
    """A run at one moment; `state` is as `status --json` has it, `events` are the new ones."""

    source: Followed
    run: Run
    account: Account
    state: dict[str, object]
    alive: bool
    signs: dict[int, datetime]
    events: list[dict[str, object]]

    @property
    def change(self) -> str:
        return self.run.plan.change_id

    @property
    def loop(self) -> dict[str, object]:
        """The state as the status page has it."""
        return self.state | {"alive": self.alive}

    @property
    def phase(self) -> str:
        return str(self.state["phase"])

    def parked(self, story: StoryAccount) -> Parked | None:
        return self.run.parked.get(key_of(story))

    def at_work(self, story: StoryAccount) -> tuple[int, Iteration] | None:
        """The lane that works on a story, and its call."""
        key = key_of(story)
        for lane in self.run.lanes:
            if lane.iteration and lane.iteration.story_key == key:
                return lane.id, lane.iteration
        return None

    def story(self, key: StoryKey | None) -> StoryAccount | None:
        return next((story for story in self.account.stories if key_of(story) == key), None)

    @property
    def open_calls(self) -> dict[int, int]:
        """The number of the call of each lane that is at work."""
        return {lane.id: lane.iteration.n for lane in self.run.lanes if lane.iteration}


def key_of(story: StoryAccount) -> StoryKey:
    return story.id, story.title


class Reader(threading.Thread):
    """Takes looks at a run until it is closed; `tell` hears of each that shows something new.

    It is a daemon: a disk that hangs does not keep the window open.
    """

    def __init__(
        self,
        source: Followed,
        tell: Callable[[Look], object],
        lost: Callable[[str], object],
    ) -> None:
        super().__init__(name="untildone-reader", daemon=True)
        self._source, self._tell, self._lost = source, tell, lost
        self._over = threading.Event()

    def close(self) -> None:
        self._over.set()

    def run(self) -> None:
        """The thread's work."""
        try:
            feed = Feed(self._source)
            try:
                self._look_again_and_again(feed)
            finally:
                feed.close()
        except UserError as error:
            self._lose(error.message)
        except OSError:
            self._lose(GONE)

    def _lose(self, why: str) -> None:
        if not self._over.is_set():
            self._lost(why)

    def _look_again_and_again(self, feed: Feed) -> None:
        last: Look | None = None
        while not self._over.is_set():
            look = self._next(feed, last)
            if look and not self._over.is_set():
                last = look
                self._tell(look)
            self._over.wait(LOOK_S)

    def _next(self, feed: Feed, last: Look | None) -> Look | None:
        """What is known now; None if that is nothing new. What is costly is not done again."""
        events = feed.look()
        run, alive = feed.run, feed.alive
        same = last is not None and last.run == run
        if last and same and not events and alive == last.alive:
            return _with_signs(last, feed.signs() if alive else last.signs)
        known = last if same else None
        checked = any(event["event"] in CHECKS for event in events)
        account = known.account if known and not checked else feed.account()
        state = known.state if known else views.state(run, 0, None)
        return Look(self._source, run, account, state, alive, feed.signs(), events)


def _with_signs(look: Look, signs: dict[int, datetime]) -> Look | None:
    """An agent's output may go on without an event."""
    return None if signs == look.signs else replace(look, signs=signs, events=[])


class Heard:
    """What the agents said and did in the calls that are open: no more than anybody reads."""

    def __init__(self) -> None:
        self._current: dict[object, int] = {}
        self._calls: dict[int, deque[EventObject]] = {}

    def add(self, events: Iterable[EventObject]) -> New:
        """What is new, by the number of the call."""
        new: New = {}
        for event in events:
            lane = event.get("lane", 0)
            if event["event"] == "iteration_started":
                self._calls.pop(self._current.get(lane, 0), None)
                self._current[lane] = n = int(str(event["n"]))
                self._calls[n] = deque(maxlen=MOST_ENTRIES)
            if n := self._current.get(lane, 0):
                self._calls[n].append(event)
                new.setdefault(n, []).append(event)
        return new

    def of(self, n: int) -> list[EventObject] | None:
        """All of a call that is known from its start; None of an earlier one."""
        found = self._calls.get(n)
        return None if found is None else list(found)
