"""Requests that a test drops in."""

from untildone.domain.run.fact import Fact, StopRequested
from untildone.domain.run.run import StopHow


class FakeMail:
    """Holds requests until they are taken."""

    def __init__(self, *pending: Fact) -> None:
        self.pending = list(pending)
        self.on_disk = False

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
