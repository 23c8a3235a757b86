"""What the loop does next: a run told as facts, and the one step that must follow."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import (
    BACKUP,
    BOTH,
    LIMITS,
    NOW,
    ONE,
    OPENED,
    ORIGIN,
    PLAIN,
    PLAN,
    TWO,
    at,
    began,
    book,
    ended,
    kept,
    loaded,
    lost,
    measured,
    story,
    told,
    won,
)
from untildone.domain.agents.agent import Kind, Trouble
from untildone.domain.costs.ledger import Ledger
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.machine import apply, begin, next_steps
from untildone.domain.run.plan import Done, Plan
from untildone.domain.run.run import Choice, Lane, Outcome, Reason, Run, Status, Stop, StopHow

VERIFY = replace(PLAN, verify=("make test",))
MANUAL = replace(PLAN, done=Done.MANUAL)
PLAIN_TASKS = replace(PLAIN, done=Done.TASKS)
PLAIN_PROMISE = replace(PLAIN, done=Done.PROMISE, verify=("make test",))
LIMIT = Trouble(Kind.RATE_LIMITED, "rate limit", at(60))
ALL_DONE = book(story(1, done=True), story(2, done=True))
STOP = f.StopRequested(Stop(StopHow.NOW))
NO_PROMISE = Outcome.NO_PROMISE
STUCK = (*lost(1), *lost(2), *lost(3))

Told = tuple[Plan, tuple[f.Fact, ...], s.Step]

STEPS: dict[str, Told] = {
    "first of all, open": (PLAN, (), s.Open()),
    "then read the stories": (PLAN, (OPENED,), s.LoadStories()),
    "first story": (PLAN, (OPENED, loaded()), s.RunAttempt(0, 1, ONE, 1, 3, "")),
    "a ticked story is passed over": (
        PLAN,
        (OPENED, loaded(book(story(1, done=True), TWO))),
        s.RunAttempt(0, 1, TWO, 1, 3, ""),
    ),
    "dependencies first": (
        PLAN,
        (OPENED, loaded(book(story(1, after=("2",)), TWO))),
        s.RunAttempt(0, 1, TWO, 1, 3, ""),
    ),
    "an ended call is measured": (PLAN, (OPENED, loaded(), began(), ended()), s.MeasureUsage(0)),
    "no checks: kept": (PLAN, (OPENED, loaded(), began(), ended(), measured()), s.Save(0)),
    "checks run after COMPLETE": (
        VERIFY,
        (OPENED, loaded(), began(), ended(), measured()),
        s.Verify(0),
    ),
    "no checks after FAILED": (
        VERIFY,
        (OPENED, loaded(), began(), ended(Outcome.FAILED), measured()),
        s.Revert(0),
    ),
    "passed checks: kept": (
        VERIFY,
        (OPENED, loaded(), began(), ended(), measured(), f.Verified(0, passed=True)),
        s.Save(0),
    ),
    "failed checks: put back": (
        VERIFY,
        (OPENED, loaded(), began(), ended(), measured(), f.Verified(0, passed=False)),
        s.Revert(0),
    ),
    "the stories are read again after a story": (PLAN, (OPENED, loaded(), *won()), s.LoadStories()),
    "and after a failure": (PLAN, (OPENED, loaded(), *lost()), s.LoadStories()),
    "a finished story is not run again though its box is open": (
        PLAN,
        (OPENED, loaded(), *won(), loaded()),
        s.RunAttempt(0, 2, TWO, 1, 3, ""),
    ),
    "FAILED: the reason is passed on": (
        PLAN,
        (OPENED, loaded(), *lost(reason="no net"), loaded()),
        s.RunAttempt(0, 2, ONE, 2, 3, "no net"),
    ),
    "the reason is passed on once": (
        PLAN,
        (OPENED, loaded(), *lost(reason="no net"), loaded(), *lost(2, ONE, NO_PROMISE), loaded()),
        s.RunAttempt(0, 3, ONE, 3, 3, ""),
    ),
    "an interrupted attempt keeps the reason and uses no retry": (
        PLAN,
        (OPENED, loaded(), *lost(reason="no net"), *lost(2, ONE, Outcome.INTERRUPTED), loaded()),
        s.RunAttempt(0, 3, ONE, 3, 4, "no net"),
    ),
    "the reason does not reach the next story": (
        PLAN,
        (OPENED, loaded(), *lost(), loaded(), *won(2), loaded()),
        s.RunAttempt(0, 3, TWO, 1, 3, ""),
    ),
    "nor when the story was ticked by hand and the run resumed": (
        PLAN,
        (OPENED, loaded(), *STUCK, f.Resumed(PLAN), loaded(book(story(1, done=True), TWO))),
        s.RunAttempt(0, 4, TWO, 1, 3, ""),
    ),
    "a story that comes first in between keeps its own reason": (
        PLAN,
        (OPENED, loaded(book(ONE)), *lost(reason="no net"), loaded(book(TWO, ONE))),
        s.RunAttempt(0, 2, TWO, 1, 3, ""),
    ),
    "and leaves the other's": (
        PLAN,
        (
            *(OPENED, loaded(book(ONE)), *lost(reason="no net"), loaded(book(TWO, ONE))),
            *(*won(2, TWO), loaded(book(TWO, ONE))),
        ),
        s.RunAttempt(0, 3, ONE, 2, 3, "no net"),
    ),
    "stopped before the checks: put back": (
        VERIFY,
        (OPENED, loaded(), began(), STOP, ended(), measured()),
        s.Revert(0),
    ),
    "stopped with a limit: no wait": (
        PLAN,
        (OPENED, loaded(), began(), STOP, *lost(limit=LIMIT)[1:]),
        s.Finish(Status.STOPPED),
    ),
    "stopped before the workspace stands": (PLAN, (STOP, OPENED), s.Finish(Status.STOPPED)),
    "plain, stopped before the workspace stands": (
        PLAIN,
        (STOP, OPENED),
        s.Finish(Status.STOPPED),
    ),
    "no retry is left: the choice": (PLAN, (OPENED, loaded(), *STUCK), s.AskChoice()),
    "max_retries 0 is one call": (
        replace(PLAN, limits=replace(LIMITS, max_retries=0)),
        (OPENED, loaded(), *lost()),
        s.AskChoice(),
    ),
    "all ticked: archived on request": (
        *(replace(PLAN, archive=True), (OPENED, loaded(ALL_DONE, done=True))),
        s.Archive(),
    ),
    "archived: the choice": (
        replace(PLAN, archive=True),
        (OPENED, loaded(ALL_DONE, done=True), f.Archived("a", "", "c1", "c1")),
        s.AskChoice(),
    ),
    "archiving refused: the choice": (
        replace(PLAN, archive=True),
        (OPENED, loaded(ALL_DONE, done=True), f.Archived("", "why")),
        s.AskChoice(),
    ),
    "stuck: nothing is archived": (
        *(replace(PLAN, archive=True), (OPENED, loaded(), *STUCK)),
        s.AskChoice(),
    ),
    "all ticked: the choice": (PLAN, (OPENED, loaded(ALL_DONE, done=True)), s.AskChoice()),
    "all finished but manual: the person's word": (
        MANUAL,
        (OPENED, loaded(), *won(), loaded(), *won(2, TWO, "c2"), loaded(ALL_DONE)),
        s.AwaitPerson(),
    ),
    "the person's word: the choice": (
        MANUAL,
        (OPENED, loaded(ALL_DONE), f.PersonDone()),
        s.AskChoice(),
    ),
    "the choice is carried out": (
        PLAN,
        (OPENED, loaded(ALL_DONE, done=True), f.ChoiceMade(Choice.KEEP)),
        s.Close(Choice.KEEP),
    ),
    "closed: nothing is left": (
        PLAN,
        (OPENED, loaded(ALL_DONE, done=True), f.Closed(Choice.KEEP)),
        s.Finish(Status.DONE),
    ),
    "refused: nothing is left for now": (
        PLAN,
        (OPENED, loaded(ALL_DONE, done=True), f.Refused(Choice.CLEANUP, "conflict")),
        s.Finish(Status.DONE),
    ),
    "refused, chosen again": (
        PLAN,
        (
            *(OPENED, loaded(ALL_DONE, done=True), f.Refused(Choice.CLEANUP, "conflict")),
            f.ChoiceMade(Choice.KEEP),
        ),
        s.Close(Choice.KEEP),
    ),
    "the choice failed: nothing is left for now": (
        PLAN,
        (
            *(OPENED, loaded(ALL_DONE, done=True), f.ChoiceMade(Choice.CLEANUP)),
            f.StepFailed("Close", "disk full"),
        ),
        s.Finish(Status.DONE),
    ),
    "stopped: no choice": (PLAN, (OPENED, loaded(), STOP), s.Finish(Status.STOPPED)),
    "stopped, chosen afterwards": (
        PLAN,
        (OPENED, loaded(), STOP, f.ChoiceMade(Choice.CLEANUP)),
        s.Close(Choice.CLEANUP),
    ),
    "stopped while the choice is open": (
        PLAN,
        (OPENED, loaded(ALL_DONE, done=True), STOP),
        s.Finish(Status.DONE),
    ),
    "a soft stop leaves the choice open": (
        PLAN,
        (OPENED, loaded(ALL_DONE, done=True), f.StopRequested(Stop(StopHow.AFTER_STORY))),
        s.AskChoice(),
    ),
    "abandoned": (PLAN, (f.Abandoned("gone"),), s.Finish(Status.STOPPED)),
    "a limit is waited out": (
        PLAN,
        (OPENED, loaded(), *lost(limit=LIMIT)),
        s.Wait(0, LIMIT, 0),
    ),
    "until its time": (
        PLAN,
        (OPENED, loaded(), *lost(limit=LIMIT), f.WaitStarted(0, at(61), "rate limit")),
        s.Wait(0, None, 1, at(61)),
    ),
    "then the same attempt again": (
        PLAN,
        (
            *(OPENED, loaded(), *lost(limit=LIMIT)),
            *(f.WaitStarted(0, at(61), "rate limit"), f.WaitOver(0)),
        ),
        s.RunAttempt(0, 1, ONE, 1, 3, ""),
    ),
    "a second limit has a strike": (
        PLAN,
        (
            *(OPENED, loaded(), *lost(limit=LIMIT)),
            *(f.WaitStarted(0, at(61), "rate limit"), f.WaitOver(0)),
            *lost(limit=LIMIT),
        ),
        s.Wait(0, LIMIT, 1),
    ),
    "an attempt in between clears the limit_hits": (
        PLAN,
        (
            *(OPENED, loaded(), *lost(limit=LIMIT)),
            *(f.WaitStarted(0, at(61), "rate limit"), f.WaitOver(0)),
            *(*lost(), loaded(), *lost(2, limit=LIMIT)),
        ),
        s.Wait(0, LIMIT, 0),
    ),
    "resume renews the retries of the stuck story": (
        PLAN,
        (OPENED, loaded(), *STUCK, f.Resumed(PLAN), loaded()),
        s.RunAttempt(0, 4, ONE, 4, 6, "why"),
    ),
    "resume settles an open iteration first": (
        PLAN,
        (OPENED, loaded(), began(), ended(), f.StepFailed("x", "disk"), f.Resumed(PLAN)),
        s.MeasureUsage(0),
    ),
    "plain: no stories are read": (PLAIN, (OPENED,), s.RunAttempt(0, 1, None, 1, 1, "")),
    "plain by boxes: they are": (PLAIN_TASKS, (OPENED,), s.LoadStories()),
    "plain by boxes: the same call for all": (
        PLAIN_TASKS,
        (OPENED, loaded()),
        s.RunAttempt(0, 1, None, 1, 1, ""),
    ),
    "plain: work is kept whatever was promised": (
        PLAIN,
        (OPENED, began(1, None), ended(Outcome.FAILED, "why"), measured()),
        s.Save(0),
    ),
    "plain: on with the next": (
        PLAIN,
        (OPENED, began(1, None), ended(Outcome.FAILED, "why"), measured(), kept()),
        s.RunAttempt(0, 2, None, 1, 1, ""),
    ),
    "plain: COMPLETE does not end it, nor run checks": (
        replace(PLAIN, verify=("make test",)),
        (OPENED, began(1, None), ended(), measured()),
        s.Save(0),
    ),
    "plain by boxes: they decide after each": (
        PLAIN_TASKS,
        (OPENED, loaded(), *won(1, None)),
        s.LoadStories(),
    ),
    "plain by promise: checked": (
        PLAIN_PROMISE,
        (OPENED, began(1, None), ended(), measured()),
        s.Verify(0),
    ),
    "plain: a limit is waited out": (
        PLAIN,
        (OPENED, began(1, None), ended(Outcome.AGENT_ERROR, limit=LIMIT), measured(), kept()),
        s.Wait(0, LIMIT, 0),
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_next_step(name: str) -> None:
    plan, facts, step = STEPS[name]
    assert next_steps(told(*facts, plan=plan)) == (step,)


def test_a_run_begins_untouched() -> None:
    assert begin(f.Started(PLAN), NOW) == Run(PLAN, NOW)
    assert apply(told(OPENED), f.Started(PLAN), NOW) == Run(PLAN, NOW)


def test_opened_run() -> None:
    opened = Run(PLAN, NOW, Status.RUNNING, None, ORIGIN, BACKUP, (Lane(checkpoint="c0"),))
    assert told(OPENED) == replace(opened, tip="c0", ledger=Ledger(since=at(1)))


def test_the_end_of_a_call_arrives_by_itself() -> None:
    assert next_steps(told(OPENED, loaded(), began())) == ()


def test_a_whole_story_loop() -> None:
    run = told(
        *(OPENED, loaded(), *won(), loaded(book(story(1, done=True), TWO))),
        *(*won(2, TWO, "c2"), loaded(ALL_DONE, done=True)),
        *(f.ChoiceMade(Choice.KEEP), f.Closed(Choice.KEEP)),
    )
    first, second = run.iterations
    assert (first.n, first.story_id, first.outcome, first.commits, first.done_check) == (
        *(1, "1", Outcome.COMPLETE, ("c1",), False),
    )
    assert (second.n, second.story_id, second.started, second.ended, second.done_check) == (
        *(2, "2", at(8), at(9), True),
    )
    assert run == Run(
        PLAN,
        NOW,
        Status.DONE,
        Reason.SUCCESS,
        ORIGIN,
        BACKUP,
        (Lane(checkpoint="c2"),),
        ALL_DONE,
        (first, second),
        frozenset({ONE.key, TWO.key}),
        choice=Choice.KEEP,
        closed=True,
        story_count=2,
        finished_count=2,
        ledger=run.ledger,
        listed=True,
        tip="c2",
    )


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_one_call_and_as_many_retries(retries: int) -> None:
    plan = replace(PLAN, limits=replace(LIMITS, max_retries=retries, max_iterations=99))
    run = told(OPENED, loaded(BOTH), plan=plan)
    calls = []
    while isinstance(step := next_steps(run)[0], s.RunAttempt):
        calls.append((step.attempt, step.attempts_allowed))
        for fact in (*lost(step.n), loaded()):
            run = apply(run, fact, NOW)
            if run.ended:
                break
    assert calls == [(k, 1 + retries) for k in range(1, 2 + retries)]
    assert (run.status, run.reason) == (Status.STUCK, Reason.MAX_RETRIES)
