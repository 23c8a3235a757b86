"""Several lanes: whatever their calls do and whenever they end, some order gives the same."""

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.fakes.plans import LIMITS, ORIGIN, PLAN, at, book, story
from untildone.app.announce import announce
from untildone.domain.agents.agent import Kind, Trouble, Usage
from untildone.domain.costs.budget import Budget, Reserved
from untildone.domain.reporting import views
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.brief import stories_now
from untildone.domain.run.lanes import LANE_MEMORY, lanes_that_pay
from untildone.domain.run.machine import apply, begin, next_steps
from untildone.domain.run.plan import Done, Limits, Plan
from untildone.domain.run.run import Choice, Outcome, Reason, Run, Stage, Status, Stop, StopHow
from untildone.domain.run.run_endings import iterations_used
from untildone.domain.run.spending import affordable, spent
from untildone.domain.stories.parking import Aside, Why
from untildone.domain.stories.story import Story, StoryBook, Task

AT_LIMIT = Trouble(Kind.RATE_LIMITED, "limit", at(5))
STEPS = 400


def lane_of(step: s.Step) -> int | None:
    """The lane that a step belongs to; run-wide ones have none."""
    return getattr(step, "lane", None)


@dataclass(slots=True)
class World:
    """Steps that were begun and have not ended, and what the run branch holds."""

    stories: tuple[Story, ...]
    run: Run
    facts: list[f.Fact] = field(default_factory=list)
    begun: dict[int | None, s.Step] = field(default_factory=dict)
    landed: list[str] = field(default_factory=list)
    in_slots: dict[int, bool] = field(default_factory=dict)  # by the number of a call

    def record(self, fact: f.Fact) -> None:
        before = self.run
        self.run = apply(before, fact, at(len(self.facts) + 1))
        self.facts.append(fact)
        announce(before, fact, self.run)

    def free(self) -> list[s.Step]:
        """What may begin: nothing in a lane that is at work."""
        return [step for step in next_steps(self.run) if lane_of(step) not in self.begun]

    def begin(self, step: s.Step) -> None:
        """Begin a step, and look whether it may."""
        if isinstance(step, s.RunAttempt):
            self._call(step)
        elif (lane := lane_of(step)) is not None and (it := self.run.lanes[lane].iteration):
            assert self.in_slots[it.n] is (len(self.run.lanes) > 1), "settled in another place"
        if isinstance(step, s.Land):
            assert not any(isinstance(other, s.Land) for other in self.begun.values())
            iteration = self.run.open_iteration(step.lane)
            assert iteration.story_id not in self.landed
            self.record(f.LandIntended(step.lane, self.run.tip, f"c-{iteration.story_id}"))
        self.begun[lane_of(step)] = step

    def is_over(self) -> bool:
        """Whether only what nobody waits for is still under way."""
        return all(isinstance(step, s.PrepareSlot | s.Wait) for step in self.begun.values())

    def _call(self, step: s.RunAttempt) -> None:
        run, chosen = self.run, step.story
        assert chosen is not None
        at_work = {one.story_id for one in run.open_iterations}
        assert chosen.id not in at_work
        assert chosen.id not in self.landed
        assert set(chosen.depends_on) <= set(self.landed), "a dependency that has not landed"
        entries = (*run.iterations, *run.open_iterations)
        assert step.n not in {one.n for one in entries}
        assert iterations_used(run) < run.plan.limits.max_iterations
        assert step.lane < run.plan.lanes
        self.in_slots[step.n] = len(run.lanes) > 1
        if self.in_slots[step.n]:
            assert run.lanes[step.lane].slot
            assert step.base == run.tip
        else:
            assert run.lanes[0].checkpoint == run.tip
        kept = sum(one.reserved.cost_usd for one in run.open_iterations) + step.reserved.cost_usd
        for budget in run.plan.budgets:
            assert spent(run, budget.name) + kept <= budget.limit or not at_work
        fact = f.AttemptStarted(step.lane, step.n, chosen.id, chosen.key, f"logs/{step.n}")
        self.record(replace(fact, base=step.base, reserved=step.reserved))

    def look(self) -> f.StoriesLoaded:
        """The stories as the run branch has them."""
        done = set(self.landed)
        now = StoryBook(
            *("demo", "fake", "tasks"),
            tuple(replace(one, tasks=_ticked(one, done=one.id in done)) for one in self.stories),
        )
        open_ones = now.open_stories(self.run.finished)
        aside = Aside.of(now, self.run.finished, self.run.parked, self.run.answered)
        held = bool(open_ones) and now.next_story(self.run.finished, aside.keys) is None
        count = len(now.stories)
        return f.StoriesLoaded(
            *(now.total, now.complete, not open_ones, now, count, count - len(open_ones)),
            *(aside.marked, aside.settled, held),
        )

    def crash(self, lanes: int) -> None:
        """The process dies; the next one supplies what is missing and goes on in so many lanes."""
        self.begun.clear()
        for lane in self.run.lanes:
            if lane.iteration and lane.iteration.stage is Stage.RUNNING:
                self.record(f.AttemptEnded(lane.id, Outcome.INTERRUPTED, "died"))
            elif lane.landing and lane.iteration and lane.iteration.story_id in self.landed:
                self.record(f.Landed(lane.id, lane.landing.candidate))
        if not (self.run.closed or self.run.abandoned) and self.run.origin:
            self.record(f.Resumed(replace(self.run.plan, lanes=lanes)))


def _ticked(one: Story, *, done: bool) -> tuple[Task, ...]:
    return tuple(replace(task, done=done) for task in one.tasks)


def answers(world: World, step: s.Step) -> st.SearchStrategy[f.Fact | None]:  # noqa: C901
    """What may come of a step."""
    run = world.run
    match step:
        case s.Open():
            return st.just(f.Opened(ORIGIN, "c0", "refs/ralph/backup/demo/r1"))
        case s.LoadStories():
            return st.just(world.look())
        case s.TryChecks():
            return st.just(f.ChecksTried())
        case s.PrepareSlot(lane):
            return st.just(f.SlotReady(lane, f"/slots/{lane}"))
        case s.RunAttempt(lane):
            ended = st.builds(
                f.AttemptEnded,
                st.just(lane),
                st.sampled_from([*[Outcome.COMPLETE] * 5, *Outcome]),
                st.sampled_from(["", "why"]),
            )
            limit = f.AttemptEnded(lane, Outcome.AGENT_ERROR, "limit", trouble=AT_LIMIT)
            return st.one_of(ended, ended, ended, st.just(limit))
        case s.MeasureUsage(lane):
            usage = st.sampled_from([None, Usage(5, 2, cost_usd=0.1), Usage(9, 9, cost_usd=0.4)])
            return st.builds(f.UsageMeasured, st.just(lane), usage)
        case s.Verify(lane):
            return st.builds(f.Verified, st.just(lane), st.booleans(), st.just("red"))
        case s.Land(lane):
            mine = run.open_iteration(lane).story_id
            back = f.Requeued(lane, "conflict", ("a.py",), f"refs/ralph/attempts/demo/{mine}/1")
            return st.sampled_from([f.Landed(lane, f"c-{mine}"), f.Landed(lane, f"c-{mine}"), back])
        case s.Save(lane):
            name = f"c-{run.open_iteration(lane).story_id}"
            return st.just(f.Saved(lane, name, name))
        case s.Revert(lane):
            return st.just(f.Reverted(lane, f"refs/ralph/attempts/demo/{len(world.facts)}"))
        case s.Wait(lane, limit):
            return st.just(f.WaitStarted(lane, at(9), "limit") if limit else f.WaitOver(lane))
        case s.AwaitBudget(name):
            return st.just(f.BudgetSet((Budget(name, 0.0),)))
        case s.AskAboutStory(key):
            return st.sampled_from([f.GivenUp(key), f.StoryRetried(key)])
        case s.AskChoice():
            return st.just(f.ChoiceMade(Choice.KEEP))
        case s.Close(choice):
            return st.just(f.Closed(choice))
        case _:
            raise AssertionError(step)


def requests(stories: tuple[Story, ...]) -> st.SearchStrategy[f.Fact]:
    """What a person may want meanwhile."""
    keys = st.sampled_from([one.key for one in stories])
    return st.one_of(
        st.builds(f.StoryParked, keys, st.sampled_from(Why)),
        st.builds(f.StoryRetried, keys),
        st.builds(f.StoriesReordered, st.tuples(keys)),
        st.builds(f.StopRequested, st.builds(Stop, st.sampled_from(StopHow))),
    )


def plans() -> st.SearchStrategy[Plan]:
    """Of one to eight lanes."""
    limits = st.builds(Limits, max_retries=st.integers(0, 2), max_iterations=st.integers(1, 30))
    return st.builds(
        replace,
        st.just(PLAN),
        lanes=st.integers(1, 8),
        optimistic=st.booleans(),
        limits=limits,
        on_fail=st.sampled_from(["stop", "skip"]),
        verify=st.sampled_from([(), ("make test",)]),
        verify_start=st.booleans(),
    )


@st.composite
def several(draw: st.DrawFn) -> tuple[Story, ...]:
    """Up to eight stories that wait for earlier ones and touch few files."""
    count = draw(st.integers(1, 8))
    found = []
    for k in range(1, count + 1):
        earlier = draw(st.sets(st.integers(1, max(1, k - 1)), max_size=2)) - {k}
        files = draw(st.sampled_from([(), ("a.py",), ("b/**",), (f"own{k}.py",), ("go.mod",)]))
        one = story(k, after=tuple(str(n) for n in earlier if n < k))
        found.append(replace(one, touches=files, parallel=draw(st.booleans())))
    return tuple(found)


def played(plan: Plan, stories: tuple[Story, ...], data: st.DataObject, *, wild: bool) -> World:
    """Steps begin and end in any order; `wild`: people ask for things, and the process dies."""
    world = World(stories, begin(f.Started(plan), at(0)))
    for _ in range(STEPS):
        free = world.free()
        if any(isinstance(step, s.Finish) for step in free):
            assert world.is_over(), "the run is over while a lane is at work"
            return world
        assert free or world.begun, "nothing to do, nothing to wait for, and not over"
        choice = data.draw(st.integers(0, 99)) if wild else 50
        if choice < 3 and world.run.origin:
            world.crash(data.draw(st.integers(1, 8)))
        elif choice < 8 and world.run.origin and not world.run.ended:
            world.record(data.draw(requests(stories)))
        elif free and (not world.begun or data.draw(st.booleans())):
            world.begin(data.draw(st.sampled_from(free)))
        else:
            lane = data.draw(st.sampled_from(sorted(world.begun, key=str)))
            step = world.begun[lane]
            answer = data.draw(answers(world, step))
            del world.begun[lane]
            if isinstance(answer, f.Landed | f.Saved):
                world.landed.append(world.run.open_iteration(answer.lane).story_id)
            if answer:
                world.record(answer)
    return world


@settings(max_examples=60)
@given(plans(), several(), st.data())
def test_no_story_lands_twice_and_no_lane_waits_for_nothing(
    plan: Plan, stories: tuple[Story, ...], data: st.DataObject
) -> None:
    world = played(plan, stories, data, wild=True)
    assert max(Counter(world.landed).values(), default=1) == 1
    numbers = Counter(iteration.n for iteration in world.run.iterations)
    assert max(numbers.values(), default=1) == 1
    told = begin(f.Started(plan), at(0))
    for k, fact in enumerate(world.facts, 1):
        told = apply(told, fact, at(k))
    assert told == world.run


@settings(max_examples=40)
@given(plans(), several(), st.data())
def test_a_run_comes_to_an_end_with_every_story_accounted_for(
    plan: Plan, stories: tuple[Story, ...], data: st.DataObject
) -> None:
    world = played(plan, stories, data, wild=False)
    run = world.run
    assert next_steps(run) == (s.Finish(run.status),)
    assert {key[0] for key in run.finished} == set(world.landed)
    if run.status is Status.DONE:
        assert len(world.landed) == len(stories)
    elif run.reason is Reason.PARKED:
        assert run.parked


# ---------------------------------------------------------------------------------------------

A, B, C = (replace(story(k), touches=(f"{k}.py",)) for k in (1, 2, 3))
TWO_LANES = replace(PLAN, lanes=2)
OPENED = f.Opened(ORIGIN, "c0", "refs/ralph/backup/demo/r1")
SLOTS = (f.SlotReady(0, "/slots/0"), f.SlotReady(1, "/slots/1"))


def told(*facts: f.Fact, plan: Plan = TWO_LANES) -> Run:
    run = begin(f.Started(plan), at(0))
    for k, fact in enumerate((OPENED, *facts), 1):
        run = apply(run, fact, at(k))
    return run


def looked(*stories: Story) -> f.StoriesLoaded:
    now = book(*stories)
    return f.StoriesLoaded(now.total, now.complete, done=False, book=now, stories=len(stories))


def began(lane: int, n: int, of: Story, **more: object) -> f.AttemptStarted:
    fact = f.AttemptStarted(lane, n, of.id, of.key, f"logs/{n}", base="c0")
    return replace(fact, **more)


def finished(lane: int, n: int, of: Story) -> tuple[f.Fact, ...]:
    done = f.AttemptEnded(lane, Outcome.COMPLETE), f.UsageMeasured(lane, None)
    return began(lane, n, of), *done


def test_a_story_that_is_renamed_at_work_is_not_begun_again() -> None:
    one, two, other = story(1), story(2), story(2, title="Second")
    at_work = (*SLOTS, looked(one, two), began(0, 1, one), began(1, 2, two))
    run = told(*at_work)
    now = stories_now(run, book(one, other), book(one, two))
    assert now.renamed == ((two.key, other.key),)
    run = apply(run, now, at(9))
    assert [it.story_key for it in run.open_iterations] == [one.key, other.key]
    assert run.tally(other.key) == run.tally(two.key)
    assert stories_now(run, book(other), book(one, other)).renamed == ()
    assert stories_now(run, book(one, other), book(one)).renamed == ()


def at_limit(lane: int) -> tuple[f.Fact, ...]:
    ended = f.AttemptEnded(lane, Outcome.AGENT_ERROR, "limit", trouble=AT_LIMIT)
    return ended, f.UsageMeasured(lane, None), f.Reverted(lane, "ref")


def called(run: Run) -> list[str]:
    steps = next_steps(run)
    return [step.story.id for step in steps if isinstance(step, s.RunAttempt) and step.story]


def test_every_lane_gets_a_slot_and_a_story_of_its_own() -> None:
    run = told(looked(A, B, C))
    assert next_steps(run) == (s.PrepareSlot(0, "c0"), s.PrepareSlot(1, "c0"))
    run = told(looked(A, B, C), *SLOTS)
    assert called(run) == ["1"]
    run = told(looked(A, B, C), *SLOTS, began(0, 1, A))
    (step,) = next_steps(run)
    assert isinstance(step, s.RunAttempt)
    assert (step.lane, step.n, step.story, step.base) == (1, 2, B, "c0")
    assert next_steps(told(looked(A, B, C), *SLOTS, began(0, 1, A), began(1, 2, B))) == ()


def test_the_cap_ends_no_run_whose_last_stories_are_at_work() -> None:
    plan = replace(TWO_LANES, limits=replace(LIMITS, max_iterations=2))
    work = (looked(A, B), *SLOTS, *finished(0, 1, A), *finished(1, 2, B), f.Landed(0, "c1"))
    run = told(*work, looked(A, B), plan=plan)
    assert (run.status, run.ending) == (Status.RUNNING, None)
    done = replace(looked(A, B), done=True)
    assert told(*work, looked(A, B), f.Landed(1, "c2"), done, plan=plan).status is Status.DONE
    again = told(*work, looked(A, B), f.Landed(1, "c2"), looked(A, B, C), plan=plan)
    assert (again.status, again.reason) == (Status.STUCK, Reason.MAX_ITERATIONS)


def test_stories_that_share_a_file_do_not_run_together() -> None:
    same = replace(B, touches=("1.py",))
    run = told(looked(A, same, C), *SLOTS, began(0, 1, A))
    assert called(run) == ["3"]
    assert next_steps(told(looked(A, same), *SLOTS, began(0, 1, A))) == ()


def test_work_that_is_ready_first_lands_first() -> None:
    facts = (looked(A, B), *SLOTS, began(0, 1, A), *finished(1, 2, B))
    assert next_steps(told(*facts)) == (s.Land(1),)
    more = (f.AttemptEnded(0, Outcome.COMPLETE), f.UsageMeasured(0, None))
    run = told(*facts, *more)
    assert next_steps(run) == (s.Land(1),)
    run = told(*facts, *more, f.LandIntended(1, "c0", "c1"), f.Landed(1, "c1"))
    assert (run.tip, run.finished, run.lanes[0].checkpoint) == ("c1", frozenset({B.key}), "c0")
    assert next_steps(run) == (s.Land(0), s.LoadStories())


def test_a_requeued_story_comes_first_and_at_last_has_the_run_to_itself() -> None:
    back = f.Requeued(1, "conflict", ("a",), "ref")
    once = (looked(A, B), *SLOTS, *finished(1, 1, B), back)
    run = told(*once, looked(A, B, C))
    assert called(run) == ["2"]
    (entry,) = run.iterations
    assert (entry.outcome, entry.requeued, entry.reason) == (
        *(Outcome.VERIFY_FAILED, True, "conflict"),
    )
    assert run.tally(B.key).spent == 0
    twice = (*once, looked(A, B), *finished(1, 2, B), back)
    busy = told(*twice, looked(A, B, C), began(0, 3, A))
    assert next_steps(busy) == (), "it waits for the other to land, and nobody overtakes it"
    alone = told(*twice, looked(A, B, C), began(1, 3, B))
    assert next_steps(alone) == ()
    thrice = (*twice, looked(A, B), *finished(1, 3, B), back)
    assert told(*thrice).parked[B.key].why is Why.FAILED
    assert called(told(*thrice, looked(A, B))) == ["1"]


def test_nothing_else_lands_while_a_story_has_the_run_to_itself() -> None:
    back = f.Requeued(1, "conflict")
    twice = (looked(A, B), *SLOTS, *finished(1, 1, B), back, looked(A, B), *finished(1, 2, B), back)
    both = (looked(A, B), began(0, 3, A), began(1, 4, B), *finished(0, 3, A)[1:])
    assert next_steps(told(*twice, *both)) == ()
    done = finished(1, 4, B)[1:]
    assert next_steps(told(*twice, *both, *done)) == (s.Land(1),)


def test_one_limit_stops_all_lanes_of_the_account_and_one_call_tries_again() -> None:
    facts = (looked(A, B, C), *SLOTS, began(0, 1, A), began(1, 2, B))
    run = told(*facts, *at_limit(0), *at_limit(1), looked(A, B, C))
    assert next_steps(run) == (s.Wait(0, AT_LIMIT, 0),)
    waited = (*facts, *at_limit(0), *at_limit(1), f.WaitStarted(0, at(9), "limit"))
    run = told(*waited, looked(A, B, C))
    assert [type(step) for step in next_steps(run)] == [s.Wait]
    over = (*waited, looked(A, B, C), f.WaitOver(0))
    assert called(told(*over)) == ["1"]
    probe = (*over, began(0, 3, A))
    assert next_steps(told(*probe)) == ()
    again = told(*probe, *at_limit(0), looked(A, B, C))
    assert next_steps(again) == (s.Wait(0, AT_LIMIT, 1),)
    works = told(*probe, f.AttemptEnded(0, Outcome.COMPLETE), f.UsageMeasured(0, None))
    assert called(works) == ["2"]
    assert not works.gates


def test_no_lane_calls_while_one_has_met_the_limit_and_is_not_put_back_yet() -> None:
    facts = (looked(A, B, C), *SLOTS, began(0, 1, A))
    for met in range(1, 3):
        assert called(told(*facts, *at_limit(0)[:met])) == []
    over = (*facts, *at_limit(0), looked(A, B, C), f.WaitStarted(0, at(9), "x"), f.WaitOver(0))
    probe = (*over, began(0, 2, A))
    for met in range(1, 3):
        assert called(told(*probe, *at_limit(0)[:met])) == []


def test_a_call_at_a_limit_does_not_count_against_the_cap() -> None:
    plan = replace(TWO_LANES, limits=replace(LIMITS, max_iterations=2))
    facts = (looked(A, B), *SLOTS, began(0, 1, A), began(1, 2, B), *at_limit(0))
    waits = (*facts, f.WaitStarted(0, at(9), "x"), *finished(1, 2, B)[1:], f.Landed(1, "c1"))
    run = told(*waits, looked(A), f.WaitOver(0), plan=plan)
    assert (run.status, called(run)) == (Status.RUNNING, ["1"])
    more = told(*waits, looked(A), f.WaitOver(0), began(0, 3, A), plan=plan)
    assert iterations_used(more) == 2


def test_one_more_lane_with_each_call_that_works() -> None:
    three = replace(TWO_LANES, lanes=3)
    slots = (*SLOTS, f.SlotReady(2, "/slots/2"))
    facts = (looked(A, B, C), *slots, began(0, 1, A), *at_limit(0), looked(A, B, C))
    waited = (*facts, f.WaitStarted(0, at(9), "limit"), f.WaitOver(0))
    first = (*waited, *finished(0, 2, A))
    assert called(told(*first, plan=three)) == ["2"]
    second = (*first, began(1, 3, B))
    assert called(told(*second, plan=three)) == ["3"]


def test_a_stand_in_works_in_every_lane() -> None:
    facts = (looked(A, B), *SLOTS, began(0, 1, A), began(1, 2, B), *at_limit(0))
    stepped = (*facts, f.SteppedIn(0, "codex", "", at(9), "limit", "scripted"), looked(A, B))
    assert called(told(*stepped)) == ["1"]


def test_a_failed_story_ends_the_run_when_the_others_are_settled() -> None:
    plan = replace(TWO_LANES, limits=replace(LIMITS, max_retries=0))
    facts = (looked(A, B, C), *SLOTS, began(0, 1, A), began(1, 2, B))
    failed = (f.AttemptEnded(0, Outcome.FAILED, "why"), f.UsageMeasured(0, None))
    lost = (*facts, *failed, f.Reverted(0, "ref"))
    run = told(*lost, plan=plan)
    assert (run.status, next_steps(run)) == (Status.RUNNING, ())
    more = told(*lost, *finished(1, 2, B)[1:], plan=plan)
    assert next_steps(more) == (s.Land(1),)
    over = told(*lost, *finished(1, 2, B)[1:], f.Landed(1, "c1"), plan=plan)
    assert (over.status, over.reason, over.finished) == (
        *(Status.STUCK, Reason.MAX_RETRIES, frozenset({B.key})),
    )
    retried = told(*lost, f.StoryRetried(A.key), looked(A, B, C), plan=plan)
    assert called(retried) == ["1"]
    stopped = told(*lost, f.StopRequested(Stop(StopHow.NOW)), plan=plan)
    ended = (f.AttemptEnded(1, Outcome.INTERRUPTED), f.UsageMeasured(1, None))
    last: tuple[f.Fact, ...] = (*ended, f.Reverted(1, "ref"))
    for k, fact in enumerate(last, 30):
        stopped = apply(stopped, fact, at(k))
    assert (stopped.status, stopped.reason) == (Status.STOPPED, Reason.STOPPED)


def test_a_lane_where_a_step_failed_is_left_for_resume() -> None:
    facts = (looked(A, B), *SLOTS, began(0, 1, A), *finished(1, 2, B))
    failed = (*facts, f.StepFailed("Land", "disk full", lane=1))
    run = told(*failed)
    assert (run.status, next_steps(run)) == (Status.RUNNING, ())
    lost = (f.AttemptEnded(0, Outcome.FAILED, "why"), f.UsageMeasured(0, None))
    over = told(*failed, *lost, f.Reverted(0, "ref"))
    assert (over.status, over.reason) == (Status.STUCK, Reason.ERROR)
    fewer = told(*failed, *lost, f.Reverted(0, "ref"), f.Resumed(replace(TWO_LANES, lanes=1)))
    assert [lane.slot for lane in fewer.lanes] == ["", ""]
    assert next_steps(fewer)[0] == s.Land(1)
    more = told(*lost[:0], f.Resumed(replace(TWO_LANES, lanes=3)))
    assert len(more.lanes) == 3


def test_open_work_is_settled_where_it_was_begun_whatever_lanes_come_after() -> None:
    facts = (looked(A, B, C), *SLOTS, began(0, 1, A))
    one = replace(TWO_LANES, lanes=1)
    fewer = told(*facts, f.AttemptEnded(0, Outcome.INTERRUPTED, "died"), f.Resumed(one))
    assert len(fewer.lanes) == 2
    settled = told(*facts, *at_limit(0), f.Resumed(one))
    assert len(settled.lanes) == 1
    single = told(looked(A, B, C), began(0, 1, A, base=""), plan=one)
    more = apply(single, f.Resumed(TWO_LANES), at(9))
    assert len(more.lanes) == 1
    back = (f.AttemptEnded(0, Outcome.INTERRUPTED), f.UsageMeasured(0, None), f.Reverted(0, ""))
    for fact in back:
        more = apply(more, fact, at(10))
    assert [lane.checkpoint for lane in more.lanes] == ["c0", "c0"]


@pytest.mark.parametrize("change", [{"title": "Another title"}, {"id": "9"}])
def test_a_story_with_another_number_or_title_is_not_begun_a_second_time(
    change: dict[str, str],
) -> None:
    facts = (looked(A, B), *SLOTS, began(0, 1, A))
    assert called(told(*facts, looked(replace(A, **change), B))) == ["2"]


def test_a_second_slot_that_cannot_be_made_refuses_no_choice() -> None:
    failures = [f.StepFailed("PrepareSlot", "busy", lane=lane) for lane in (0, 1)]
    run = told(looked(A, B), *failures)
    assert (run.status, run.reason, run.refused) == (Status.STUCK, Reason.ERROR, False)
    assert next_steps(run) == (s.AskChoice(),)


def test_lanes_that_are_not_wanted_any_more_begin_nothing() -> None:
    three = (looked(A, B, C), *SLOTS, f.SlotReady(2, "/slots/2"), began(2, 1, A))
    run = told(*three, f.Resumed(TWO_LANES), looked(A, B, C), plan=replace(TWO_LANES, lanes=3))
    assert len(run.lanes) == 3
    slots = [step.lane for step in next_steps(run) if isinstance(step, s.PrepareSlot)]
    assert slots == [0, 1]


def test_a_limit_that_a_lane_met_which_is_gone_holds_for_those_that_are_left() -> None:
    three = replace(TWO_LANES, lanes=3)
    met = (looked(A, B, C), *SLOTS, f.SlotReady(2, "/slots/2"), began(2, 1, A), *at_limit(2))
    run = told(*met, f.Resumed(TWO_LANES), *SLOTS, looked(A, B, C), plan=three)
    assert called(run) == ["1"]
    assert called(apply(run, began(0, 2, A), at(20))) == []  # one to try


def test_a_dead_loop_is_shown_without_the_work_that_waited_to_land() -> None:
    dead = told(looked(A, B), *SLOTS, *finished(0, 1, A), *finished(1, 2, B))
    assert [lane.ticket for lane in dead.lanes] == [1, 2]
    landing = views.state(views.left_behind(dead, at(99)), 0, None)["landing"]
    assert landing == {"queue": [], "candidate": None, "base": None, "checking": None}


def test_the_checks_are_tried_once_before_all_lanes() -> None:
    plan = replace(TWO_LANES, verify=("make test",), verify_start=True)
    assert next_steps(told(looked(A, B), plan=plan)) == (s.PrepareSlot(0, "c0"),)
    assert next_steps(told(looked(A, B), *SLOTS[:1], plan=plan)) == (s.TryChecks(0, "1"),)


def test_a_question_about_a_story_waits_for_the_other_lanes() -> None:
    plan = replace(TWO_LANES, on_fail="ask", limits=replace(LIMITS, max_retries=0))
    facts = (looked(A, B, C), *SLOTS, began(0, 1, A), began(1, 2, B))
    lost = (f.AttemptEnded(0, Outcome.FAILED), f.UsageMeasured(0, None), f.Reverted(0, "ref"))
    assert next_steps(told(*facts, *lost, plan=plan)) == ()


def test_no_cap_is_passed_by_calls_that_race() -> None:
    money = (Budget("cost", 5.0),)
    four = replace(TWO_LANES, lanes=4, budgets=money)
    slots = (*SLOTS, f.SlotReady(2, "/slots/2"), f.SlotReady(3, "/slots/3"))
    stories = tuple(replace(story(k), touches=(f"{k}.py",)) for k in range(1, 8))
    spent_so_far = Usage(1, 1, cost_usd=4.7527)
    ended = f.AttemptEnded(0, Outcome.COMPLETE, usage=spent_so_far)
    facts = (looked(*stories), *slots, began(0, 1, stories[0]), ended)
    run = told(*facts, f.UsageMeasured(0, spent_so_far), f.Landed(0, "c1"), plan=four)
    usual = Reserved(2, 0.0884)
    run = apply(run, looked(*stories), at(20))
    for k in range(2):
        fact = began(k, k + 2, stories[k + 1], reserved=usual)
        run = apply(run, fact, at(21 + k))
    assert affordable(run, Reserved(2, 0.06))
    assert not affordable(run, usual)
    assert next_steps(run) == ()


@pytest.mark.parametrize(
    ("budget", "alone"),
    [("cost", True), ("tokens", True), ("time", False), ("story-cost", False)],
)
def test_the_first_call_that_a_budget_must_pay_runs_alone(budget: str, *, alone: bool) -> None:
    plan = replace(TWO_LANES, budgets=(Budget(budget, 500.0),))
    first = (looked(A, B), *SLOTS, began(0, 1, A))
    assert (next_steps(told(*first, plan=plan)) == ()) is alone
    cost = Usage(1, 1, cost_usd=0.5)
    measured = (f.AttemptEnded(0, Outcome.COMPLETE, usage=cost), f.UsageMeasured(0, cost))
    steps = next_steps(told(*first, *measured, plan=plan))
    (call,) = (step for step in steps if isinstance(step, s.RunAttempt))
    assert (call.lane, call.reserved) == (1, Reserved(2, 0.5))


def test_what_a_call_has_cost_is_not_kept_free_for_it_as_well() -> None:
    plan = replace(TWO_LANES, budgets=(Budget("cost", 1.1),))
    cost = Usage(1, 1, cost_usd=0.5)
    facts = (looked(A, B), *SLOTS, began(0, 1, A, reserved=Reserved(2, 0.5)))
    run = told(*facts, f.AttemptEnded(0, Outcome.COMPLETE, usage=cost), plan=plan)
    assert not affordable(run, Reserved(2, 0.7))
    run = apply(run, f.UsageMeasured(0, cost), at(30))
    assert affordable(run, Reserved(2, 0.6))
    assert not affordable(run, Reserved(2, 0.7))


def test_the_cap_of_iterations_counts_what_is_under_way() -> None:
    plan = replace(TWO_LANES, limits=replace(LIMITS, max_iterations=1))
    assert next_steps(told(looked(A, B), *SLOTS, began(0, 1, A), plan=plan)) == ()


def test_an_hour_in_two_lanes_is_one_hour_of_the_run_and_one_of_each_story() -> None:
    facts = (looked(A, B), *SLOTS, began(0, 1, A), began(1, 2, B))
    run = told(*facts)
    start = 3600.0
    run = apply(run, f.AttemptEnded(0, Outcome.COMPLETE), at(start))
    run = apply(run, f.AttemptEnded(1, Outcome.COMPLETE), at(start))
    ledger = run.ledger
    assert ledger.story(A.key).seconds == pytest.approx(start, abs=10)
    assert ledger.story(B.key).seconds == pytest.approx(start, abs=10)
    assert ledger.total.seconds == pytest.approx(start, abs=10)


def test_a_wait_beside_other_lanes_is_time_of_the_run() -> None:
    facts = (looked(A, B), *SLOTS, began(0, 1, A), began(1, 2, B), *at_limit(0))
    run = told(*facts)
    run = apply(run, f.WaitStarted(0, at(900), "limit"), at(600))
    assert run.ledger.total.seconds == pytest.approx(600, abs=10)


def test_a_story_that_left_the_plan_is_still_at_work() -> None:
    run = told(looked(A, B), *SLOTS, began(0, 1, A), f.StoryParked(C.key, Why.SKIPPED))
    run = apply(run, looked(B), at(30))
    assert called(run) == ["2"]


def test_with_all_stories_finished_a_manual_run_waits_for_the_person() -> None:
    manual = replace(TWO_LANES, done=Done.MANUAL)
    done = replace(looked(story(1, done=True)), finished=1)
    assert next_steps(told(done, *SLOTS, plan=manual)) == (s.AwaitPerson(),)


@pytest.mark.parametrize(
    ("story_s", "check_s", "free", "lanes", "why"),
    [
        (None, None, None, 4, "4 are the most without being asked for"),
        (600, 10, 64 * LANE_MEMORY, 4, "4 are the most without being asked for"),
        (600, 200, 64 * LANE_MEMORY, 3, "a story takes 600 s and its checks 200 s, and stories"),
        (600, None, 2 * LANE_MEMORY, 2, "4.0 GiB of memory are free, and a lane may need 2"),
        (60, 200, None, 1, "a story takes 60 s and its checks 200 s"),
        (600, 0, LANE_MEMORY - 1, 1, "2.0 GiB of memory are free"),
    ],
)
def test_lanes_that_pay(
    story_s: float | None, check_s: float | None, free: int | None, lanes: int, why: str
) -> None:
    found = lanes_that_pay(story_s, check_s, free)
    assert (found.lanes, found.why[: len(why)]) == (lanes, why)
