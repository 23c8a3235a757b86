"""What windows show of a run: its journal from the start, then what is new, live or ended."""

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from msgspec import Struct

from untildone.adapters.git.own_worktree import user_of
from untildone.adapters.git.place import Place
from untildone.adapters.git.repository import STATE_FILE
from untildone.adapters.records import codec
from untildone.adapters.records import journal as journals
from untildone.adapters.records.inbox import POLL_S
from untildone.adapters.records.run_folder import RunFolder, change_of, run_ids
from untildone.app.recovery import replay
from untildone.domain.errors import UserError
from untildone.domain.reporting import views
from untildone.domain.reporting.account import Account, Ledger
from untildone.domain.reporting.event import Event
from untildone.domain.run import fact as f
from untildone.domain.run.machine import apply, begin
from untildone.domain.run.run import Run
from untildone.domain.secrets import redactor
from untildone.wiring.repository import Repository, at, here, no_run, read_state
from untildone.wiring.worktrees import others, top_of, user_place, worktree_running

EventObject = dict[str, object]
Pause = Callable[[], object]

LOOK_S = POLL_S / 4
# A loop writes its state file right after the first line of its journal.
START_S = 2.0


class Followed(Struct, frozen=True):
    """A run that is looked at; `user` is where its record goes if its own worktree is removed."""

    repository: Repository
    run_id: str
    user: Repository | None = None

    @property
    def folder(self) -> RunFolder:
        """Its folder, wherever that is by now."""
        return self.home.folder(self.run_id)

    @property
    def home(self) -> Repository:
        """Whose record it is in by now."""
        moved = self.user and self.user.folder(self.run_id).journal.exists()
        return self.user if self.user and moved else self.repository

    @property
    def change(self) -> str:
        """The name of its change; empty if its record is broken."""
        return change_of(self.home.home, self.run_id)

    def alive(self) -> bool:
        """Whether a loop drives this very run now."""
        return _driven(self.repository) == self.run_id

    def tail(self) -> journals.Tail:
        """Its journal, opened: from now on it can be moved or removed."""
        for _ in range(2):  # it may be moved between two looks
            with contextlib.suppress(FileNotFoundError):
                return journals.Tail(self.folder.journal)
        raise _removed()

    def batches(self, pause: Pause) -> Iterator[list[EventObject]]:
        """All events so far, then those that are new at each look; over when the loop is gone."""
        with contextlib.closing(self.tail()) as tail:
            while True:
                alive = self.alive()  # before the look: what comes last is not missed
                yield tail.events()
                if not alive:
                    return
                pause()

    def events(self, after: int, until: int) -> Iterator[EventObject]:
        """Those between two numbers, the last one included, as the journal has them.

        Secrets are redacted.
        """
        with contextlib.closing(self.tail()) as tail:
            for row in tail.rows(redactor(os.environ)):
                number = row.get("seq") if "event" in row else None
                if isinstance(number, int) and after < number <= until:
                    yield row

    def pause(self, seconds: float = LOOK_S, also: Sequence[int] = ()) -> tuple[int, ...]:
        """Until the next look, or until one of the descriptors is readable."""
        return self.repository.inbox.wake.wait(min(seconds, LOOK_S), also)

    def events_of(self, n: int, most: int) -> list[EventObject]:
        """The last events of one call, secrets redacted."""
        found: deque[EventObject] = deque(maxlen=most)
        current: dict[object, object] = {}
        with contextlib.closing(self.tail()) as tail:
            for event in tail.rows(redactor(os.environ)):
                if "event" not in event:
                    continue
                lane = event.get("lane", 0)
                if event["event"] == "iteration_started":
                    current[lane] = event["n"]
                if current.get(lane) == n:
                    found.append(event)
        return list(found)

    def prompt(self, n: int) -> str:
        """What the agent was told in one call, secrets redacted; empty if that is not kept."""
        return redactor(os.environ)(self.folder.prompt(n)).decode(errors="replace")

    def run(self) -> Run:
        """The run as its journal has it now; without a loop as that has left it."""
        home = self.home
        run = home.replay(self.run_id)
        if run is None:
            raise _removed()
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
    raise _several(str(state.get("change_id")) for state in states)


def _several(names: Iterable[str]) -> UserError:
    return UserError(
        f"Which run is meant? Several are live: {', '.join(sorted(names))}",
        state="Nothing was changed.",
        hint="Name the change; `untildone status` shows them all",
    )


class Feed:
    """A run that is looked at again and again; each look costs only what is new.

    Whoever comes late, or to a run that has ended, sees the same as one who was there from the
    start. Secrets are redacted.
    """

    def __init__(self, source: Followed) -> None:
        self.source = source
        self.alive = source.alive()
        self.seq = 0  # of the last event
        self._hide = redactor(os.environ)
        self._tail = source.tail()
        self._facts = 0
        self._heard: dict[int, datetime] = {}
        self._last = datetime.fromtimestamp(0, UTC)
        self._run: Run | None = None
        self._ledger: Ledger | None = None

    def look(self) -> list[EventObject]:
        """The events since the last look; afterwards `run` is up to date."""
        self.alive = self.source.alive()  # before the look: what comes last is not missed
        found = []
        for row in self._tail.rows(self._hide):
            moment = _moment(row)
            number = row.get("seq")
            if moment is None:
                continue
            self._last = moment
            if "event" not in row:
                self._told(journals.fact_of(row), moment)
            elif isinstance(number, int) and number > self.seq:
                self.seq = number
                lane = row.get("lane", 0)
                self._heard[lane if isinstance(lane, int) else 0] = moment
                if self._ledger:
                    self._ledger.add(Event(str(row["event"]), row), moment)
                found.append(row)
        return found

    @property
    def run(self) -> Run:
        """The run as it was at the last look; without a loop as that has left it."""
        if self._run is None:
            raise UserError("The record of this run is empty", hint="untildone status")
        return self._run if self.alive else views.left_behind(self._run, self._last_sign(self._run))

    def account(self) -> Account:
        """Its calls, stories, pauses and remarks as at the last look."""
        run = self.run
        return self._ledger.account(run) if self._ledger else Ledger(run.started_at).account(run)

    def signs(self) -> dict[int, datetime]:
        """When the call of each lane last wrote anything, to its log or to the journal."""
        found = {}
        for lane in self.run.lanes:
            if lane.iteration:
                moments = [lane.iteration.started, self._heard.get(lane.id)]
                log = Path(lane.iteration.log_file)
                if log.is_file():
                    moments.append(datetime.fromtimestamp(log.stat().st_mtime, UTC))
                found[lane.id] = max(moment for moment in moments if moment)
        return found

    def state(self) -> EventObject:
        """The run as `status --json` shows it, whether its state file tells of it or not."""
        run, top = self.run, self.source.repository.place.top
        shown = read_state(top / STATE_FILE) or {}
        pid = shown.get("pid") if self.alive and shown.get("run_id") == run.plan.run_id else 0
        last_sign = self._last_sign(run)
        state = views.state(run, pid if isinstance(pid, int) else 0, None) | {
            "iterations": [views.entry(iteration) for iteration in run.iterations],
            "worktree": os.fspath(top),
            "alive": self.alive,
            "last_sign": last_sign.isoformat(timespec="milliseconds"),
        }
        return {name: codec.encode(value) for name, value in state.items()}

    def close(self) -> None:
        self._tail.close()

    def _last_sign(self, run: Run) -> datetime:
        with contextlib.suppress(FileNotFoundError):
            return self.source.home.last_sign(run)
        return self._last  # its record was removed since

    def _told(self, fact: f.Fact | None, moment: datetime) -> None:
        if fact is None:
            return
        self._facts += 1
        if isinstance(fact, f.Started):
            self._run, self._ledger = begin(fact, moment), Ledger(moment)
        elif isinstance(fact, f.TakenBack):
            # An undo between two loops, and rare: what was is known by reading all of it again.
            told = journals.facts_and_events(self.source.folder.journal, (), self._hide)
            facts = ((fact, at) for fact, at in told if not isinstance(fact, Event))
            self._run = replay(islice(facts, self._facts))
        elif self._run:
            self._run = apply(self._run, fact, moment)
        if self._ledger:
            self._ledger.add(fact, moment)


def live(runs: Iterable[Followed]) -> frozenset[str]:
    """The ids of those that a loop drives now; each worktree is looked at once."""
    places = {run.repository.place.git_dir: run.repository for run in runs}
    return frozenset(map(_driven, places.values())) - {""}


def _driven(repository: Repository) -> str:
    """The id of the run that a loop drives in this worktree; empty if there is none."""
    return _run_id(repository.place.top / STATE_FILE) if repository.alive() else ""


# A state file is replaced, never changed, and that of a long run takes time to read.
_RUN_IDS: dict[Path, tuple[tuple[int, int], str]] = {}


def _run_id(path: Path) -> str:
    """The run that a state file tells of."""
    try:
        found = path.stat()
    except OSError:
        return ""
    stamp = found.st_mtime_ns, found.st_ino
    known = _RUN_IDS.get(path)
    if known is None or known[0] != stamp:
        shown = read_state(path) or {}
        known = _RUN_IDS[path] = stamp, str(shown.get("run_id", ""))
    return known[1]


def _moment(row: EventObject) -> datetime | None:
    """When it was written; None in a line that is none of ours."""
    try:
        return datetime.fromisoformat(str(row.get("at")))
    except ValueError:
        return None


def _removed() -> UserError:
    return UserError("The record of this run was removed", hint="untildone status")


def recorded(repositories: Iterable[Repository]) -> list[Followed]:
    """All runs of these repositories in all their worktrees, newest first."""
    found: dict[str, Followed] = {}
    for repository in repositories:
        places = {place.place.top: place for place in _worktrees(repository)}
        for place in places.values():
            user = user_of(place.place)
            for run_id in run_ids(place.home):
                home = places.get(user) if user else None
                found.setdefault(run_id, Followed(place, run_id, home))
    return [found[run_id] for run_id in sorted(found, reverse=True)]


def the_run(runs: Sequence[Followed], name: str) -> Followed:
    """The run with this id, or the newest of this change; without a name the only live one.

    Where none is live, the newest of all.
    """
    named = [run for run in runs if name in ("", run.run_id) or run.change == name]
    driven = live(named)
    going = [run for run in named if run.run_id in driven]
    if len(going) > 1:
        raise _several(run.change if not name else run.run_id for run in going)
    if not named:
        raise _none(runs, name)
    return (going or named)[0]


def _none(runs: Sequence[Followed], name: str) -> UserError:
    known = sorted({run.change for run in runs} - {""})
    return UserError(
        f"There is no run of this change: {name}" if name else "There is no run yet",
        hint=f"Runs here: {', '.join(known)}" if known else "untildone run",
    )


def _worktrees(repository: Repository) -> Iterator[Repository]:
    own, wake = repository.place, repository.inbox.wake
    yield repository
    places = [Place(top_of(path), path, own.common_dir) for path in _linked(own)]
    main = own.common_dir.parent
    if main / ".git" == own.common_dir:
        places.append(Place(main, own.common_dir, own.common_dir))
    for place in places:
        if place.git_dir != own.git_dir:
            yield at(place, wake)


def _linked(place: Place) -> list[Path]:
    return sorted((place.common_dir / "worktrees").glob("*/"))
