"""A random run: the machine's own steps, and for each a fact that the world might answer."""

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st
from msgspec.structs import replace

from tests.fakes.plans import LIMITS, ORIGIN, PLAN, at, book, story
from untildone.app.announce import announce
from untildone.domain.agents.agent import Kind, Trouble, Usage
from untildone.domain.checks.checks import Failing
from untildone.domain.costs.budget import Budget
from untildone.domain.reporting.event import Event
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.machine import apply, begin, next_steps
from untildone.domain.run.plan import Done, Limits, Plan
from untildone.domain.run.run import Choice, Outcome, Run, Status, Stop, StopHow
from untildone.domain.stories.parking import Aside, Why

Draw = Callable[[st.SearchStrategy[f.Fact]], f.Fact]

LIMIT_REACHED = Trouble(Kind.RATE_LIMITED, "limit", at(5))


@dataclass(slots=True)
class Walk:
    """What happened: the facts, the runs between them, the events and the steps."""

    run: Run
    facts: list[f.Fact] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    steps: list[s.Step] = field(default_factory=list)

    def record(self, fact: f.Fact) -> None:
        """As the orchestrator does it."""
        before, self.run = self.run, apply(self.run, fact, at(len(self.facts) + 1))
        self.facts.append(fact)
        self.events += announce(before, fact, self.run)


def plans() -> st.SearchStrategy[Plan]:
    """Story loops and plain loops with small numbers."""
    limits = st.builds(
        Limits,
        max_retries=st.integers(0, 2),
        max_iterations=st.integers(1, 6),
        stall_threshold=st.integers(1, 2),
    )
    return st.builds(
        Plan,
        change_id=st.just("demo"),
        run_id=st.just("r1"),
        task=st.just("Do it."),
        plain=st.booleans(),
        done=st.sampled_from(Done),
        source=st.just(PLAN.source),
        agent=st.just(PLAN.agent),
        limits=st.one_of(st.just(LIMITS), limits),
        on_fail=st.sampled_from(["stop", "skip"]),
        on_stuck=st.sampled_from(["retry", "park"]),
        ladder=st.sampled_from([(), ("scripted", "codex:x")]),
        verify=st.sampled_from([(), ("make test",)]),
        verify_start=st.booleans(),
        baseline=st.booleans(),
    )


def walked(plan: Plan, data: st.DataObject, requests: st.SearchStrategy[f.Fact]) -> Walk:
    """A run of at most forty steps; every answer may come together with a request."""
    walk = Walk(begin(f.Started(plan), at(0)))
    for _ in range(40):
        step = next_steps(walk.run)[0]
        walk.steps.append(step)
        if isinstance(step, s.Finish):
            if not (_choice_is_open(walk.run) and data.draw(st.booleans())):
                break
            walk.record(f.AskedAgain(walk.run.plan))
            continue
        if isinstance(step, s.RunAttempt):
            walk.record(_began(step))
        answer = data.draw(_answers(walk.run, step))
        if data.draw(st.integers(0, 5)) == 0:
            walk.record(data.draw(requests))
        if answer:
            walk.record(answer)
    return walk


def _choice_is_open(run: Run) -> bool:
    asked = run.ended and run.status is not Status.STOPPED and not run.abandoned
    return asked and (run.refused or not run.closed)


def stops(*how: StopHow) -> st.SearchStrategy[f.Fact]:
    """Stop requests."""
    return st.builds(
        f.StopRequested, st.builds(Stop, st.sampled_from(how), st.sampled_from([0, 2, 15]))
    )


def words() -> st.SearchStrategy[f.Fact]:
    """What a person may say besides."""
    return st.one_of(st.just(f.PersonDone()), st.builds(f.ChoiceMade, st.sampled_from(Choice)))


def wishes(*, renew: bool = True) -> st.SearchStrategy[f.Fact]:
    """What a person may want of a story; without `renew`, nothing that renews its retries."""
    keys = st.sampled_from([story(1).key, story(2).key])
    parked: st.SearchStrategy[f.Fact] = st.builds(f.StoryParked, keys, st.sampled_from(Why))
    if not renew:
        return parked
    about = st.one_of(st.none(), keys)
    return st.one_of(
        parked,
        st.builds(f.StoryRetried, keys),
        st.builds(f.Guided, st.just("Tabs."), about),
        st.builds(f.GuidanceCleared, about),
        st.builds(f.StoriesReordered, st.tuples(keys)),
    )


def _began(step: s.RunAttempt) -> f.AttemptStarted:
    key = step.story.key if step.story else ("", "")
    return f.AttemptStarted(step.lane, step.n, key[0], key, f"logs/{step.n}")


def _answers(run: Run, step: s.Step) -> st.SearchStrategy[f.Fact | None]:  # noqa: C901 - one arm each
    commit = f"c{len(run.iterations) + 1}"
    match step:
        case s.Open():
            return st.just(f.Opened(ORIGIN, "c0", "refs/ralph/backup/demo/r1"))
        case s.LoadStories():
            return st.just(_loaded(run))
        case s.TryChecks():
            old = st.just(Failing("make test", "exit code 1"))
            return st.builds(f.ChecksTried, st.lists(old, max_size=1).map(tuple))
        case s.RunAttempt(lane):
            ended = st.builds(
                f.AttemptEnded,
                st.just(lane),
                st.sampled_from(Outcome),
                st.sampled_from(["", "why"]),
                trouble=st.sampled_from([None, None, None, LIMIT_REACHED]),
                question=st.sampled_from(["", "", "Which?"]),
            )
            return ended.map(_sensible)
        case s.MeasureUsage(lane):
            return st.builds(f.UsageMeasured, st.just(lane), st.sampled_from([None, Usage(1, 2)]))
        case s.Verify(lane):
            return st.builds(f.Verified, st.just(lane), st.booleans(), st.just("red"))
        case s.Save(lane):
            empty = f.Saved(lane, "", run.lanes[lane].checkpoint)
            kept = f.Saved(lane, commit, commit)
            return st.sampled_from([kept, empty] if run.plan.plain else [kept])
        case s.Revert(lane):
            return st.just(f.Reverted(lane, f"refs/ralph/attempts/demo/{commit}"))
        case s.Wait(lane, limit):
            return st.just(f.WaitStarted(lane, at(9), "limit") if limit else f.WaitOver(lane))
        case s.AwaitPerson():
            return st.just(f.PersonDone())
        case s.AwaitBudget(name):
            return st.just(f.BudgetSet((Budget(name, 0.0),)))
        case s.Archive():
            return st.sampled_from(
                [f.Archived("a", "", commit, commit), f.Archived("", "a box is open")]
            )
        case s.AskAboutStory(key):
            kinds = [f.GivenUp(key), f.StoryRetried(key), f.StoryParked(key, Why.SKIPPED)]
            return st.sampled_from([*kinds, f.Guided("Tabs.", key)])
        case s.AskChoice():
            return st.builds(f.ChoiceMade, st.sampled_from(Choice))
        case s.Close(choice):
            return st.sampled_from([f.Closed(choice), f.Refused(choice, "conflict")])
        case s.Finish() | s.PrepareSlot() | s.Land():  # of several lanes, see test_lanes
            return st.none()


def _sensible(fact: f.AttemptEnded) -> f.AttemptEnded:
    """Limits come with errors only, questions without a promise."""
    if fact.trouble is None and fact.outcome is not Outcome.NO_PROMISE:
        return replace(fact, question="")
    if fact.trouble is None:
        return fact
    return f.AttemptEnded(fact.lane, Outcome.AGENT_ERROR, fact.reason, trouble=fact.trouble)


def _loaded(run: Run) -> f.StoriesLoaded:
    stories = [story(k) for k in (1, 2)]
    now = book(*(story(int(s.id), done=s.key in run.finished) for s in stories))
    done = now.complete == now.total and run.plan.done is not Done.MANUAL
    count = 0 if run.plan.plain else len(now.stories)
    finished = 0 if run.plan.plain else now.complete
    aside = Aside.of(now, run.finished, run.parked, run.answered)
    held = count > finished and now.next_story(run.finished, aside.keys) is None
    return f.StoriesLoaded(
        *(now.total, now.complete, done, now, count, finished),
        *(aside.marked, aside.settled, held),
    )
