"""Runs that somebody looks at: one thread reads each of them, all clients get the same bytes."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from untildone.commands.look.feed import EventObject, Feed, Followed, live, recorded
from untildone.commands.run_account import Changes
from untildone.interfaces.web.stream import Client, event_messages, fan_out, message, number_of
from untildone.wiring.repository import Repository

LOOK_S = 0.05  # between two looks at the size of a journal
REST_S = 1.0  # between two looks at a run that nobody drives, or that says nothing
DRAW_S = 0.1  # between two drawings of a page, or longer if they take long
TICK_S = 10.0  # a page is drawn again though nothing has happened: time goes on
MOST_RECENT = 1000  # events of a run that are not read again for who comes now
MOST_IDLE = 6  # runs that stay open though nobody looks at them
MOST_RUNS = 100  # on the board

Parts = dict[str, str]
Tell = Callable[[Iterable[Client], bytes | None], None]


class Watched:
    """Something that clients look at, with a thread as long as there are any."""

    def __init__(self, tell: Tell, clock: Callable[[], float]) -> None:
        self.lock = threading.RLock()
        self.clients: set[Client] = set()
        self.parts: Parts = {}
        self.broken = False
        self._tell, self._clock = tell, clock
        self._thread: threading.Thread | None = None
        self._stale = True
        self._drawn = self._draw_at = 0.0

    def join(self, client: Client) -> tuple[int, Parts]:
        """From now on the client gets what is new; what there is already is returned."""
        with self.lock:
            self.look()
            self._draw()
            self.clients.add(client)
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, daemon=True)
                self._thread.start()
            return self.seq, dict(self.parts)

    def drawn(self) -> tuple[int, Parts]:
        """The number of the last event, and the page as it is then."""
        with self.lock:
            self.look()
            if self._stale or self._clock() >= self._drawn + REST_S:
                self._draw()
            return self.seq, dict(self.parts)

    def leave(self, client: Client) -> None:
        with self.lock:
            self.clients.discard(client)

    def end(self) -> None:
        """All streams end; their clients may come back."""
        with self.lock:
            self._tell(tuple(self.clients), None)
            self.clients.clear()

    @property
    def seq(self) -> int:
        return 0

    def look(self) -> None:
        """Take in what is new."""
        raise NotImplementedError

    def _grown(self) -> bool:
        raise NotImplementedError

    def _drawing(self) -> Parts:
        raise NotImplementedError

    def _draw(self) -> None:
        """Make the parts of the page again; pages get those that differ."""
        began = self._clock()
        parts = self._drawing()
        changed = {name: text for name, text in parts.items() if self.parts.get(name) != text}
        self.parts, self._stale, self._drawn = parts, False, began
        # However long it takes: the machine belongs to the loop.
        self._draw_at = began + max(DRAW_S, 5 * (self._clock() - began))
        if changed:
            pages = tuple(client for client in self.clients if client.page)
            self._tell(pages, message({"parts": changed}))

    def _follow(self) -> None:
        pause, next_look = threading.Event(), 0.0
        try:
            while True:
                with self.lock:
                    if not self.clients:
                        self._thread = None
                        return
                    now = self._clock()
                    if self._grown() or now >= next_look:
                        self.look()
                        next_look = now + REST_S
                    due = self._stale and now >= self._draw_at
                    if due or now >= self._drawn + TICK_S:
                        self._draw()
                pause.wait(LOOK_S)
        finally:
            if self._thread:
                self.broken = True
                self.end()


class Watch(Watched):
    """One run."""

    def __init__(
        self,
        source: Followed,
        tell: Tell,
        parts: Callable[["Watch"], Parts],
        lines: Callable[[Iterable[EventObject]], str],
    ) -> None:
        super().__init__(tell, source.repository.clock.monotonic)
        self.source = source
        self.feed = Feed(source)
        self._home = source.home
        self._changes = Changes(self._home)
        self._parts, self._lines = parts, lines
        self._size = -1
        self._recent: deque[EventObject] = deque(maxlen=MOST_RECENT)

    @property
    def seq(self) -> int:
        return self.feed.seq

    @property
    def changes(self) -> Changes:
        """What its calls changed, as the worktree has it that the run belongs to by now."""
        home = self.source.home
        if home is not self._home:
            self._home, self._changes = home, Changes(home)
        return self._changes

    def look(self) -> None:
        with self.lock:
            self._size, alive = self._journal_size(), self.feed.alive
            events = self.feed.look()
            self._recent.extend(events)
            self._stale = self._stale or bool(events) or self.feed.alive != alive
            if events and self.clients:
                self._publish(events)

    def events(self, after: int, until: int) -> Iterable[EventObject]:
        """Those between two numbers, the last one included; nearly always without the journal."""
        with self.lock:
            recent = list(self._recent)
        if not recent or number_of(recent[0]) > after + 1:
            return self.source.events(after, until)
        return [row for row in recent if after < number_of(row) <= until]

    def _publish(self, events: list[EventObject]) -> None:
        scripts = tuple(client for client in self.clients if not client.page)
        if scripts:
            self._tell(scripts, event_messages(events))
        if len(scripts) < len(self.clients):
            pages = tuple(client for client in self.clients if client.page)
            self._tell(pages, message({"log": self._lines(events)}, self.seq))

    def close(self) -> None:
        self.feed.close()

    def _grown(self) -> bool:
        return self._size != self._journal_size()

    def _journal_size(self) -> int:
        with contextlib.suppress(OSError):
            return self.source.folder.journal.stat().st_size
        return -1

    def _drawing(self) -> Parts:
        return self._parts(self)


class Board(Watched):
    """The newest runs of all repositories."""

    def __init__(
        self,
        repositories: list[Repository],
        tell: Tell,
        summary: Callable[[Feed], Mapping[str, object]],
        parts: Callable[["Board"], Parts],
    ) -> None:
        super().__init__(tell, repositories[0].clock.monotonic)
        self.rows: list[Mapping[str, object]] = []
        self.more = 0
        self._repositories, self._summary, self._parts = repositories, summary, parts
        self._runs: list[Followed] = []
        self._listed = -REST_S
        self._seen: dict[str, tuple[object, Mapping[str, object]]] = {}
        self._open: dict[str, Feed] = {}

    def runs(self, *, anew: bool = False) -> list[Followed]:
        """All of them, newest first; a new one is there within a second."""
        with self.lock:
            now = self._clock()
            if anew or now >= self._listed + REST_S:
                self._runs, self._listed = recorded(self._repositories), now
            return self._runs

    def look(self) -> None:
        with self.lock:
            runs = self.runs()
            shown, self.more = runs[:MOST_RUNS], max(0, len(runs) - MOST_RUNS)
            driven = live(shown)
            rows = [row for run in shown if (row := self._row(run, run.run_id in driven))]
            self._stale = self._stale or rows != self.rows
            self.rows = rows

    def _row(self, run: Followed, alive: bool) -> Mapping[str, object] | None:  # noqa: FBT001
        stamp = alive, _size(run.folder.journal)
        seen = self._seen.get(run.run_id)
        if seen and seen[0] == stamp:
            return seen[1]
        try:
            feed = self._open.get(run.run_id) or Feed(run)
            self._open[run.run_id] = feed
            feed.look()
            row = self._summary(feed)
        except Exception:  # noqa: BLE001 - one that cannot be read must not hide the others
            self._close(run.run_id)
            return None
        if not feed.alive:
            self._close(run.run_id)
        self._seen[run.run_id] = stamp, row
        return row

    def _close(self, run_id: str) -> None:
        if feed := self._open.pop(run_id, None):
            feed.close()

    def _grown(self) -> bool:
        """Live runs are looked at more often than whether there are others."""
        return any(self._seen[name][0] != (True, _size_of(feed)) for name, feed in self._open_now())

    def _open_now(self) -> list[tuple[str, Feed]]:
        return [(name, feed) for name, feed in self._open.items() if name in self._seen]

    def _drawing(self) -> Parts:
        return self._parts(self)


class Hub:
    """The board, and the runs that are looked at."""

    def __init__(
        self,
        repositories: list[Repository],
        make: Callable[[Followed, Tell], Watch],
        make_board: Callable[[list[Repository], Tell], Board],
    ) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._make = make
        self._watches: dict[str, Watch] = {}
        self._lock = threading.Lock()
        self.board = make_board(repositories, self._tell)

    def start(self) -> None:
        """In the event loop that serves the clients."""
        self._loop = asyncio.get_running_loop()

    def end(self) -> None:
        """All streams end."""
        for watched in (self.board, *self._watches.values()):
            watched.end()

    def find(self, run_id: str) -> Followed | None:
        for anew in (False, True):
            for run in self.board.runs(anew=anew):
                if run.run_id == run_id:
                    return run
        return None

    def watch(self, run_id: str) -> Watch | None:
        """The run with this id, up to date; None if there is none."""
        source = self.find(run_id)
        with self._lock:
            watch = self._watches.pop(run_id, None)
            if watch and (watch.broken or source is None):
                with watch.lock:
                    watch.end()
                    watch.close()
                watch = None
            if source is None:
                return None
            # The last one is the one that was asked for last.
            watch = self._watches[run_id] = watch or self._make(source, self._tell)
            self._forget()
        watch.look()
        return watch

    def _forget(self) -> None:
        idle = [name for name, watch in self._watches.items() if not watch.clients]
        for name in idle[:-MOST_IDLE]:
            with self._watches[name].lock:
                self._watches.pop(name).close()

    def _tell(self, clients: Iterable[Client], data: bytes | None) -> None:
        """From any thread."""
        if clients and self._loop and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(fan_out, clients, data)


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return -1


def _size_of(feed: Feed) -> int:
    return _size(feed.source.folder.journal)
