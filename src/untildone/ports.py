"""Every seam between the loop and the world, on one page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol, runtime_checkable

from msgspec import Struct

from untildone.domain.agents.agent import AgentReport, Intent, Invocation, Notice, Reading, Usage
from untildone.domain.agents.learnings import Notes
from untildone.domain.checks.checks import Checked
from untildone.domain.checks.protection import Violation
from untildone.domain.checks.runner_settings import RunnerSetting
from untildone.domain.reporting.event import Event
from untildone.domain.run.fact import (
    BudgetSet,
    Fact,
    Opened,
    Reverted,
    Saved,
    StopRequested,
    UserRequest,
)
from untildone.domain.run.landing import Conflict, Merged, Standing
from untildone.domain.run.plan import Limits
from untildone.domain.run.run import Choice, Iteration, Origin, Run
from untildone.domain.stories.story import (
    NewStory,
    OpenTasks,
    Story,
    StoryBook,
    StoryContext,
    StoryKey,
)

Notify = Callable[[Notice], None]
# The stories with the files that each will probably change, by the ids and refs of attempts too.
Predicted = Callable[[StoryBook, Sequence[Iteration]], StoryBook]


class StorySource(Protocol):
    """Where the stories of one change come from and where their completion is written."""

    @property
    def name(self) -> str:
        """The name that `--source` takes."""

    def load(self) -> StoryBook:
        """Read the stories as they are now; a file that cannot be read is a StoriesError."""

    def context(self, story: Story) -> StoryContext:
        """Pointers and scenarios for this story's prompt."""

    def settle(self, story: Story, before: StoryBook) -> tuple[str, ...]:
        """Tick the story's boxes; take back boxes of other stories that were open in `before`.

        Returns one sentence per thing worth telling. A story that cannot be found again by number
        and text, or open work of others that is gone, is a StoryLost and nothing is written.
        """

    def take_back(self, before: StoryBook) -> tuple[str, ...]:
        """Untick what was open in `before`: after a failed attempt no tick is to be believed.

        Returns one sentence per thing worth telling.
        """


class PlanFiles(Protocol):
    """The files of the worktree that stories stand in, as bytes."""

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Those that are there and are ordinary files."""

    def write(self, path: str, data: bytes | None) -> None:
        """Replace a file, make it, or (None) remove it."""

    def held(self) -> AbstractContextManager[None]:
        """Meanwhile no command of ours writes them."""


class Grown(Struct, frozen=True):
    """A story file with one story more: nothing is written yet, and `book` is what it would say."""

    path: str
    data: bytes
    book: StoryBook


@runtime_checkable
class GrowingSource(Protocol):
    """A source whose stories are text that a story can be added to."""

    def grown(self, new: NewStory) -> Grown:
        """The file with the new story; every other byte of it stays."""


class OutputReader(Protocol):
    """Turns one agent call's raw output into notices while it runs and a Reading at its end."""

    def feed(self, chunk: bytes) -> list[Notice]:
        """Take the next bytes of standard output; memory stays bounded whatever comes."""

    def finish(self, exit_code: int | None, stderr_tail: bytes) -> Reading:
        """The output is over; `exit_code` is None when the process was killed by us."""


class AgentProgram(Protocol):
    """How one agent program is called and its output read."""

    @property
    def name(self) -> str:
        """The name that `--agent` takes."""

    @property
    def prints_before_model(self) -> bool:
        """Whether the program prints something before it asks its model for the first time."""

    def check(self) -> None:
        """Raise AgentMissing if the program cannot be started."""

    def invocation(self, intent: Intent) -> Invocation:
        """The program call for this intent."""

    def reader(self, intent: Intent) -> OutputReader:
        """A fresh reader for one call."""


class Agent(Protocol):
    """Calls the agent once and waits for the end of everything it started."""

    def run(self, intent: Intent, limits: Limits, log_file: str, notify: Notify) -> AgentReport:
        """One call; raw output goes to `log_file` as it comes."""


class Pending(Struct, frozen=True):
    """Work that is not kept yet: its tree, and the paths that differ from the checkpoint."""

    tree: str
    paths: tuple[str, ...] = ()


class Checkpoint(Protocol):
    """Where the work happens, how it is kept and how it is put back."""

    def open(self, origin: Origin, stamp: str) -> Opened:
        """Save the user's exact state and go to the run's workspace."""

    def reopened(self, origin: Origin) -> Opened | None:
        """After a crash while opening: the workspace if it stands, else None."""

    def adopt(self, checkpoint: str) -> tuple[str, tuple[str, ...]]:
        """Go back to the workspace between two processes; what was edited there by hand is kept.

        Returns the checkpoint to go on from and remarks.
        """

    def keep_edits(self, checkpoint: str) -> tuple[str, tuple[str, ...]]:
        """What was edited by hand while no agent ran, as `adopt` does it; HEAD is left alone.

        Nothing is kept where the workspace was left: `ensure_at` says so.
        """

    def ensure_at(self, checkpoint: str, story_id: str) -> None:
        """Make sure that the workspace is at the checkpoint before an agent starts a story."""

    def commits(self, checkpoint: str) -> tuple[str, ...]:
        """The agent's own commits since the checkpoint, oldest first."""

    def diverged(self, checkpoint: str) -> str:
        """Returns why HEAD no longer descends from the checkpoint; empty if it does.

        Asked right after `commits`, which has looked at the refs.
        """

    def pending(self, checkpoint: str) -> Pending:
        """What `save` would keep now; nothing is kept or put back."""

    def had(self, checkpoint: str, paths: Sequence[str]) -> tuple[str, ...]:
        """Which of these paths are files of the checkpoint."""

    def changed_between(self, before: str, after: str) -> tuple[str, ...]:
        """The paths that differ between the trees of two `pending`."""

    def save(self, lane: int, checkpoint: str, message: str, *, only_changes: bool) -> Saved:
        """Keep all work as a new checkpoint."""

    def saved_as(self, checkpoint: str, story_id: str, attempt: int) -> str:
        """After a crash while saving: the commit of this attempt if it was made."""

    def revert(self, lane: int, checkpoint: str, story_id: str, attempt: int) -> Reverted:
        """Store the attempt aside and put the workspace back to the checkpoint."""

    def close(self, choice: Choice, origin: Origin) -> tuple[str, ...]:
        """Carry out the completion choice; CloseRefused leaves everything as it is."""


class Verifier(Protocol):
    """The loop's own checks."""

    def run(self, command: str, timeout_s: float, folder: str = "") -> Checked:
        """Run one check to its end, in the worktree or in another folder, for so long at most."""


class CleanCheckout(Protocol):
    """A folder in which checks see only what would be committed."""

    def make(self, tree: str, parent: str, as_in_parent: Sequence[str] = ()) -> str:
        """Check the tree out as a commit on `parent`, some of its files as they are there.

        Returns the folder.
        """

    def put_back(self) -> None:
        """Its files as they were made, after a check; what is new beside them stays."""

    def remove(self) -> None:
        """Delete the checkout."""


class ProtectedFiles(Protocol):
    """The files that an attempt may not change."""

    def note(
        self,
        checkpoint: str,
        patterns: Sequence[str],
        files: Sequence[str],
        settings: Sequence[RunnerSetting] = (),
    ) -> None:
        """Remember the contents of these files; names that do not exist are skipped.

        Settings of runners count as changed also where a file is new.
        """

    def violations(self) -> tuple[Violation, ...]:
        """The protected files that differ from what was noted."""


class Meter(Protocol):
    """What an agent call costs."""

    def start(self, agent: str) -> None:
        """Take the first reading, before this agent starts."""

    def measure(self, reported: Usage | None, session_id: str) -> tuple[Usage | None, list[str]]:
        """Usage since `start`, and warnings."""


# Runs a command in a folder; what it says if it fails, else nothing.
Regenerate = Callable[[str, str], str]


class RunBranch(Protocol):
    """The branch that stories land on; only `land` changes what it holds."""

    def tip(self) -> str:
        """Where it is."""

    def tree_of(self, commit: str) -> str:
        """The files of a commit, as a tree."""

    def builds_on(self, commit: str) -> bool:
        """Whether it has this commit, wherever it is."""

    def store_moved(self) -> str:
        """Where somebody moved it, under a ref that stays; the ref."""

    def store_work(self, story_id: str, attempt: int, base: str, work: str) -> str:
        """A story's finished work as a saved attempt, before it can land; the ref."""

    def stored_work(self, story_id: str, attempt: int) -> str:
        """The commit that `store_work` made for this attempt of this run; empty if none."""

    def diff(self, ref: str) -> str:
        """What a saved attempt changed, as a patch."""

    def merge(
        self, tip: str, base: str, story: str, beside: Iterable[str] = ()
    ) -> Merged | Conflict:
        """What a story changed since its base, made to the tip, but for what is `beside` it."""

    def regenerated(
        self,
        conflict: Conflict,
        sides: tuple[str, str, str],
        commands: Mapping[str, str],
        run: Regenerate,
        beside: Iterable[str] = (),
    ) -> Merged | Conflict:
        """A conflict in generated files only, solved by the commands that make them.

        `sides` are tip, base and story, as they were merged; `commands` are by path or pattern.
        """

    def read(self, tree: str, paths: Iterable[str]) -> dict[str, bytes]:
        """The files of a tree at these paths, as they are checked out."""

    def candidate(
        self, tip: str, tree: str, message: str, files: Mapping[str, bytes | None] | None = None
    ) -> str:
        """The commit that is to land, with these files in the place of the tree's own."""

    def land(self, tip: str, candidate: str, why: str) -> bool:
        """The branch and its files from the tip to the candidate; False: it was not at the tip."""

    def stands(self, tip: str, candidate: str) -> Standing:
        """At the candidate, at the tip still, or where somebody moved it."""

    def forget_work(self, story_id: str, attempt: int) -> None:
        """It has landed: the saved attempt goes."""


class LanePorts(Struct, frozen=True):
    """What a lane has of its own: an agent, and its slot as a workspace."""

    agent: Agent
    source: StorySource | None
    plan_files: PlanFiles
    checkpoint: Checkpoint
    verifier: Verifier
    protected_files: ProtectedFiles
    clean_checkout: CleanCheckout
    meter: Meter
    branch: RunBranch
    cwd: str


class Lanes(Protocol):
    """The lanes of a run. What takes a lane is called by its thread, but for `interrupt`."""

    @property
    def checks_at_once(self) -> int:
        """How many lanes may run checks at the same time."""

    def prepare(self, lane: int, base: str) -> LanePorts:
        """The lane's slot, at this commit and set up, for whoever asks for it next."""

    def ready(self, lane: int, base: str, *, may_be_cut: bool = False) -> LanePorts:
        """The same, for programs to be run in it at once.

        A stop cuts git short where nothing is to be saved yet: `may_be_cut`, then Interrupted.
        """

    def as_left(self, lane: int, base: str) -> LanePorts | None:
        """The slot as an earlier step left it; None if nothing was begun there from this base."""

    def is_there(self, lane: int) -> bool:
        """Whether its slot still is: an agent may remove the very folder that it works in."""

    def is_interrupted(self, lane: int) -> bool:
        """Whether its programs are to end."""

    def has_room(self) -> bool:
        """Whether this machine has the memory for one more lane."""

    def interrupt(self, lane: int, *, wanted: bool) -> None:
        """End what runs in the lane; or, before its next step, no more."""

    def release(self) -> None:
        """Let go of all slots."""


class Report(Struct, frozen=True):
    """From the thread of a lane: something to tell, or how its step has ended."""

    lane: int
    told: Event | None = None
    result: object = None


class Mail(Protocol):
    """Requests from signals and other processes, and reports of lanes."""

    def report(self, report: Report) -> None:
        """From any thread; whoever waits for mail is woken."""

    def reports(self) -> tuple[Report, ...]:
        """All reports since the last call."""

    def take(self) -> tuple[Fact, ...]:
        """All requests since the last call."""

    def recorded(self) -> None:
        """What was taken is on disk now."""

    def stop_now(self) -> bool:
        """Whether the loop should stop at once."""


class Human(Protocol):
    """The person who runs the loop."""

    def choose(self) -> Choice | StopRequested | None:
        """The completion choice, or a stop before it; None when a request in the mail is first."""

    def present(self) -> bool:
        """Whether somebody at a terminal can be asked."""

    def new_budget(self, name: str) -> BudgetSet | StopRequested | None:
        """An amount in place of the budget `name`, or a stop; None when mail comes first."""

    def decide(self, key: StoryKey) -> UserRequest | None:
        """What becomes of a story that failed or asks; None when mail comes first."""

    def wait_for_word(self) -> None:
        """Wait until the mail has something."""

    def wait_until(self, seconds: float) -> None:
        """Wait at most this long, less if the mail has something."""


class Record(Protocol):
    """The run's memory on disk: journal and state file."""

    def fact(self, fact: Fact, published: tuple[Event, ...], run: Run, at: datetime) -> None:
        """Journal first, then the state file, then every window."""

    def notice(self, event: Event, at: datetime) -> None:
        """An event that changes nothing."""


class Folder(Protocol):
    """The run's private folder."""

    def log_file(self, n: int) -> str:
        """Where the raw output of iteration `n` goes."""

    def scratch(self, lane: int) -> str:
        """A private folder for the calls of a lane."""

    def keep_open(self, tasks: OpenTasks) -> None:
        """Store which tasks are open, for a process that comes after a crash."""

    def kept_open(self) -> OpenTasks:
        """What `keep_open` stored last; nothing if it never did."""

    def keep_plan(self, n: int, texts: Mapping[str, bytes]) -> None:
        """Store the plan as iteration `n` left it, for a process that comes after a crash."""

    def kept_plan(self, n: int) -> dict[str, bytes]:
        """What `keep_plan` stored for this iteration; nothing if it did not."""

    def keep_prompt(self, n: int, prompt: str) -> None:
        """Store the prompt of iteration `n` beside its log."""


class LearningsFile(Protocol):
    """The file for learnings: never committed, never put back."""

    def open(self) -> Notes:
        """The file as the next call finds it."""

    def keep(self) -> None:
        """Copy what a call wrote, so that it outlives the worktree."""


class JournalStore(Protocol):
    """The append-only log of a run."""

    def record(
        self, fact: Fact, published: tuple[Event, ...], at: datetime
    ) -> tuple[dict[str, object], ...]:
        """Write a fact and its events; return the events as they were written."""

    def note(self, event: Event, at: datetime) -> dict[str, object]:
        """Write an event that changes nothing."""


class StateStore(Protocol):
    """The state file that other tools read."""

    def write(self, head: Mapping[str, object], iterations: Sequence[Iteration]) -> tuple[str, ...]:
        """Replace the file as a whole; says what was in the way."""


class Clock(Protocol):
    """The time."""

    def now(self) -> datetime:
        """Wall-clock time with its zone."""
