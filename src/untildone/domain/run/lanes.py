"""Several stories at once: which may start beside which, who lands next, what holds a lane up."""

from collections.abc import Iterator

from msgspec import Struct

from untildone.domain.agents.same_failure import next_rung
from untildone.domain.run import step as s
from untildone.domain.run.run import Iteration, Lane, Run, Stage
from untildone.domain.run.run_endings import iterations_used
from untildone.domain.run.spending import affordable, expected_cost, is_guesswork
from untildone.domain.stories.predicted_files import together
from untildone.domain.stories.story import Story, StoryKey

# More are not started unless somebody asks for them.
AUTO_MOST = 4
LANE_MEMORY = 2 * 1024**3
# Finished work that cannot be brought together is done again so often; then it has the run alone.
MOST_REQUEUES = 2


class LaneCount(Struct, frozen=True):
    """How many lanes pay here, and what decided it."""

    lanes: int
    why: str


def lanes_that_pay(
    story_s: float | None, check_s: float | None, free_memory: int | None
) -> LaneCount:
    """As many as the checks can keep up with and the memory has room for; unknown is no bound.

    Stories land one after the other, each with its checks: more lanes than fit into the time of one
    story would only wait.
    """
    bounds = [LaneCount(AUTO_MOST, f"{AUTO_MOST} are the most without being asked for")]
    if story_s and check_s:
        words = f"a story takes {round(story_s)} s and its checks {round(check_s)} s"
        bounds.append(LaneCount(int(story_s / check_s), f"{words}, and stories land one by one"))
    if free_memory is not None:
        free = f"{free_memory / 1024**3:.1f} GiB of memory are free"
        bounds.append(LaneCount(free_memory // LANE_MEMORY, f"{free}, and a lane may need 2"))
    least = min(bounds, key=lambda bound: bound.lanes)
    return LaneCount(max(least.lanes, 1), least.why)


def attempt(run: Run, lane: int, story: Story) -> s.RunAttempt:
    tally = run.tally(story.key)
    allowed = tally.calls + 1 + run.plan.limits.max_retries - tally.spent
    last = tally.calls + 1 == allowed
    rung = next_rung(tally.tried, len(run.plan.rungs_of(story.key)), last=last)
    n, base = run.current_iteration + 1, run.tip if len(run.lanes) > 1 else ""
    now = tally.calls + 1, allowed, tally.reason, rung
    return s.RunAttempt(lane, n, story, *now, base, expected_cost(run))


def starts(run: Run) -> Iterator[s.PrepareSlot | s.RunAttempt]:
    """What idle lanes may begin: every slot that has a story to wait for, and at most one call.

    One at a time, because the next call's number follows from this one's start.
    """
    taken = [*_at_work(run)]
    begun = False
    # There may be more lanes than wanted, as long as they have work to settle.
    for lane in run.lanes[: run.plan.lanes] if exclusive(run) is None else ():
        if lane.iteration or lane.waiting or lane.limit or lane.broken:
            continue
        story = _next_for(run, taken)
        if story is None:
            return
        taken.append(story)
        if not lane.slot:
            yield s.PrepareSlot(lane.id, run.tip)
        elif not begun and _may_call(run, lane, story):
            begun = True
            yield attempt(run, lane.id, story)


def next_landing(run: Run) -> Lane | None:
    """The lane whose finished work comes next: first ready, first served.

    While a story that was requeued too often is at work, nothing else lands: its base stays true.
    """
    waiting = [lane for lane in run.lanes if lane.ticket and not lane.broken]
    alone = exclusive(run)
    if alone:
        waiting = [lane for lane in waiting if run.open_iteration(lane.id).story_key == alone]
    return min(waiting, key=lambda lane: lane.ticket, default=None)


def exclusive(run: Run) -> StoryKey | None:
    """The story at work that has the run to itself."""
    keys = (iteration.story_key for iteration in run.open_iterations)
    return next((key for key in keys if run.tally(key).requeues >= MOST_REQUEUES), None)


def account_of(run: Run, iteration: Iteration) -> str:
    """Whose limits a call counts against."""
    return iteration.agent or run.plan.agent


def _at_work(run: Run) -> Iterator[Story]:
    assert run.book is not None
    for iteration in run.open_iterations:
        story = run.book.find(iteration.story_key)
        yield story or Story(*iteration.story_key, ())


def _next_for(run: Run, taken: list[Story]) -> Story | None:
    """The first story that may run beside those; one that was requeued comes before all others."""
    assert run.book is not None
    # Somebody may give a story another number or title while it is worked on.
    ids, titles = {story.id for story in taken}, {story.key[1] for story in taken}
    open_ones, aside = run.book.schedule.ready(run.finished), run.aside
    ready = [s for s in open_ones if not (s.key in aside or s.id in ids or s.key[1] in titles)]
    again = sorted(ready, key=lambda story: -run.tally(story.key).requeues)
    for story in again:
        alone = run.tally(story.key).requeues >= MOST_REQUEUES
        if not taken or (not alone and _fits(run, story, taken)):
            return story
        if alone:
            return None  # it waits until the others have landed, and nobody overtakes it
    return None


def _fits(run: Run, story: Story, taken: list[Story]) -> bool:
    optimistic = run.plan.optimistic
    return all(not together(story, other, optimistic=optimistic).why for other in taken)


def _may_call(run: Run, lane: Lane, story: Story) -> bool:
    """Within the cap, the budgets and what the agent's account takes."""
    if not run.open_iterations:
        return _gate_is_open(run, lane, story)  # what is used up then is found before the call
    if iterations_used(run) >= run.plan.limits.max_iterations or is_guesswork(run):
        return False
    return affordable(run, expected_cost(run)) and _gate_is_open(run, lane, story)


def _gate_is_open(run: Run, lane: Lane, story: Story) -> bool:
    account = run.plan.rungs_of(story.key)[attempt(run, lane.id, story).rung][0]
    if any(one.stand_in for one in run.lanes):
        return True
    calls = [one for one in run.open_iterations if account_of(run, one) == account]
    if any(one.limit for one in calls):
        return False  # it will wait for all, as soon as its files are put back
    gate = run.gates.get(account)
    if gate is None:
        return True
    if run.lanes[gate.lane].limit or run.lanes[gate.lane].waiting:
        return False
    return sum(one.stage is Stage.RUNNING for one in calls) < gate.allowed
