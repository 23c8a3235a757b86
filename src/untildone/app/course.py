"""What the loop reaches the world through, and how it tells what happens."""

from collections.abc import Callable

from msgspec import Struct

from untildone.domain.reporting.announce import announce
from untildone.domain.reporting.event import Event
from untildone.domain.run import fact as f
from untildone.domain.run.machine import apply
from untildone.domain.run.run import Iteration, Lane, Run
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


class Course:
    """A run in motion: where it stands, and the one way to take it further."""

    def __init__(self, ports: Ports, run: Run) -> None:
        self.ports = ports
        self.run = run

    def record(self, fact: f.Fact) -> None:
        """Fold a fact into the run and write it down before anything else happens."""
        at = self.ports.clock.now()
        before, self.run = self.run, apply(self.run, fact, at)
        self.ports.record.fact(fact, announce(before, fact, self.run), self.run, at)

    def tell(self, event: Event) -> None:
        """An event that changes nothing."""
        self.ports.record.notice(event, self.ports.clock.now())

    def iteration(self, lane: int) -> Iteration:
        """The open iteration of this lane."""
        return open_iteration(self.run.lanes[lane])


def open_iteration(lane: Lane) -> Iteration:
    """The iteration of a lane that has one."""
    assert lane.iteration is not None
    return lane.iteration
