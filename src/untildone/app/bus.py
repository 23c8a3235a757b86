"""Fan-out of events to windows: a slow or dead window never holds up the loop."""

import atexit
import queue
import threading
from collections.abc import Callable

EventObject = dict[str, object]
Observer = Callable[[EventObject], None]
Heartbeat = Callable[[], None]

QUEUE_SIZE = 2000
HEARTBEAT_S = 60.0
FLUSH_S = 2.0
NOTICES = ("agent_text", "agent_tool")


class Bus:
    """Each observer has its own thread and a bounded queue; only notices are ever dropped."""

    def __init__(self) -> None:
        self._windows: list[_Window] = []

    def subscribe(
        self, observer: Observer, heartbeat: Heartbeat | None = None, flush_s: float = FLUSH_S
    ) -> None:
        """Add a window; `heartbeat` is called whenever nothing happened for a while.

        At the end it has `flush_s` to show what it was given.
        """
        if not self._windows:
            # However the command ends: Python dies of a thread that still writes at its end.
            atexit.register(self.flush)
        self._windows.append(_Window(observer, heartbeat, flush_s))

    def publish(self, event: EventObject) -> None:
        for window in self._windows:
            window.put(event)

    def flush(self) -> None:
        """Wait, for a bounded time, until every window has shown what it was given."""
        marks = [(window, window.mark()) for window in self._windows]  # they work side by side
        for window, mark in marks:
            window.flush(mark)


class _Window:
    def __init__(self, observer: Observer, heartbeat: Heartbeat | None, flush_s: float) -> None:
        self._flush_s = flush_s
        self._observer = observer
        self._heartbeat = heartbeat
        self._patience = HEARTBEAT_S if heartbeat else None
        self._queue: queue.SimpleQueue[EventObject | threading.Event] = queue.SimpleQueue()
        self._dead = False
        threading.Thread(target=self._show, daemon=True).start()

    def put(self, event: EventObject) -> None:
        crowded = self._queue.qsize() >= QUEUE_SIZE
        if not self._dead and not (crowded and event["event"] in NOTICES):
            self._queue.put(event)

    def mark(self) -> threading.Event:
        shown = threading.Event()
        self._queue.put(shown)
        return shown

    def flush(self, mark: threading.Event) -> None:
        if not mark.wait(self._flush_s):
            self._flush_s = 0.0  # it had its time

    def _show(self) -> None:
        while True:
            try:
                item = self._queue.get(timeout=self._patience)
            except queue.Empty:
                item = None
            if isinstance(item, threading.Event):
                item.set()
            elif not self._dead:
                self._show_one(item)

    def _show_one(self, item: EventObject | None) -> None:
        try:
            if item is not None:
                self._observer(item)
            else:
                assert self._heartbeat is not None
                self._heartbeat()
        except (OSError, ValueError):
            self._dead = True  # the window's terminal or pipe is gone; the loop goes on
