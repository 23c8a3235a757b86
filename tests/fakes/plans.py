"""Plans, stories and facts in few words, for tests that tell a run as a list of facts."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from untildone.domain.agents.agent import Trouble, Usage
from untildone.domain.agents.same_failure import Tried, fingerprint
from untildone.domain.run import fact as f
from untildone.domain.run.machine import apply, begin
from untildone.domain.run.plan import Done, Limits, Plan
from untildone.domain.run.run import Origin, Outcome, Run
from untildone.domain.stories.story import Remark, Story, StoryBook, Task

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ORIGIN = Origin("feature/x", "0" * 40)
BACKUP = "refs/ralph/backup/demo/r1"
LIMITS = Limits(max_retries=2, max_iterations=9)
PLAN = Plan(
    change_id="demo",
    run_id="r1",
    task="Do it.",
    plain=False,
    done=Done.TASKS,
    source="fake",
    agent="scripted",
    limits=LIMITS,
)
PLAIN = replace(PLAN, plain=True, done=Done.MANUAL)


def at(seconds: float) -> datetime:
    """The time so many seconds after the start."""
    return NOW + timedelta(seconds=seconds)


def story(
    number: int = 1, *, done: bool = False, title: str = "", after: tuple[str, ...] = ()
) -> Story:
    """A story with one task."""
    task = Task(f"{number}.1", f"task of {number}", done, line=number)
    return Story(str(number), title or f"Story {number}", (task,), after, line=number)


def book(*stories: Story, ignored: tuple[Remark, ...] = ()) -> StoryBook:
    """The stories of the change `demo`."""
    return StoryBook("demo", "fake", "tasks", stories, ignored)


ONE, TWO = story(1), story(2)
OPENED = f.Opened(ORIGIN, "c0", BACKUP)
BOTH = book(ONE, TWO)


def loaded(stories: StoryBook | None = BOTH, *, done: bool = False) -> f.StoriesLoaded:
    """Stories were read."""
    if stories is None:
        return f.StoriesLoaded(0, 0, done)
    count, finished = len(stories.stories), sum(story.done for story in stories.stories)
    return f.StoriesLoaded(stories.total, stories.complete, done, stories, count, finished)


def began(n: int = 1, of: Story | None = ONE) -> f.AttemptStarted:
    """An agent is about to be called."""
    key = of.key if of else ("", "")
    return f.AttemptStarted(0, n, of.id if of else "", key, f"logs/{n}")


def ended(
    outcome: Outcome = Outcome.COMPLETE,
    reason: str = "",
    *,
    commits: tuple[str, ...] = (),
    limit: Trouble | None = None,
) -> f.AttemptEnded:
    """The agent is gone."""
    return f.AttemptEnded(0, outcome, reason, commits, None, limit)


def measured(usage: Usage | None = None) -> f.UsageMeasured:
    """The call's cost is known."""
    return f.UsageMeasured(0, usage)


def kept(commit: str = "c1", *, parent: str = "c0") -> f.Saved:
    """The work is a checkpoint; without a commit the checkpoint stays."""
    return f.Saved(0, commit, commit or parent)


def put_back(ref: str = "refs/ralph/attempts/demo/1/1") -> f.Reverted:
    """The attempt is put aside."""
    return f.Reverted(0, ref)


def won(n: int = 1, of: Story | None = ONE, commit: str = "c1") -> tuple[f.Fact, ...]:
    """A whole iteration that ends with COMPLETE and is kept."""
    return began(n, of), ended(), measured(), kept(commit)


def lost(
    n: int = 1,
    of: Story = ONE,
    outcome: Outcome = Outcome.FAILED,
    reason: str = "why",
    limit: Trouble | None = None,
) -> tuple[f.Fact, ...]:
    """A whole iteration that is put back."""
    return began(n, of), ended(outcome, reason, limit=limit), measured(), put_back()


def tried(
    attempt: int = 1, outcome: Outcome = Outcome.FAILED, why: str = "why", *, tree: str = ""
) -> Tried:
    """What is remembered of a lost iteration."""
    reason = why if outcome in (Outcome.FAILED, Outcome.VERIFY_FAILED) else ""
    ref = put_back().saved_ref
    return Tried(attempt, outcome, fingerprint(outcome, why), reason, ref, tree)


def told(*facts: f.Fact, plan: Plan = PLAN) -> Run:
    """The run after these facts, one second apart."""
    run = begin(f.Started(plan), NOW)
    for k, fact in enumerate(facts, 1):
        run = apply(run, fact, at(k))
    return run
