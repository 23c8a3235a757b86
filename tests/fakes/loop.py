"""A whole loop of fakes, driven by the real orchestrator."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.fakes.agent import FakeAgent, Reply
from tests.fakes.checkpoint import FakeCheckpoint
from tests.fakes.clean_checkout import FakeCleanCheckout
from tests.fakes.clock import FakeClock
from tests.fakes.folder import FakeFolder
from tests.fakes.human import FakeHuman
from tests.fakes.lanes import FakeLanes
from tests.fakes.learnings_file import FakeLearningsFile
from tests.fakes.mail import FakeMail
from tests.fakes.meter import FakeMeter
from tests.fakes.plan_files import FakePlanFiles
from tests.fakes.plans import ORIGIN, PLAN
from tests.fakes.protected_files import FakeProtectedFiles
from tests.fakes.record import FakeRecord
from tests.fakes.source import FakeSource
from tests.fakes.verifier import FakeVerifier
from untildone.app.orchestrator import drive
from untildone.app.run_driver import Ports, RunDriver
from untildone.domain.run.fact import Started
from untildone.domain.run.machine import begin
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Choice, Run
from untildone.ports import Predicted

STORIES = "## 1. First\n- [ ] 1.1 a\n\n## 2. Second\n- [ ] 2.1 b\n"


@dataclass
class FakeLoop:
    """The ports of one run; tests look into them afterwards."""

    replies: tuple[Reply, ...]
    plan: Plan = PLAN
    answers: tuple[Choice | None, ...] = (Choice.KEEP,)
    on_wait: Callable[[], None] = lambda: None
    source: FakeSource | None = field(default_factory=lambda: FakeSource(STORIES))
    checkpoint: FakeCheckpoint = field(default_factory=FakeCheckpoint)
    verifier: FakeVerifier = field(default_factory=FakeVerifier)
    clean_checkout: FakeCleanCheckout = field(default_factory=FakeCleanCheckout)
    protected_files: FakeProtectedFiles = field(default_factory=FakeProtectedFiles)
    meter: FakeMeter = field(default_factory=FakeMeter)
    mail: FakeMail = field(default_factory=FakeMail)
    record: FakeRecord = field(default_factory=FakeRecord)
    folder: FakeFolder = field(default_factory=FakeFolder)
    clock: FakeClock = field(default_factory=FakeClock)
    template: str = ""
    learnings: FakeLearningsFile | None = None
    archive: Callable[[], str] | None = None
    plan_files: FakePlanFiles | None = None
    lanes: FakeLanes | None = None
    predicted: Predicted | None = None

    def __post_init__(self) -> None:
        self.agent = FakeAgent(*self.replies)
        self.human = FakeHuman(self.clock, *self.answers, on_wait=lambda: self.on_wait())

    def driver(self, run: Run | None = None) -> RunDriver:
        """The loop at its start, or with an earlier run."""
        ports = Ports(
            agent=self.agent,
            source=self.source,
            checkpoint=self.checkpoint,
            verifier=self.verifier,
            protected_files=self.protected_files,
            clean_checkout=self.clean_checkout,
            meter=self.meter,
            mail=self.mail,
            human=self.human,
            record=self.record,
            folder=self.folder,
            clock=self.clock,
            cwd="/work",
            template=self.template,
            learnings=self.learnings,
            archive=self.archive,
            plan_files=self.plan_files,
            lanes=self.lanes,
            branch=self.lanes.branch if self.lanes else None,
            predicted=self.predicted,
        )
        return RunDriver(ports, run or begin(Started(self.plan), self.clock.now()), ORIGIN)

    def drive(self, run: Run | None = None) -> Run:
        """To the end."""
        return drive(self.driver(run))
