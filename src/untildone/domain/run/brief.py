"""What an agent call is told, and the look at the stories before it: for the loop and a dry run."""

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from untildone.domain.agents.agent import Intent, Session
from untildone.domain.agents.learnings import Notes
from untildone.domain.agents.prompt import NO_NOTES, Brief
from untildone.domain.checks.checks import in_force
from untildone.domain.checks.runner_settings import KEPT_TESTS
from untildone.domain.checks.terms import as_written, own_checks
from untildone.domain.checks.terms import in_force as in_force_terms
from untildone.domain.run import fact as f
from untildone.domain.run.plan import Done, label
from untildone.domain.run.run import Iteration, Outcome, Run
from untildone.domain.run.step import RunAttempt
from untildone.domain.stories.parking import Aside, ordered, unasked, words
from untildone.domain.stories.same_story import same_story
from untildone.domain.stories.story import Story, StoryBook, StoryContext, StoryKey, checked


class Place(Struct, frozen=True):
    """Where a call happens: the folder of the work and a private one, as paths."""

    cwd: str
    scratch: str


def brief_of(
    run: Run,
    step: RunAttempt,
    context: StoryContext,
    template: str,
    notes: Notes = NO_NOTES,
    earlier_work: str = "",
) -> Brief:
    """All that goes into the prompt of this call."""
    plan, story = run.plan, step.story
    frozen = run.tally(step.key).learned
    if frozen is not None and not step.reason:
        notes = replace(notes, text=frozen)
    return Brief(
        change=plan.change_id,
        story=story,
        task=plan.task,
        context=context,
        checks=in_force(plan.verify, own_checks(story, plan.terms, plan.story_verify)),
        protected=_protected(run, story),
        clean_room=plan.clean_room,
        reason=step.reason,
        tried=run.tally(step.key).tried,
        guidance=words(run.guidance, story.key if story else None),
        notes=notes,
        template=template,
        tasks_file=run.book.place(story) if run.book else "",
        boxes=run.book is None or run.book.boxes,
        landed=_landed(run) if len(run.lanes) > 1 else (),
        beside=tuple(map(_named, run.open_iterations)),
        earlier_work=earlier_work,
    )


def requeued_as(run: Run, step: RunAttempt) -> str:
    """The ref of finished work on this story that could not land, if that is why it is redone."""
    calls = (it for it in reversed(run.iterations) if it.story_key == step.key)
    last = next(calls, None)
    return last.saved_ref if last and last.requeued else ""


def _landed(run: Run) -> tuple[str, ...]:
    return tuple(_named(it) for it in run.iterations if it.outcome is Outcome.COMPLETE)


def _named(iteration: Iteration) -> str:
    story_id, title = iteration.story_key
    return f"{story_id} {title}".strip()


def _protected(run: Run, story: Story | None) -> tuple[str, ...]:
    """What this story must leave alone: less if the person says so."""
    plan = run.plan
    said = in_force_terms(story, plan.terms) if story else None
    free = {KEPT_TESTS} if said and said.frees_tests else set()
    free |= {p for p in plan.check_files if said and said.frees(p)}
    return tuple(text for text in plan.protected if text not in free or text in plan.protect)


def intent_of(run: Run, step: RunAttempt, prompt: str, place: Place, now: datetime) -> Intent:
    """The call itself: whom to ask, as what, and where."""
    plan, story = run.plan, step.story
    agent, model = _whom(run, step, now)
    return Intent(
        prompt=prompt,
        cwd=place.cwd,
        scratch=place.scratch,
        story_id=story.id if story else "",
        attempt=step.attempt,
        model=model,
        permissions=plan.permissions,
        resume=conversation(run, step.key, agent, step.rung) if plan.resume_session else None,
        asked=now,
        agent=agent,
    )


def conversation(run: Run, key: StoryKey, agent: str, rung: int = 0) -> Session | None:
    """The conversation of this agent's last call for a story, unless it broke down."""
    asked, calls = (key, agent, rung), reversed(run.iterations)
    known = (it for it in calls if (it.story_key, it.agent, it.rung) == asked)
    last = next(known, None)
    return last.session if last and last.outcome is not Outcome.AGENT_ERROR else None


def stories_now(
    run: Run, book: StoryBook | None, before: StoryBook | None = None
) -> f.StoriesLoaded:
    """The stories as they are now, and whether they are all done; `before` is the last look."""
    book = book or StoryBook("", "", "", ())
    if run.plan.plain:  # only the boxes count; without any it is not done
        done = run.plan.done is Done.TASKS and 0 < book.total == book.complete
        return f.StoriesLoaded(book.total, book.complete, done, book=book)
    book = ordered(as_written(checked(book), run.plan.terms), run.order)
    count = len(book.stories)
    open_stories = book.open_stories(run.finished)
    finished = count - len(open_stories)
    over = finished == count and run.plan.done is not Done.MANUAL
    unfinished = book.unfinished if over else ""
    aside = Aside.of(book, run.finished, run.parked, run.answered)
    others = unasked(book, run.plan.only, deps=run.plan.with_deps)
    left = sum(story.key in others for story in open_stories) if others else 0
    over_asked = 0 < left == len(open_stories)
    held = bool(open_stories) and book.next_story(run.finished, aside.keys | others) is None
    return f.StoriesLoaded(
        *(book.total, book.complete, over and not unfinished, book, count, finished),
        *(aside.marked, aside.settled, held and not over_asked, unfinished),
        unasked=left if over_asked else 0,
        renamed=tuple(_renamed(run, before, book)),
    )


def _renamed(
    run: Run, before: StoryBook | None, book: StoryBook
) -> Iterator[tuple[StoryKey, StoryKey]]:
    for iteration in run.open_iterations:
        was = before.find(iteration.story_key) if before else None
        now = same_story(was, before, book) if before and was else None
        if now and now.key != iteration.story_key:
            yield iteration.story_key, now.key


def _whom(run: Run, step: RunAttempt, now: datetime) -> tuple[str, str]:
    """The agent to call and its model: the stand-in until the usual one is past its limit."""
    agent, model = run.plan.rungs_of(step.key)[step.rung]
    for other in (lane.stand_in for lane in run.lanes):
        if other and now < other.until and other.instead_of in ("", label(agent, model)):
            return other.agent, other.model
    return agent, model
