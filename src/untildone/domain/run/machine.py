"""The loop as a machine: `next_steps` decides what to do, `apply` folds in what happened."""

from collections.abc import Iterator
from datetime import datetime
from typing import assert_never

from untildone.domain.checks.checks import Check, Level, in_force
from untildone.domain.run import after_failure, apply_fact, user_requests
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.lanes import attempt, next_landing, starts
from untildone.domain.run.plan import Done
from untildone.domain.run.run import Lane, Outcome, Run, Stage, Status, StopHow
from untildone.domain.run.run_endings import all_finished, settled
from untildone.domain.run.spending import booked


def next_steps(run: Run) -> tuple[s.Step, ...]:
    """What may start now: run-wide steps alone, otherwise one step per lane."""
    if run.abandoned or run.closed:
        return (s.Finish(run.status),)
    if run.origin is None:
        return (s.Open(),)
    if run.ended:
        return (_ending_step(run),)
    settling = tuple(_settling_steps(run))
    if run.open_iterations and (len(run.lanes) == 1 or run.ending or run.held_up or run.undecided):
        return settling
    if run.held_up:
        return (s.AwaitBudget(run.held_up.name),)
    if run.undecided:
        return (s.AskAboutStory(run.undecided),)
    return (*settling, *_idle_steps(run))


def _settling_steps(run: Run) -> Iterator[s.Step]:
    landing = next_landing(run)
    for lane in run.lanes:
        if lane.iteration and not lane.broken and (step := _lane_step(run, lane, landing)):
            yield step


def _lane_step(run: Run, lane: Lane, landing: Lane | None) -> s.Step | None:
    iteration = run.open_iteration(lane.id)
    match iteration.stage:
        case Stage.RUNNING:
            return None  # its end arrives by itself; after a crash recovery supplies it
        case Stage.ENDED:
            return s.MeasureUsage(lane.id)
        case Stage.MEASURED:
            return s.Verify(lane.id)
        case Stage.JUDGED if lane.ticket:
            return s.Land(lane.id) if lane is landing else None
        case Stage.JUDGED:
            keep = run.plan.plain or iteration.outcome is Outcome.COMPLETE
            return s.Save(lane.id) if keep else s.Revert(lane.id)
        case _:
            assert_never(iteration.stage)


def _idle_steps(run: Run) -> Iterator[s.Step]:
    """What may begin in lanes without an open iteration."""
    for lane in run.lanes:
        if lane.waiting:
            yield s.Wait(lane.id, None, lane.limit_hits, lane.waiting.until)
        elif lane.limit:
            yield s.Wait(lane.id, lane.limit, lane.limit_hits)
    if len(run.lanes) > 1:
        yield from _starts_beside(run)
    elif not (run.lanes[0].waiting or run.lanes[0].limit):
        yield _start(run)


def _starts_beside(run: Run) -> Iterator[s.Step]:
    if run.book is None:
        yield s.LoadStories()
    elif not run.open_iterations and required_at_start(run) and run.next_story:
        first = run.lanes[0]
        yield s.TryChecks(0, run.next_story.id) if first.slot else s.PrepareSlot(0, run.tip)
    else:
        begun = tuple(starts(run))
        waits = any(lane.limit or lane.waiting for lane in run.lanes)
        if begun or run.open_iterations or waits:
            yield from begun
        else:
            yield _without_story(run)


def _start(run: Run) -> s.Step:
    if run.book is None and not (run.plan.plain and run.plan.done is not Done.TASKS):
        return s.LoadStories()
    n = run.current_iteration + 1
    if run.plan.plain:
        if required_at_start(run):
            return s.TryChecks(0, f"iteration-{n}")
        return s.RunAttempt(0, n, None, 1, 1, "")
    story = run.next_story
    if story is None:
        return _without_story(run)
    return s.TryChecks(0, story.id) if required_at_start(run) else attempt(run, 0, story)


def _without_story(run: Run) -> s.Step:
    # Another look says why, if stories were set aside since the last one.
    return s.AwaitPerson() if all_finished(run) else s.LoadStories()


def _ending_step(run: Run) -> s.Step:
    if run.status is Status.STOPPED or (run.stop and run.stop.how is StopHow.NOW):
        return s.Finish(run.status) if run.choice is None else s.Close(run.choice)
    if _archive_is_due(run):
        return s.Archive()
    return s.AskChoice() if run.choice is None else s.Close(run.choice)


def _archive_is_due(run: Run) -> bool:
    return run.plan.archive and run.status is Status.DONE and not run.archived


def required_at_start(run: Run) -> tuple[Check, ...]:
    """The checks to try before the first story; none if that was done, or is not wanted."""
    plan = run.plan
    wanted = plan.verify_start or plan.baseline
    if not (wanted and plan.checks_count) or run.known_failures is not None:
        return ()
    return tuple(check for check in in_force(plan.verify) if check.level is Level.REQUIRED)


def awaits_person(run: Run) -> bool:
    """Whether only the person's word is missing."""
    return not run.ended and isinstance(next(iter(next_steps(run)), None), s.AwaitPerson)


def tries_checks(run: Run) -> bool:
    """Whether the checks are being tried before the first story."""
    return not run.ended and isinstance(next(iter(next_steps(run)), None), s.TryChecks)


def begin(started: f.Started, at: datetime) -> Run:
    """The run as it is before anything was touched."""
    return Run(plan=started.plan, started_at=at)


def apply(run: Run, fact: f.Fact, at: datetime) -> Run:
    """The run after this fact, what it has spent included."""
    if isinstance(fact, f.UserRequest):
        after = user_requests.apply_user_request(run, fact, at)
    else:
        after = _folded(run, fact, at)
    return booked(run, fact, apply_fact.grown(settled(after)), at)


def _folded(run: Run, fact: f.Happening, at: datetime) -> Run:  # noqa: C901 - one arm per fact
    match fact:
        case f.Started():
            return begin(fact, at)
        case f.Opened():
            return apply_fact.opened(run, fact)
        case f.StoriesLoaded():
            return apply_fact.stories_loaded(run, fact, at)
        case f.ChecksTried():
            return apply_fact.checks_tried(run, fact)
        case f.AttemptStarted():
            return apply_fact.attempt_started(run, fact, at)
        case f.AttemptEnded():
            return apply_fact.attempt_ended(run, fact, at)
        case f.UsageMeasured():
            return apply_fact.usage_measured(run, fact)
        case f.Verified():
            return apply_fact.verified(run, fact)
        case f.Saved():
            return apply_fact.saved(run, fact)
        case f.SlotReady() | f.LandIntended() | f.Landed() | f.Requeued():
            return _folded_beside(run, fact)
        case f.Reverted():
            return after_failure.reverted(run, fact)
        case f.WaitStarted():
            return apply_fact.wait_started(run, fact)
        case f.SteppedIn():
            return apply_fact.stepped_in(run, fact)
        case f.WaitOver():
            return apply_fact.wait_over(run, fact)
        case f.BudgetReached():
            return apply_fact.budget_reached(run, fact)
        case f.BudgetSet():
            return apply_fact.budget_set(run, fact)
        case f.PersonDone():
            return apply_fact.person_done(run)
        case f.StopRequested():
            return apply_fact.stop_requested(run, fact)
        case f.ChoiceMade():
            return apply_fact.choice_made(run, fact)
        case f.Archived():
            return apply_fact.archived(run, fact)
        case f.Closed():
            return apply_fact.closed(run, fact)
        case f.Refused():
            return apply_fact.refused(run, fact)
        case f.StepFailed():
            return apply_fact.step_failed(run, fact)
        case _:
            return _folded_between(run, fact)


def _folded_between(run: Run, fact: f.Between) -> Run:
    match fact:
        case f.Resumed():
            return apply_fact.resumed(run, fact)
        case f.AskedAgain():
            return apply_fact.asked_again(run, fact)
        case f.Adopted():
            return apply_fact.adopted(run, fact)
        case f.Abandoned():
            return apply_fact.abandoned(run, fact)
        case f.StoryUndone():
            return apply_fact.story_undone(run, fact)
        case f.TakenBack():
            return run  # only a replay knows what was then
        case _:
            assert_never(fact)


def _folded_beside(run: Run, fact: f.Beside) -> Run:
    match fact:
        case f.SlotReady():
            return apply_fact.slot_ready(run, fact)
        case f.LandIntended():
            return apply_fact.land_intended(run, fact)
        case f.Landed():
            return apply_fact.landed(run, fact)
        case f.Requeued():
            return after_failure.requeued(run, fact)
        case _:
            assert_never(fact)
