"""Requests that a test drops in."""

from queue import SimpleQueue
from threading import Event

from untildone.domain.run.fact import Fact, StopRequested
from untildone.domain.run.run import StopHow
from untildone.ports import Report


class FakeMail:
    """Holds requests until they are taken."""

    def __init__(self, *pending: Fact) -> None:
        self.pending = list(pending)
        self.on_disk = False
        self._reports: SimpleQueue[Report] = SimpleQueue()
        self._came = Event()

    def report(self, report: Report) -> None:
        self._reports.put(report)
        self._came.set()

    def wait(self) -> None:
        """Until a lane has reported something."""
        assert self.pending or self._came.wait(10), "no lane reports anything"

    def reports(self) -> tuple[Report, ...]:
        self._came.clear()
        return tuple(self._reports.get() for _ in range(self._reports.qsize()))

    def drop(self, fact: Fact) -> None:
        self.pending.append(fact)

    def take(self) -> tuple[Fact, ...]:
        taken, self.pending = tuple(self.pending), []
        return taken

    def recorded(self) -> None:
        self.on_disk = True

    def stop_now(self) -> bool:
        return any(
            isinstance(fact, StopRequested) and fact.stop.how is StopHow.NOW
            for fact in self.pending
        )
