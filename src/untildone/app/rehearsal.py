"""What the loop would do next, told by the same machine, without doing anything."""

from datetime import datetime

from msgspec import Struct

from untildone.domain.agents.learnings import Notes
from untildone.domain.agents.prompt import NO_CONTEXT, NO_NOTES, render
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.brief import brief_of, stories_now
from untildone.domain.run.machine import apply, next_steps
from untildone.domain.run.run import Origin, Outcome, Run, Stage
from untildone.ports import StorySource


class Rehearsed(Struct, frozen=True):
    """The run as it would stand before its next call, and the call.

    `before` says what comes first. Without a `call` the last of it is where the telling ends.
    """

    run: Run
    call: s.RunAttempt | None
    prompt: str
    before: tuple[str, ...] = ()


def interrupted(run: Run, now: datetime) -> Run:
    """The run with the calls closed that a dead process left open."""
    for lane in run.lanes:
        if lane.iteration and lane.iteration.stage is Stage.RUNNING:
            run = apply(run, f.AttemptEnded(lane.id, Outcome.INTERRUPTED), now)
    return run


def rehearse(
    run: Run,
    origin: Origin,
    source: StorySource | None,
    now: datetime,
    template: str = "",
    notes: Notes = NO_NOTES,
) -> Rehearsed:
    """On to the next call; what only the world can answer ends the telling."""
    before: list[str] = []
    while True:
        step = next_steps(run)[0]
        if isinstance(step, s.RunAttempt):
            story = step.story
            context = source.context(story) if source and story else NO_CONTEXT
            prompt = render(brief_of(run, step, context, template, notes))
            return Rehearsed(run, step, prompt, tuple(before))
        fact = _expected(run, step, origin, source)
        if said := _said(run, step):
            before.append(said)
        if fact is None:
            return Rehearsed(run, None, "", tuple(before))
        run = apply(run, fact, now)


def _expected(run: Run, step: s.Step, origin: Origin, source: StorySource | None) -> f.Fact | None:
    match step:
        case s.Open():
            return f.Opened(origin, origin.commit, "")
        case s.LoadStories():
            return stories_now(run, source.load() if source else None)
        case s.TryChecks():
            return f.ChecksTried()
        case s.MeasureUsage(lane):
            return f.UsageMeasured(lane, None)
        case s.Save(lane):
            return f.Saved(lane, "", run.lanes[lane].checkpoint)
        case s.Revert(lane):
            return f.Reverted(lane, "")
        case s.Wait(lane, _, _, until) if until:
            return f.WaitOver(lane)
        case _:
            return None


def _said(run: Run, step: s.Step) -> str:
    match step:
        case s.Open() | s.LoadStories() | s.MeasureUsage():
            return ""
        case s.Save(lane) | s.Revert(lane):
            iteration = run.open_iteration(lane)
            what = "kept" if isinstance(step, s.Save) else "stored as an attempt and put back"
            return f"What iteration {iteration.n} left is {what}."
        case s.Wait(_, _, _, until) if until:
            return f"A limit is waited out until {until.isoformat(timespec='seconds')}."
        case _:
            # A step says in its first line what it does.
            return (type(step).__doc__ or type(step).__name__).partition("\n")[0]
