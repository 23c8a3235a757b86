"""A run in the making: its ports to the world, and the one way to record what happens."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict, replace

from untildone.app.announce import announce
from untildone.domain.reporting.event import Event, warning
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.machine import apply
from untildone.domain.run.run import Iteration, Origin, Run
from untildone.ports import (
    Agent,
    Checkpoint,
    CleanCheckout,
    Clock,
    Folder,
    Human,
    LanePorts,
    Lanes,
    LearningsFile,
    Mail,
    Meter,
    PlanFiles,
    Predicted,
    ProtectedFiles,
    Record,
    RunBranch,
    StorySource,
    Verifier,
)

if TYPE_CHECKING:
    from datetime import datetime
    from threading import Thread

    from untildone.domain.stories.story import StoryBook

# Between two calls the loop itself takes a fraction of this; a wait for a limit takes hours.
TIME_TO_EDIT_S = 1.0


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
    plan_files: PlanFiles | None = None
    lanes: Lanes | None = None
    branch: RunBranch | None = None
    predicted: Predicted | None = None


class FinishedWork(Struct, frozen=True):
    """A story's finished work: the commit that holds it, and what is known of its content."""

    commit: str
    saved: f.Saved


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
        self.told: set[str] = set()  # what need not be said twice
        self.stories: StoryBook | None = None  # as their source has them, by the last look
        self.edited = False  # the workspace, by us or by hand, since it was last at its checkpoint
        self.begun: dict[int, tuple[s.Work, Thread]] = {}  # by lane: what its thread is at
        self.storing: set[int] = set()  # lanes whose thread stores what will land later
        self.finished: dict[int, FinishedWork | None] = {}  # what they have stored, by its ticket
        self.book: StoryBook | None = None  # the last one, also while it is to be read again
        self._settled: datetime | None = None

    def record(self, fact: f.Fact) -> None:
        """Fold a fact into the run and write it down before anything else happens."""
        at = self.ports.clock.now()
        before, self.run = self.run, apply(self.run, fact, at)
        self.book = self.run.book or self.book
        if isinstance(fact, f.Opened | f.Saved | f.Landed | f.Reverted | f.Adopted):
            self._settled = at
        self.ports.record.fact(fact, announce(before, fact, self.run), self.run, at)

    @property
    def lanes(self) -> Lanes | None:
        """Where steps of lanes are performed; a single one works where the run does."""
        return self.ports.lanes if len(self.run.lanes) > 1 else None

    def use(self, own: LanePorts) -> None:
        """From here on the world is that of a lane."""
        self.ports = replace(self.ports, **asdict(own))

    def tell(self, event: Event) -> None:
        """An event that changes nothing."""
        self.ports.record.notice(event, self.ports.clock.now())

    def warn_once(self, text: str) -> None:
        """A warning, unless this process has said it already."""
        if text not in self.told:
            self.told.add(text)
            self.tell(warning(text))

    def hear(self) -> None:
        """Fold in what people and signals want; it is on disk before their messages go."""
        for request in self.ports.mail.take():
            self.record(request)
            self.edited |= isinstance(request, f.StoryAdded)
        self.ports.mail.recorded()

    def adopt(self) -> tuple[str, tuple[str, ...]]:
        """Back to the workspace of an earlier process, with what was edited there by hand."""
        return self.ports.checkpoint.adopt(self.run.tip)

    def keep_edits(self, lane: int) -> None:
        """Make what was edited while no agent ran a checkpoint of its own, before the next starts.

        Looked for only if there was time to edit anything: it costs more than a story's own steps.
        """
        now = self.ports.clock.now()
        idle = self._settled is not None and (now - self._settled).total_seconds() > TIME_TO_EDIT_S
        if self.run.plan.plain or not (idle or self.edited):
            return
        was = self.run.tip
        checkpoint, remarks = self.ports.checkpoint.keep_edits(was)
        self.edited = False
        if checkpoint != was or remarks:
            self.record(f.Adopted(lane, checkpoint, remarks))

    def iteration(self, lane: int) -> Iteration:
        """The open iteration of this lane."""
        return self.run.open_iteration(lane)
