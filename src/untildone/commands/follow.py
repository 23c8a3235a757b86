"""Following a run from another process: its events as they come, until its loop is gone."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from untildone.adapters.git.repository import STATE_FILE
from untildone.adapters.records import journal as journals
from untildone.adapters.records.inbox import POLL_S
from untildone.adapters.records.run_folder import RunFolder
from untildone.commands.run_ending import exit_code
from untildone.domain.errors import UserError
from untildone.domain.reporting import views
from untildone.domain.run.run import Run
from untildone.wiring.repository import Repository, at, here, no_run, read_state
from untildone.wiring.worktrees import others, user_place, worktree_running

EventObject = dict[str, object]
Pause = Callable[[], object]

LOOK_S = POLL_S / 4
# A loop writes its state file right after the first line of its journal.
START_S = 2.0
DIED = 1
# Phases in which nothing goes on before the person has said something.
FOR_THE_PERSON = ("awaiting_choice", "awaiting_decision", "awaiting_person", "waiting_budget")


class Followed(Struct, frozen=True):
    """A run that is looked at; `user` is where its record goes if its own worktree is removed."""

    repository: Repository
    run_id: str
    user: Repository | None = None

    @property
    def folder(self) -> RunFolder:
        return self.repository.folder(self.run_id)

    def alive(self) -> bool:
        """Whether a loop drives this very run now."""
        shown = read_state(self.repository.place.top / STATE_FILE) or {}
        return shown.get("run_id") == self.run_id and self.repository.alive()

    def batches(self, pause: Pause) -> Iterator[list[EventObject]]:
        """All events so far, then those that are new at each look; over when the loop is gone."""
        with contextlib.closing(journals.Tail(self.folder.journal)) as tail:
            while True:
                alive = self.alive()  # before the look: what comes last is not missed
                yield tail.events()
                if not alive:
                    return
                pause()

    def pause(self, seconds: float = LOOK_S, also: Sequence[int] = ()) -> tuple[int, ...]:
        """Until the next look, or until one of the descriptors is readable."""
        return self.repository.inbox.wake.wait(min(seconds, LOOK_S), also)

    def run(self) -> Run:
        """The run as its journal has it now; without a loop as that has left it."""
        run = self.repository.replay(self.run_id)
        home = self.repository if run or not self.user else self.user
        run = run or home.replay(self.run_id)
        if run is None:
            raise UserError("The record of this run was removed", hint="untildone status")
        return run if self.alive() else views.left_behind(run, home.last_sign(run))


def followed(change: str) -> Followed:
    """The newest run of a change; without one the only live run, or the newest of all."""
    repo = here()
    found = worktree_running(repo, change) if change else _only_live(repo)
    run_id = found.newest(change)
    if not run_id:
        raise no_run(found, change)
    user = user_place(found.place)
    run = Followed(found, run_id, at(user) if user else None)
    end = found.clock.monotonic() + START_S
    while found.alive() and not run.alive() and found.clock.monotonic() < end:
        run.pause()
    return run


def _only_live(repo: Repository) -> Repository:
    live = [place for place in (repo, *others(repo)) if place.alive()]
    if len(live) < 2:
        return live[0] if live else worktree_running(repo, "")
    states = (read_state(place.place.top / STATE_FILE) or {} for place in live)
    names = sorted(str(state.get("change_id")) for state in states)
    raise UserError(
        f"Which run is meant? Several are live: {', '.join(names)}",
        state="Nothing was changed.",
        hint="Name the change; `untildone status` shows them all",
    )


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
