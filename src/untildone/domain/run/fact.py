"""Facts: what happened in the world, one class each; folding them gives the run."""

from datetime import datetime

from msgspec import Struct

from untildone.domain.agents.agent import Ending, Kind, Session, Trouble, Usage
from untildone.domain.checks.checks import Failing
from untildone.domain.checks.counted_tests import Counted
from untildone.domain.costs.budget import Budget, Reached, Reserved
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Choice, Origin, Outcome, Stop
from untildone.domain.stories.parking import Why
from untildone.domain.stories.story import StoryBook, StoryKey


class Started(Struct, frozen=True):
    """A run was planned; nothing of the user's has been touched yet."""

    plan: Plan


class Opened(Struct, frozen=True):
    """The user's state is saved and the run's workspace stands at its first checkpoint."""

    origin: Origin
    checkpoint: str
    backup_ref: str
    archived_ref: str = ""
    remarks: tuple[str, ...] = ()


class StoriesLoaded(Struct, frozen=True):
    """The stories as they are now. `book` is not journalled: a new process reads it again.

    `marked` are open stories with a question of the person, `settled` parked ones that are open no
    more; `held` says that every open story is parked or waits for one that is. `unfinished` says
    what is left when all stories are done and the change is not. `unasked`: the stories that were
    asked for are done, and so many others are open. `renamed` are stories at work: what they were
    called when the plan was read before, and are called now.
    """

    total: int
    complete: int
    done: bool
    book: StoryBook | None = None
    stories: int = 0
    finished: int = 0
    marked: tuple[tuple[StoryKey, str], ...] = ()
    settled: tuple[StoryKey, ...] = ()
    held: bool = False
    unfinished: str = ""
    unasked: int = 0
    renamed: tuple[tuple[StoryKey, StoryKey], ...] = ()


class ChecksTried(Struct, frozen=True):
    """These required checks fail before the first story; what they changed was put back.

    `counted` are the tests of those that count them, `cannot_start` the commands that are not there
    at all. `changed` are files of the checkpoint that the checks changed, `made` new ones.
    """

    failing: tuple[Failing, ...] = ()
    remarks: tuple[str, ...] = ()
    counted: tuple[Counted, ...] = ()
    cannot_start: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    made: tuple[str, ...] = ()


class SlotReady(Struct, frozen=True):
    """A lane has a workspace of its own, at this path."""

    lane: int
    path: str
    remarks: tuple[str, ...] = ()


class AttemptStarted(Struct, frozen=True):
    """An agent is about to be called; on disk before its process exists.

    `checks` are the story's own, as they were before the agent could change them. `learned` are
    the learnings that the first call of a story is shown. `base` is the commit that the work begins
    from, `reserved` what the budgets keep free for it.
    """

    lane: int
    n: int
    story_id: str
    story_key: StoryKey
    log_file: str
    agent: str = ""
    model: str = ""
    resumes: Session | None = None
    checks: tuple[str, ...] = ()
    rung: int = 0
    learned: str | None = None
    base: str = ""
    reserved: Reserved = Reserved()


class AttemptEnded(Struct, frozen=True):
    """The agent's whole process group is gone and its output is judged."""

    lane: int
    outcome: Outcome
    reason: str = ""
    commits: tuple[str, ...] = ()
    usage: Usage | None = None
    trouble: Trouble | None = None
    session: Session | None = None
    ending: Ending = Ending.EXITED
    exit_code: int | None = None
    spoke: bool = False
    question: str = ""


class UsageMeasured(Struct, frozen=True):
    """Tokens and cost of the open iteration are known."""

    lane: int
    usage: Usage | None
    warnings: tuple[str, ...] = ()


class Verified(Struct, frozen=True):
    """The loop's own checks ran after COMPLETE; `still_failing` did already before the run.

    `fatal`: the run ends once the attempt is put back. `counted` are the
    tests of the checks that count them; `checked`: a required check is among those that passed.
    """

    lane: int
    passed: bool
    reason: str = ""
    still_failing: tuple[Failing, ...] = ()
    fatal: bool = False
    counted: tuple[Counted, ...] = ()
    checked: bool = False


class Saved(Struct, frozen=True):
    """The work is committed (`commit` is empty when a plain iteration left nothing to commit).

    `paths` are what it changed; they are looked at and not written down. `unchanged`: nothing but
    the task list. `own_tests` are tests that were there before and that it changed.
    """

    lane: int
    commit: str
    checkpoint: str
    remarks: tuple[str, ...] = ()
    tree: str = ""
    paths: tuple[str, ...] = ()
    unchanged: bool = False
    own_tests: tuple[str, ...] = ()


class LandIntended(Struct, frozen=True):
    """The run branch is about to go from `tip` to `candidate`; on disk before it does."""

    lane: int
    tip: str
    candidate: str


class Landed(Struct, frozen=True):
    """The story is a commit of the run branch, checked together with all that landed before it.

    `flaky` are checks that failed once and passed on the very same files.
    """

    lane: int
    commit: str
    remarks: tuple[str, ...] = ()
    still_failing: tuple[Failing, ...] = ()
    counted: tuple[Counted, ...] = ()
    flaky: tuple[str, ...] = ()
    unchanged: bool = False
    own_tests: tuple[str, ...] = ()


class Requeued(Struct, frozen=True):
    """Finished work cannot land as it is: saved under a ref, and the story is done again."""

    lane: int
    why: str
    files: tuple[str, ...] = ()
    saved_ref: str = ""
    remarks: tuple[str, ...] = ()


class Reverted(Struct, frozen=True):
    """The attempt is saved under a ref and the tree is back at the checkpoint.

    `tree` are the attempt's files; empty if it changed none.
    """

    lane: int
    saved_ref: str
    remarks: tuple[str, ...] = ()
    tree: str = ""


class StoryParked(Struct, frozen=True):
    """A story is passed over from now on."""

    key: StoryKey
    why: Why
    text: str = ""
    saved_ref: str = ""


class StoryRetried(Struct, frozen=True):
    """The person wants a story tried (again): no longer parked, all its retries before it."""

    key: StoryKey


class StoriesReordered(Struct, frozen=True):
    """The person wants these stories first, in this order."""

    keys: tuple[StoryKey, ...]


class StoryAdded(Struct, frozen=True):
    """The person has added a story to the plan, so more calls than planned are needed.

    What an attempt adds by itself gets none: it could go on for ever.
    """

    key: StoryKey


class Guided(Struct, frozen=True):
    """The person has something to say to the agent: about one story, or about all."""

    text: str
    key: StoryKey | None = None
    id: str = ""


class GuidanceCleared(Struct, frozen=True):
    """The person takes guidance back: that of one story, or all of it."""

    key: StoryKey | None = None


class WaitStarted(Struct, frozen=True):
    """A limit is being waited out."""

    lane: int
    until: datetime
    why: str
    kind: Kind = Kind.OVERLOADED


class SteppedIn(Struct, frozen=True):
    """Another agent works until the usual one is past its limit."""

    lane: int
    agent: str
    model: str
    until: datetime
    why: str
    instead_of: str = ""


class WaitOver(Struct, frozen=True):
    """The wait has ended."""

    lane: int


class BudgetReached(Struct, frozen=True):
    """A budget is used up; the loop waits for a higher one if somebody is there to give it."""

    reached: Reached
    waits: bool = False


class BudgetSet(Struct, frozen=True):
    """The person gave the run these budgets, in place of those of the same names."""

    budgets: tuple[Budget, ...]


class PersonDone(Struct, frozen=True):
    """The person said that a manual run is done."""


class StopRequested(Struct, frozen=True):
    """Somebody asked the loop to stop."""

    stop: Stop


class ChoiceMade(Struct, frozen=True):
    """Cleanup or keep."""

    choice: Choice


class Archived(Struct, frozen=True):
    """The finished change was put away; without a `path` it was refused, and `refused` says why."""

    path: str
    refused: str = ""
    commit: str = ""
    checkpoint: str = ""
    remarks: tuple[str, ...] = ()


class Closed(Struct, frozen=True):
    """The choice is carried out."""

    choice: Choice
    remarks: tuple[str, ...] = ()


class Refused(Struct, frozen=True):
    """The choice cannot be carried out now; nothing was changed."""

    choice: Choice
    message: str
    hint: str = ""


class StepFailed(Struct, frozen=True):
    """A step failed in the outside world."""

    step: str
    message: str
    hint: str = ""
    lane: int = 0


class Resumed(Struct, frozen=True):
    """A new process goes on with the run, with these flags and renewed retries."""

    plan: Plan


class AskedAgain(Struct, frozen=True):
    """A new process asks for the choice that an earlier one did not get."""

    plan: Plan


class Adopted(Struct, frozen=True):
    """Edits that the person made on the branch between two processes are the new checkpoint."""

    lane: int
    checkpoint: str
    remarks: tuple[str, ...] = ()


class Abandoned(Struct, frozen=True):
    """The run will not go on: restored, or given up on request."""

    why: str


class TakenBack(Struct, frozen=True):
    """An operation was undone: the run stands again where it stood after its first facts."""

    facts: int


class StoryUndone(Struct, frozen=True):
    """The work of one finished story was taken out again, on top of all that came after it."""

    key: StoryKey
    checkpoint: str


class GivenUp(Struct, frozen=True):
    """The person was asked about a story, or nobody could be: the run ends with it."""

    key: StoryKey


# What the person may want of a run at any time, live or not.
UserRequest = (
    StoryParked | StoryRetried | StoriesReordered | StoryAdded | Guided | GuidanceCleared | GivenUp
)

# What happens in lanes that work beside each other.
Beside = SlotReady | LandIntended | Landed | Requeued

# What happens between two processes of a loop, and where one takes over from another.
Between = Resumed | AskedAgain | Adopted | Abandoned | TakenBack | StoryUndone

# What the loop does and finds.
Happening = (
    Started
    | Opened
    | StoriesLoaded
    | ChecksTried
    | AttemptStarted
    | AttemptEnded
    | UsageMeasured
    | Verified
    | Saved
    | Reverted
    | WaitStarted
    | SteppedIn
    | WaitOver
    | BudgetReached
    | BudgetSet
    | PersonDone
    | StopRequested
    | ChoiceMade
    | Archived
    | Closed
    | Refused
    | StepFailed
    | Between
    | Beside
)
Fact = Happening | UserRequest
