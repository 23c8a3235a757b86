"""Stories set aside and taken up again: how parking and the person's wishes change the run."""

from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from untildone.domain.run import fact as f
from untildone.domain.run import run_endings
from untildone.domain.run.run import Reason, Run, Status
from untildone.domain.stories.parking import Aside, Guidance, Parked, Why
from untildone.domain.stories.story import StoryBook, StoryKey


def apply_user_request(run: Run, fact: f.UserRequest, at: datetime) -> Run:
    after = _applied(run, fact, at)
    key = after.undecided
    set_aside = isinstance(fact, f.StoryParked) and fact.key == key
    return replace(after, undecided=None) if set_aside or key not in after.parked else after


def _applied(run: Run, fact: f.UserRequest, at: datetime) -> Run:
    match fact:
        case f.StoryParked():
            return story_parked(run, fact, at)
        case f.StoryRetried():
            return release(run, fact.key)
        case f.StoriesReordered():
            return reordered(run, fact)
        case f.StoryAdded():
            return _to_look_again(_with_room(run))
        case f.Guided():
            return guided(run, fact, at)
        case f.GuidanceCleared():
            return cleared(run, fact)
        case f.GivenUp():
            return _given_up(run, fact.key)
        case _:
            assert_never(fact)


def looked(run: Run, fact: f.StoriesLoaded, at: datetime) -> Run:
    """What the person has marked in the file is parked, what is open no more is forgotten."""
    if not (fact.marked or run.parked):
        return run
    keep = {k: v for k, v in run.parked.items() if v.why is not Why.MARKED}
    for key, question in fact.marked:
        known = run.parked.get(key)
        keep.setdefault(key, Parked(Why.MARKED, question, known.since if known else at))
    for key in fact.settled:
        keep.pop(key, None)
    return replace(run, parked=keep)


def story_parked(run: Run, fact: f.StoryParked, at: datetime) -> Run:
    """The story is passed over, unless it is finished."""
    if fact.key in run.finished:
        return run
    run = park(run, fact.key, Parked(fact.why, fact.text, at, fact.saved_ref))
    return _going_on(run, Reason.MAX_RETRIES)


def reordered(run: Run, fact: f.StoriesReordered) -> Run:
    """These stories come first, then those that were to come first before."""
    order = tuple(dict.fromkeys((*fact.keys, *run.order)))
    return _to_look_again(replace(run, order=order))


def guided(run: Run, fact: f.Guided, at: datetime) -> Run:
    """The words are kept for the next prompts; a story that waited for them goes on.

    Words for all stories answer a question if there is exactly one, whoever asks it. What a dead
    process may have written down already is not taken twice.
    """
    known = fact.id and any(piece.id == fact.id for piece in run.guidance)
    if known or fact.key in run.finished:
        return run
    meant = {key: run.parked[key] for key in _meant_by(run, fact) if key in run.parked}
    asked = (parked.text for parked in meant.values() if parked.why is Why.QUESTION)
    piece = Guidance(fact.text, fact.key, at, fact.id, next(asked, ""))
    run = replace(run, guidance=(*run.guidance, piece))
    for key, parked in meant.items():
        run = run if parked.why is Why.SKIPPED else release(run, key)
    return run


def _meant_by(run: Run, fact: f.Guided) -> list[StoryKey]:
    if fact.key is not None:
        return [fact.key]
    asking = {key: parked for key, parked in run.parked.items() if parked.asks}
    questions = {same_words(parked.text) for parked in asking.values()}
    return list(asking) if len(questions) == 1 else []


def same_words(text: str) -> str:
    """What tells two questions apart: neither spaces nor capitals."""
    return " ".join(text.split()).casefold()


def cleared(run: Run, fact: f.GuidanceCleared) -> Run:
    """Guidance is forgotten: that of one story, or all of it."""
    left = tuple(piece for piece in run.guidance if fact.key and piece.key != fact.key)
    return replace(run, guidance=left)


def unattended(key: StoryKey, parked: Parked) -> f.UserRequest:
    """What is done about a story when nobody is there to be asked."""
    if parked.tried:
        return f.GivenUp(key)
    return f.StoryParked(key, parked.why, parked.text, parked.saved_ref)


def _given_up(run: Run, key: StoryKey) -> Run:
    """The person wants no more of it: the run ends as it would have without a question."""
    parked = run.parked.get(key)
    left = {k: v for k, v in run.parked.items() if k != key}
    run = replace(run, undecided=None)
    if parked is None or run.ended:
        return run
    if parked.asks:
        return run_endings.end(run, Status.STUCK, Reason.PARKED)
    return run_endings.end(replace(run, parked=left), Status.STUCK, Reason.MAX_RETRIES)


def park(run: Run, key: StoryKey, parked: Parked) -> Run:
    """The run with this story set aside; the stories are looked at again."""
    return _to_look_again(replace(run, parked=run.parked | {key: parked}))


def release(run: Run, key: StoryKey) -> Run:
    """The run with this story open again, all its retries before it.

    A run that ended for want of it goes on.
    """
    if key in run.finished:
        return run
    tally = run.tally(key)
    tallies = run.tallies | {key: tally.renewed} if key in run.tallies else run.tallies
    left = {k: v for k, v in run.parked.items() if k != key}
    run = replace(run, parked=left, answered=run.answered | {key}, tallies=tallies)
    run = _with_room(run) if tally.calls else run
    return _going_on(_to_look_again(run), Reason.PARKED, Reason.MAX_RETRIES)


def forgiven(run: Run) -> dict[StoryKey, Parked]:
    """What stays parked when a run goes on: what only the person can decide."""
    return {key: parked for key, parked in run.parked.items() if not parked.tried}


def waits_for_person(run: Run, book: StoryBook | None) -> dict[StoryKey, Why]:
    """Why no open story can go on before the person says more; empty if one can.

    Without a look at the stories the end of the run tells it.
    """
    parked = forgiven(run)
    why = {key: entry.why for key, entry in parked.items()}
    if book is None:
        return why if run.reason is Reason.PARKED and len(parked) == len(run.parked) else {}
    todo = book.open_stories(run.finished)
    aside = Aside.of(book, run.finished, parked, run.answered)
    if not todo or book.next_story(run.finished, aside.keys):
        return {}
    why |= {key: Why.MARKED for key, _ in aside.marked}
    return {key: reason for key, reason in why.items() if key in aside.keys}


def _to_look_again(run: Run) -> Run:
    # The book of an open iteration is what its boxes are compared with.
    busy = len(run.lanes) == 1 and run.open_iterations
    return run if busy else replace(run, book=None)


def _with_room(run: Run) -> Run:
    """Renewed retries need room below a cap that was counted from the number of stories."""
    limits = run.plan.limits
    if run.plan.configured_max:
        return run
    more = replace(limits, max_iterations=limits.max_iterations + 1 + limits.max_retries)
    return replace(run, plan=replace(run.plan, limits=more))


def _going_on(run: Run, *ended: Reason) -> Run:
    """A loop that came to such an end and waits for the choice has something to do again."""
    if run.ending and run.ending[1] in ended:
        return replace(run, ending=None)
    if run.reason in ended and run.choice is None and not run.closed:
        return replace(run, status=Status.RUNNING, reason=None)
    return run
