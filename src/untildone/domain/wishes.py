"""Stories set aside and taken up again: how parking and the person's wishes change the run."""

from dataclasses import replace
from datetime import datetime

from untildone.domain import fact as f
from untildone.domain.parking import Parked, Why
from untildone.domain.run import Reason, Run, Status
from untildone.domain.story import StoryKey


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


def story_retried(run: Run, fact: f.StoryRetried) -> Run:
    """The story is open again with all its retries; a run that ended for want of it goes on."""
    return release(run, fact.key)


def park(run: Run, key: StoryKey, parked: Parked) -> Run:
    """The run with this story set aside; the stories are looked at again."""
    return _to_look_again(replace(run, parked=run.parked | {key: parked}))


def release(run: Run, key: StoryKey) -> Run:
    """The run with this story open again."""
    if key in run.finished:
        return run
    tally = run.tally(key)
    tallies = run.tallies | {key: replace(tally, spent=0)} if key in run.tallies else run.tallies
    left = {k: v for k, v in run.parked.items() if k != key}
    run = replace(run, parked=left, answered=run.answered | {key}, tallies=tallies)
    return _going_on(_to_look_again(run), Reason.PARKED, Reason.MAX_RETRIES)


def forgiven(run: Run) -> dict[StoryKey, Parked]:
    """What stays parked when a run goes on: what only the person can decide."""
    return {key: parked for key, parked in run.parked.items() if not parked.tried}


def _to_look_again(run: Run) -> Run:
    # The book of an open iteration is what its boxes are compared with.
    busy = any(lane.iteration for lane in run.lanes)
    return run if busy else replace(run, book=None)


def _going_on(run: Run, *ended: Reason) -> Run:
    """A loop that came to such an end and waits for the choice has something to do again."""
    if run.reason in ended and run.choice is None and not run.closed:
        return replace(run, status=Status.RUNNING, reason=None)
    return run
