"""A run in the making: its ports to the world, and the one way to record what happens."""

from collections.abc import Callable

from msgspec import Struct

from untildone.app.announce import announce
from untildone.domain.reporting.event import Event
from untildone.domain.run import fact as f
from untildone.domain.run.machine import apply
from untildone.domain.run.run import Iteration, Origin, Run
from untildone.ports import (
    Agent,
    Checkpoint,
    CleanCheckout,
    Clock,
    Folder,
    Human,
    LearningsFile,
    Mail,
    Meter,
    ProtectedFiles,
    Record,
    StorySource,
    Verifier,
)


class Ports(Struct, frozen=True):
    """Everything the loop reaches the world through."""

    agent: Agent
    source: StorySource | None
    checkpoint: Checkpoint
    verifier: Verifier
    protected_files: ProtectedFiles
    clean_checkout: CleanCheckout
    meter: Meter
    mail: Mail
    human: Human
    record: Record
    folder: Folder
    clock: Clock
    cwd: str
    template: str = ""
    learnings: LearningsFile | None = None
    archive: Callable[[], str] | None = None


class RunDriver:
    """The current run and the only way to record facts."""

    def __init__(
        self, ports: Ports, run: Run, origin: Origin, remarks: tuple[str, ...] = ()
    ) -> None:
        self.ports = ports
        self.run = run
        self.origin = origin
        self.remarks = remarks
        self.has_called = False  # an agent, in this process

    def record(self, fact: f.Fact) -> None:
        """Fold a fact into the run and write it down before anything else happens."""
        at = self.ports.clock.now()
        before, self.run = self.run, apply(self.run, fact, at)
        self.ports.record.fact(fact, announce(before, fact, self.run), self.run, at)

    def tell(self, event: Event) -> None:
        """An event that changes nothing."""
        self.ports.record.notice(event, self.ports.clock.now())

    def hear(self) -> None:
        """Fold in what people and signals want; it is on disk before their messages go."""
        for request in self.ports.mail.take():
            self.record(request)
        self.ports.mail.recorded()

    def adopt(self) -> tuple[str, tuple[str, ...]]:
        """Back to the workspace of an earlier process, with what was edited there by hand."""
        return self.ports.checkpoint.adopt(self.run.lanes[0].checkpoint)

    def iteration(self, lane: int) -> Iteration:
        """The open iteration of this lane."""
        return self.run.open_iteration(lane)
