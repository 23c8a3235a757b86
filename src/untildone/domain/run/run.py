"""A run and its iterations: everything that survives a restart of the process."""

from collections.abc import Set
from datetime import datetime
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from untildone.domain.agents.agent import (
    Gate,
    Session,
    StandIn,
    Trouble,
    Usage,
    Waiting,
)
from untildone.domain.checks.checks import Failing, Proof
from untildone.domain.checks.counted_tests import Counted
from untildone.domain.costs.budget import Reached, Reserved
from untildone.domain.costs.ledger import Ledger
from untildone.domain.run.plan import MOST_LANES, Plan
from untildone.domain.run.tally import Tally
from untildone.domain.stories.parking import Guidance, Parked, unasked
from untildone.domain.stories.story import Story, StoryBook, StoryKey


class Status(StrEnum):
    """The six words other tools may rely on."""

    STARTING = "starting"
    RUNNING = "running"
    DONE = "done"
    STUCK = "stuck"
    STALLED = "stalled"
    STOPPED = "stopped"


class Outcome(StrEnum):
    """How one iteration went."""

    COMPLETE = "complete"
    FAILED = "failed"
    NO_PROMISE = "no_promise"
    TIMEOUT = "timeout"
    IDLE_TIMEOUT = "idle_timeout"
    VERIFY_FAILED = "verify_failed"
    AGENT_ERROR = "agent_error"
    INTERRUPTED = "interrupted"


class Reason(StrEnum):
    """Why a run came to its end."""

    SUCCESS = "success"
    MAX_RETRIES = "max_retries"
    MAX_ITERATIONS = "max_iterations"
    STALLED = "stalled"
    STOPPED = "stopped"
    ERROR = "error"
    PARKED = "parked"
    UNFINISHED = "unfinished"


class Choice(StrEnum):
    """What becomes of the work when the loop has ended."""

    CLEANUP = "cleanup"
    KEEP = "keep"


class StopHow(StrEnum):
    """When a stop request takes effect."""

    NOW = "now"
    AFTER_ITERATION = "after-iteration"
    AFTER_STORY = "after-story"


class Stage(StrEnum):
    """How far the open iteration is."""

    RUNNING = "running"
    ENDED = "ended"
    MEASURED = "measured"
    JUDGED = "judged"


RESTORED = "restored"  # how the reason of an abandoned run begins that was taken back as a whole


class Origin(Struct, frozen=True):
    """Where HEAD was before the run: a branch name, or empty when detached, and the commit."""

    branch: str
    commit: str

    @property
    def label(self) -> str:
        """The branch name, or the full sha of a detached start."""
        return self.branch or self.commit

    @property
    def head(self) -> str:
        """The full name of the branch, or the commit of a detached start."""
        return f"refs/heads/{self.branch}" if self.branch else self.commit


class Iteration(Struct, frozen=True):
    """One agent call: open while its stage moves on, then an entry of the history.

    `requeued`: it was complete and could not be brought together with what landed before it, in
    the files `contested`.
    """

    n: int
    started: datetime
    story_id: str
    attempt: int
    attempts_allowed: int
    story_key: StoryKey = ("", "")
    log_file: str = ""
    ended: datetime | None = None
    stage: Stage = Stage.RUNNING
    outcome: Outcome | None = None
    reason: str = ""
    usage: Usage | None = None
    commits: tuple[str, ...] = ()
    saved_ref: str = ""
    done_check: bool = False
    trouble: Trouble | None = None
    session: Session | None = None
    agent: str = ""
    checks: tuple[str, ...] = ()
    question: str = ""
    model: str = ""
    rung: int = 0
    fatal: bool = False
    spoke: bool = False
    trouble_counts: bool = False
    requeued: bool = False
    contested: tuple[str, ...] = ()
    reserved: Reserved = Reserved()
    proof: Proof = Proof.NONE
    own_tests: tuple[str, ...] = ()

    @property
    def outcome_class(self) -> str:
        """What came of it in one word: finer than the outcome, for statistics and for people."""
        if self.trouble and self.outcome is not Outcome.COMPLETE:
            return self.trouble.kind
        if self.question:
            return "question"
        return self.outcome or ""

    @property
    def limit(self) -> Trouble | None:
        """The limit or passing trouble that makes this call no attempt."""
        passing = self.trouble is not None and self.trouble.passing
        return self.trouble if passing and not self.trouble_counts else None

    @property
    def seconds(self) -> float:
        return (self.ended - self.started).total_seconds() if self.ended else 0.0

    @property
    def timed_out(self) -> bool:
        """Ended by a time limit, hard or idle."""
        return self.outcome in (Outcome.TIMEOUT, Outcome.IDLE_TIMEOUT)


class Stop(Struct, frozen=True):
    """A request to stop; `signal` is 0 unless the process was signalled."""

    how: StopHow
    signal: int = 0


class Landing(Struct, frozen=True):
    """The run branch is about to go from `tip` to `candidate`."""

    tip: str
    candidate: str


class Lane(Struct, frozen=True):
    """One workspace with at most one open iteration.

    `checkpoint` is where its work began, and where a failed attempt is put back to. `limited` is
    who is at the `limit`, as NAME or NAME:MODEL. `still_failing` are the old failures that the work
    at hand was let through with, `counted` the tests that it was checked by. Beside others a lane
    has a `slot` (a path), a `ticket` while its finished work waits to land (0: it does not), and
    the `landing` that is under way. `broken`: a step failed there, and only `resume` settles it.
    """

    id: int = 0
    checkpoint: str = ""
    iteration: Iteration | None = None
    limit: Trouble | None = None
    limited: str = ""
    waiting: Waiting | None = None
    limit_hits: int = 0
    stand_in: StandIn | None = None
    still_failing: tuple[Failing, ...] = ()
    counted: tuple[Counted, ...] = ()
    slot: str = ""
    ticket: int = 0
    landing: Landing | None = None
    broken: bool = False


class Run(Struct, frozen=True):
    """One execution of the loop over a change, from its start to the chosen ending.

    `unattempted` is what calls have cost that ended at a limit and were no attempts. Stories in
    `parked` are passed over; those in `answered` go on in spite of their `[?]`; those in `order`
    come first; the person is asked about the one in `undecided`. `trees` are what the last two
    iterations of a plain loop left. `known_failures` are the checks that failed before the first
    story; None: they were not tried; these changed and wrote the files of the next two. `counted`
    are the tests of each check at the last checkpoint, as far as they are known. `over` is the
    budget that is used up: the run waits for a higher one. `undone`: an undo took it back to before
    its end. `listed`: the stories were told since it began or went on. `died` is the last sign of
    life of a loop that is gone without a word. `tip` is the last checkpoint of the run branch.
    `ending` is decided while lanes still have work to settle. `gates` are by agent. `cannot_start`
    are the checks that it ended for before the first call.
    """

    plan: Plan
    started_at: datetime
    status: Status = Status.STARTING
    reason: Reason | None = None
    origin: Origin | None = None
    backup_ref: str = ""
    lanes: tuple[Lane, ...] = (Lane(),)
    book: StoryBook | None = None
    iterations: tuple[Iteration, ...] = ()
    finished: frozenset[StoryKey] = frozenset()
    tallies: dict[StoryKey, Tally] = field(default_factory=dict)
    commitless: int = 0
    trees: tuple[str, ...] = ()
    person_done: bool = False
    stop: Stop | None = None
    choice: Choice | None = None
    closed: bool = False
    refused: bool = False
    abandoned: bool = False
    error: str = ""
    story_count: int = 0
    finished_count: int = 0
    unattempted: Usage = Usage()
    archived: bool = False
    parked: dict[StoryKey, Parked] = field(default_factory=dict)
    answered: frozenset[StoryKey] = frozenset()
    known_failures: tuple[Failing, ...] | None = None
    changed_by_checks: tuple[str, ...] = ()
    made_by_checks: tuple[str, ...] = ()
    ledger: Ledger = Ledger()
    over: Reached | None = None
    order: tuple[StoryKey, ...] = ()
    undecided: StoryKey | None = None
    guidance: tuple[Guidance, ...] = ()
    counted: tuple[Counted, ...] = ()
    undone: bool = False
    listed: bool = False
    died: datetime | None = None
    tip: str = ""
    tickets: int = 0
    ending: tuple[Status, Reason] | None = None
    gates: dict[str, Gate] = field(default_factory=dict)
    cannot_start: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """The loop is over; what remains is the completion choice."""
        return self.status in (Status.DONE, Status.STUCK, Status.STALLED, Status.STOPPED)

    @property
    def held_up(self) -> Reached | None:
        """The budget that no call can be made without; that of a parked story holds up nothing."""
        return self.over if self.over and self.over.story_key not in self.parked else None

    @property
    def resumable(self) -> bool:
        """Whether `resume` could go on with it: neither given up nor carried to its end."""
        over = self.closed and (self.choice is Choice.CLEANUP or self.status is Status.DONE)
        return not (self.abandoned or over)

    @property
    def restored(self) -> bool:
        """Whether everything was put back as it was before it."""
        return self.abandoned and self.error.startswith(RESTORED)

    @property
    def current_iteration(self) -> int:
        """The running iteration, or the last one."""
        open_n = max((lane.iteration.n for lane in self.lanes if lane.iteration), default=0)
        # Calls end in another order than they begin, but none is overtaken by more than the lanes.
        return max([open_n, *(iteration.n for iteration in self.iterations[-MOST_LANES:])])

    @property
    def open_iterations(self) -> tuple[Iteration, ...]:
        """Those of all lanes."""
        return tuple(lane.iteration for lane in self.lanes if lane.iteration)

    @property
    def next_story(self) -> Story | None:
        """The story that comes next, by the last look at them."""
        return self.book.next_story(self.finished, self.aside) if self.book else None

    @property
    def aside(self) -> Set[StoryKey]:
        """Stories that no call is made for: parked ones, and those that nobody asked for."""
        return self.parked.keys() | unasked(self.book, self.plan.only, deps=self.plan.with_deps)

    def open_iteration(self, lane: int) -> Iteration:
        """The open iteration of a lane that has one."""
        iteration = self.lanes[lane].iteration
        assert iteration is not None
        return iteration

    def with_lane(self, lane: int, **changes: object) -> "Run":
        lanes = tuple(replace(one, **changes) if one.id == lane else one for one in self.lanes)
        return replace(self, lanes=lanes)

    def with_iteration(self, lane: int, **changes: object) -> "Run":
        """The run with the open iteration of a lane changed."""
        return self.with_lane(lane, iteration=replace(self.open_iteration(lane), **changes))

    def with_entry(self, iteration: Iteration) -> "Run":
        """The run with one more iteration in its history."""
        return replace(self, iterations=(*self.iterations, iteration))

    def tally(self, key: StoryKey) -> Tally:
        return self.tallies.get(key, Tally())
