"""How a run ends, and what each fact changes."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import (
    LIMITS,
    NOW,
    ONE,
    OPENED,
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
    put_back,
    story,
    told,
    tried,
    won,
)
from untildone.domain.agents.agent import Kind, Session, Trouble, Usage, Waiting
from untildone.domain.checks.counted_tests import Counted, Counts
from untildone.domain.run import fact as f
from untildone.domain.run.machine import apply
from untildone.domain.run.plan import Done, Plan
from untildone.domain.run.run import (
    Choice,
    Iteration,
    Lane,
    Outcome,
    Reason,
    Run,
    Stage,
    Status,
    Stop,
    StopHow,
)
from untildone.domain.run.tally import Tally

NOTHING = kept("")
IDLE = (began(1, None), ended(), measured(), NOTHING)
MANUAL = replace(PLAN, done=Done.MANUAL)
TASKS = replace(PLAIN, done=Done.TASKS)
PROMISE = replace(PLAIN, done=Done.PROMISE)
VERIFIED = replace(PROMISE, verify=("make test",))
ONE_ITERATION = replace(LIMITS, max_iterations=1)
ALL_DONE = book(story(1, done=True), story(2, done=True))
NOW_ = f.StopRequested(Stop(StopHow.NOW))
SIGNAL = f.StopRequested(Stop(StopHow.NOW, 15))
AFTER_ITERATION = f.StopRequested(Stop(StopHow.AFTER_ITERATION))
AFTER_STORY = f.StopRequested(Stop(StopHow.AFTER_STORY))
INTERRUPTED = ended(Outcome.INTERRUPTED, "stopped")
LIMIT = Trouble(Kind.QUOTA_EXHAUSTED, "usage limit", at(60))
WAIT = f.WaitStarted(0, at(60), "x")
LIMITED = (
    *(began(2, None), ended(Outcome.AGENT_ERROR, limit=LIMIT)),
    *(measured(), kept("c2")),
)
GOES_ON = (Status.RUNNING, None)
DONE = (Status.DONE, Reason.SUCCESS)
STOPPED = (Status.STOPPED, Reason.STOPPED)
STALLED = (Status.STALLED, Reason.STALLED)
CAPPED = (Status.STUCK, Reason.MAX_ITERATIONS)
SPENT = (Status.STUCK, Reason.MAX_RETRIES)
BROKEN = (Status.STUCK, Reason.ERROR)

Told = tuple[Plan, tuple[f.Fact, ...], tuple[Status, Reason | None]]

ENDINGS: dict[str, Told] = {
    "planned": (PLAN, (), (Status.STARTING, None)),
    "opened": (PLAN, (OPENED,), GOES_ON),
    "all boxes ticked": (PLAN, (OPENED, loaded(done=True)), DONE),
    "manual, all boxes ticked": (MANUAL, (OPENED, loaded(ALL_DONE)), GOES_ON),
    "manual, the person's word": (MANUAL, (OPENED, loaded(ALL_DONE), f.PersonDone()), DONE),
    "the person's word in mid-story waits for its end": (
        PLAN,
        (OPENED, loaded(), began(), f.PersonDone()),
        GOES_ON,
    ),
    "and then ends no run of stories": (
        PLAN,
        (OPENED, loaded(), began(), f.PersonDone(), ended(), measured(), kept(), loaded()),
        GOES_ON,
    ),
    "manual, and then ends the run when the stories are finished": (
        MANUAL,
        (OPENED, loaded(), began(), f.PersonDone(), ended(), measured(), kept(), loaded(ALL_DONE)),
        DONE,
    ),
    "manual, the person's word while stories are open": (
        MANUAL,
        (OPENED, loaded(), f.PersonDone()),
        GOES_ON,
    ),
    "the person's word about open stories": (PLAN, (OPENED, loaded(), f.PersonDone()), GOES_ON),
    "a soft stop after the last story does not hide that all is done": (
        PLAN,
        (
            *(OPENED, loaded(), *won(), loaded(book(story(1, done=True), TWO))),
            *(*won(2, TWO, "c2"), AFTER_STORY, loaded(ALL_DONE, done=True)),
        ),
        DONE,
    ),
    "manual, a soft stop while the word is awaited": (
        MANUAL,
        (OPENED, loaded(ALL_DONE), AFTER_STORY),
        STOPPED,
    ),
    "one failure": (PLAN, (OPENED, loaded(), *lost()), GOES_ON),
    "retries used up": (PLAN, (OPENED, loaded(), *lost(1), *lost(2), *lost(3)), SPENT),
    "no promise counts too": (
        PLAN,
        (OPENED, loaded(), *(x for n in (1, 2, 3) for x in lost(n, ONE, Outcome.NO_PROMISE))),
        SPENT,
    ),
    "interruptions use up nothing": (
        PLAN,
        (OPENED, loaded(), *(x for n in range(1, 7) for x in lost(n, ONE, Outcome.INTERRUPTED))),
        GOES_ON,
    ),
    "limits use up nothing": (
        PLAN,
        (OPENED, loaded(), *(x for _ in range(7) for x in lost(limit=LIMIT))),
        GOES_ON,
    ),
    "each story has its own retries": (
        PLAN,
        (OPENED, loaded(), *lost(1), *lost(2), *won(3), *lost(4, TWO), *lost(5, TWO), loaded()),
        GOES_ON,
    ),
    "the cap": (
        replace(PLAN, limits=ONE_ITERATION),
        (OPENED, loaded(), *won(), loaded()),
        CAPPED,
    ),
    "the cap between two attempts": (
        replace(PLAN, limits=ONE_ITERATION),
        (OPENED, loaded(), *lost(), loaded()),
        CAPPED,
    ),
    "done at the cap is done": (
        replace(PLAN, limits=ONE_ITERATION),
        (OPENED, loaded(), *won(), loaded(ALL_DONE, done=True)),
        DONE,
    ),
    "manual at the cap waits for the person": (
        replace(MANUAL, limits=ONE_ITERATION),
        (OPENED, loaded(), *won(), loaded(book(story(1, done=True)))),
        GOES_ON,
    ),
    "plain, the cap": (
        replace(PLAIN, limits=ONE_ITERATION),
        (OPENED, *won(1, None)),
        CAPPED,
    ),
    "plain by boxes, the cap": (
        replace(TASKS, limits=ONE_ITERATION),
        (OPENED, loaded(), *won(1, None), loaded()),
        CAPPED,
    ),
    "plain by boxes, done at the cap": (
        replace(TASKS, limits=ONE_ITERATION),
        (OPENED, loaded(), *won(1, None), loaded(ALL_DONE, done=True)),
        DONE,
    ),
    "plain, one idle iteration": (PLAIN, (OPENED, *IDLE), GOES_ON),
    "plain, stalled": (PLAIN, (OPENED, *IDLE, *IDLE), STALLED),
    "plain by boxes, stalled": (TASKS, (OPENED, loaded(), *IDLE, *IDLE, loaded()), STALLED),
    "plain, a commit in between": (PLAIN, (OPENED, *IDLE, *won(2, None), *IDLE), GOES_ON),
    "plain, the agent's own commit counts": (
        PLAIN,
        (OPENED, *IDLE, began(2, None), ended(commits=("a1",)), measured(), NOTHING),
        GOES_ON,
    ),
    "story loop, failures do not stall": (
        replace(PLAN, limits=replace(LIMITS, max_retries=9)),
        (OPENED, loaded(), *(x for n in range(1, 5) for x in (*lost(n), loaded()))),
        GOES_ON,
    ),
    "plain, COMPLETE does not end it": (PLAIN, (OPENED, *won(1, None)), GOES_ON),
    "plain by promise, COMPLETE ends it": (PROMISE, (OPENED, *won(1, None)), DONE),
    "plain by promise, FAILED does not": (
        PROMISE,
        (OPENED, began(1, None), ended(Outcome.FAILED), measured(), kept()),
        GOES_ON,
    ),
    "plain by promise, a failed check does not": (
        VERIFIED,
        (
            *(OPENED, began(1, None), ended(), measured()),
            *(f.Verified(0, passed=False, reason="red"), kept()),
        ),
        GOES_ON,
    ),
    "plain, the person's word": (PLAIN, (OPENED, f.PersonDone()), DONE),
    "plain, the person's word in mid-iteration": (
        PLAIN,
        (OPENED, began(1, None), f.PersonDone(), ended(), measured(), kept()),
        DONE,
    ),
    "stop between stories": (PLAN, (OPENED, loaded(), NOW_), STOPPED),
    "soft stop between stories waits for the next look": (
        PLAN,
        (OPENED, loaded(), AFTER_STORY),
        GOES_ON,
    ),
    "and takes effect there": (PLAN, (OPENED, loaded(), AFTER_STORY, loaded()), STOPPED),
    "soft stop before the stories are read": (PLAN, (OPENED, AFTER_ITERATION), GOES_ON),
    "and when they are": (PLAN, (OPENED, AFTER_ITERATION, loaded()), STOPPED),
    "soft stop, but all is done": (
        PLAN,
        (OPENED, AFTER_ITERATION, loaded(ALL_DONE, done=True)),
        DONE,
    ),
    "manual, soft stop while only the word is missing": (
        MANUAL,
        (OPENED, loaded(ALL_DONE), AFTER_STORY),
        STOPPED,
    ),
    "stop in mid-attempt waits for its end": (PLAN, (OPENED, loaded(), began(), NOW_), GOES_ON),
    "stop in mid-attempt": (
        PLAN,
        (OPENED, loaded(), began(), NOW_, INTERRUPTED, measured(), put_back()),
        STOPPED,
    ),
    "stop while COMPLETE is being saved": (
        PLAN,
        (OPENED, loaded(), began(), ended(), measured(), NOW_, kept()),
        STOPPED,
    ),
    "stop after the iteration, which failed": (
        PLAN,
        (OPENED, loaded(), began(), AFTER_ITERATION, *lost()[1:], loaded()),
        STOPPED,
    ),
    "stop after the iteration, which was the last": (
        PLAN,
        (OPENED, loaded(), began(), AFTER_ITERATION, *won()[1:], loaded(ALL_DONE, done=True)),
        DONE,
    ),
    "stop after the story, whose attempt failed": (
        PLAN,
        (OPENED, loaded(), began(), AFTER_STORY, *lost()[1:], loaded()),
        GOES_ON,
    ),
    "stop after the story": (
        PLAN,
        (OPENED, loaded(), began(), AFTER_STORY, *lost()[1:], loaded(), *won(2), loaded()),
        STOPPED,
    ),
    "stop while the stories are read": (
        PLAN,
        (OPENED, loaded(), *won(), AFTER_STORY, loaded()),
        STOPPED,
    ),
    "stop on the last retry": (
        PLAN,
        (OPENED, loaded(), *lost(1), *lost(2), began(3), NOW_, *lost(3)[1:]),
        SPENT,
    ),
    "stop before the workspace stands": (PLAN, (NOW_,), (Status.STARTING, None)),
    "and once it stands": (PLAN, (NOW_, OPENED), STOPPED),
    "plain, and once it stands": (PLAIN, (SIGNAL, OPENED), STOPPED),
    "soft stop before the workspace stands": (PLAN, (AFTER_STORY, OPENED), GOES_ON),
    "and when the stories are read": (PLAN, (AFTER_STORY, OPENED, loaded()), STOPPED),
    "stop while waiting": (
        PLAN,
        (OPENED, loaded(), *lost(limit=LIMIT), WAIT, SIGNAL),
        STOPPED,
    ),
    "soft stop while waiting": (
        PLAN,
        (OPENED, loaded(), *lost(limit=LIMIT), WAIT, AFTER_ITERATION),
        STOPPED,
    ),
    "soft stop before the wait": (
        PLAN,
        (OPENED, loaded(), *won(), loaded(), *lost(2, TWO, limit=LIMIT), AFTER_STORY),
        STOPPED,
    ),
    "soft stop while a story with a failed attempt waits": (
        PLAN,
        (OPENED, loaded(), *lost(), loaded(), *lost(2, limit=LIMIT), WAIT, AFTER_STORY),
        GOES_ON,
    ),
    "plain, soft stop while waiting": (
        PLAIN,
        (OPENED, *won(1, None), *LIMITED, WAIT, AFTER_ITERATION),
        STOPPED,
    ),
    "stop and a limit in the same attempt": (
        PLAN,
        (OPENED, loaded(), began(), SIGNAL, *lost(outcome=Outcome.INTERRUPTED, limit=LIMIT)[1:]),
        STOPPED,
    ),
    "plain, stop and a limit in the same iteration": (
        PLAIN,
        (OPENED, began(1, None), SIGNAL, *LIMITED[1:]),
        STOPPED,
    ),
    "soft stop and a limit in the same attempt": (
        PLAN,
        (OPENED, loaded(), began(), AFTER_ITERATION, *lost(limit=LIMIT)[1:]),
        GOES_ON,
    ),
    "stop before the checks": (
        replace(PLAN, verify=("make test",)),
        (OPENED, loaded(), began(), NOW_, ended(), measured(), put_back()),
        STOPPED,
    ),
    "plain, stop in mid-iteration": (
        PLAIN,
        (OPENED, began(1, None), NOW_, INTERRUPTED, measured(), kept()),
        STOPPED,
    ),
    "plain by boxes, stop in mid-iteration": (
        TASKS,
        (OPENED, loaded(), began(1, None), NOW_, INTERRUPTED, measured(), kept()),
        STOPPED,
    ),
    "plain, stop after the iteration": (
        PLAIN,
        (OPENED, began(1, None), AFTER_ITERATION, ended(), measured(), kept()),
        STOPPED,
    ),
    "plain, after the story is after the iteration": (
        PLAIN,
        (OPENED, began(1, None), AFTER_STORY, ended(), measured(), kept()),
        STOPPED,
    ),
    "plain by boxes, stop after the iteration": (
        TASKS,
        (OPENED, loaded(), began(1, None), AFTER_ITERATION, *won(1, None)[1:], loaded()),
        STOPPED,
    ),
    "stop after the end changes nothing": (PLAN, (OPENED, loaded(done=True), SIGNAL), DONE),
    "stories read after the end change nothing": (
        PLAN,
        (OPENED, loaded(), NOW_, loaded(ALL_DONE, done=True)),
        STOPPED,
    ),
    "a step failed": (PLAN, (OPENED, loaded(), f.StepFailed("Save", "disk")), BROKEN),
    "opening failed": (PLAN, (f.StepFailed("Open", "disk"),), (Status.STOPPED, None)),
    "a step failed after the end": (
        PLAN,
        (OPENED, loaded(done=True), f.StepFailed("Close", "disk")),
        DONE,
    ),
    "abandoned in mid-run": (PLAN, (OPENED, f.Abandoned("restored")), (Status.STOPPED, None)),
    "abandoned after the end": (PLAN, (OPENED, loaded(done=True), f.Abandoned("restored")), DONE),
    "resumed": (PLAN, (OPENED, loaded(), NOW_, f.Resumed(PLAN)), GOES_ON),
    "resumed at the cap with a new cap": (
        replace(PLAN, limits=ONE_ITERATION),
        (OPENED, loaded(), *won(), loaded(), f.Resumed(PLAN), loaded()),
        GOES_ON,
    ),
    "resumed after a stall": (PLAIN, (OPENED, *IDLE, *IDLE, f.Resumed(PLAIN), *IDLE), GOES_ON),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_status_and_reason(name: str) -> None:
    plan, facts, expected = ENDINGS[name]
    run = told(*facts, plan=plan)
    assert (run.status, run.reason) == expected


def iteration(n: int = 1, **more: object) -> Iteration:
    base = Iteration(n, at(3), "1", n, 3, ONE.key, f"logs/{n}")
    return replace(base, **more)


def test_stages_of_an_iteration() -> None:
    usage = Usage(5, 7)
    plan = replace(PLAN, verify=("make test",))
    call = f.AttemptEnded(0, Outcome.COMPLETE, "", ("a1",), Usage(1), None, Session("s1"))
    facts: tuple[f.Fact, ...] = (began(), call, measured(usage), f.Verified(0, passed=True))
    seen = [told(OPENED, loaded(), *facts[:k], plan=plan).lanes[0].iteration for k in range(1, 5)]
    over = iteration(
        ended=at(4),
        outcome=Outcome.COMPLETE,
        commits=("a1",),
        usage=Usage(1),
        session=Session("s1"),
    )
    assert seen == [
        iteration(),
        replace(over, stage=Stage.ENDED),
        replace(over, stage=Stage.MEASURED, usage=usage),
        replace(over, stage=Stage.JUDGED, usage=usage),
    ]


JUDGED = (OPENED, loaded(), began(), ended(), measured())
VERDICTS: dict[str, tuple[tuple[f.Fact, ...], Outcome, str]] = {
    "passed": ((f.Verified(0, passed=True),), Outcome.COMPLETE, ""),
    "failed": ((f.Verified(0, passed=False, reason="red"),), Outcome.VERIFY_FAILED, "red"),
    "passed in spite of a stop": ((NOW_, f.Verified(0, passed=True)), Outcome.COMPLETE, ""),
    "cut short": ((NOW_, f.Verified(0, passed=False, reason="cut")), Outcome.INTERRUPTED, "cut"),
    "failed before a soft stop": (
        (AFTER_STORY, f.Verified(0, passed=False, reason="red")),
        Outcome.VERIFY_FAILED,
        "red",
    ),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdict_of_the_checks(name: str) -> None:
    facts, outcome, reason = VERDICTS[name]
    judged = told(*JUDGED, *facts, plan=replace(PLAN, verify=("make test",))).lanes[0].iteration
    expected = iteration(ended=at(4), stage=Stage.JUDGED, outcome=outcome, reason=reason)
    assert judged == expected


@pytest.mark.parametrize("stop", [NOW_, SIGNAL])
def test_a_stop_before_the_checks_interrupts_the_attempt(stop: f.StopRequested) -> None:
    facts = (OPENED, loaded(), began(), stop, ended())
    plan = replace(PLAN, verify=("make test",))
    before, after = told(*facts, plan=plan), told(*facts, measured(Usage(1, 2)), plan=plan)
    judged = iteration(
        ended=at(5),
        stage=Stage.JUDGED,
        outcome=Outcome.INTERRUPTED,
        reason="the loop was stopped before the checks ran",
        usage=Usage(1, 2),
    )
    lanes = (Lane(checkpoint="c0", iteration=judged),)
    assert after == replace(before, lanes=lanes, ledger=after.ledger)


def test_a_soft_stop_lets_the_checks_run() -> None:
    plan = replace(PLAN, verify=("make test",))
    run = told(OPENED, loaded(), began(), AFTER_ITERATION, ended(), measured(), plan=plan)
    open_iteration = iteration(ended=at(5), stage=Stage.MEASURED, outcome=Outcome.COMPLETE)
    assert run.lanes == (Lane(checkpoint="c0", iteration=open_iteration),)


def test_saved_story() -> None:
    before = told(OPENED, loaded(), *lost(), loaded(), began(2), ended(commits=("a1",)), measured())
    after = told(
        *(OPENED, loaded(), *lost(), loaded()),
        *(began(2), ended(commits=("a1",)), measured(), f.Saved(0, "c1", "c1")),
    )
    open_iteration = before.lanes[0].iteration
    assert open_iteration is not None
    assert after == replace(
        before,
        book=None,
        lanes=(Lane(checkpoint="c1"),),
        tip="c1",
        finished=frozenset({ONE.key}),
        finished_count=1,
        iterations=(*before.iterations, replace(open_iteration, commits=("a1", "c1"))),
        tallies={},
        ledger=after.ledger,
    )


def test_a_story_that_was_taken_out_is_open_again_and_the_run_before_its_end() -> None:
    over = (f.ChoiceMade(Choice.KEEP), f.Closed(Choice.KEEP))
    ended_run = told(OPENED, loaded(), *won(), loaded(), *won(2, TWO), loaded(done=True), *over)
    run = apply(ended_run, f.StoryUndone(ONE.key, "c9"), at(90))
    assert run.finished == frozenset({TWO.key})
    assert run.finished_count == ended_run.finished_count - 1
    assert (run.tip, run.lanes[0].checkpoint) == ("c9", "c9")
    assert run.tally(ONE.key) == Tally(1)
    assert (run.status, run.choice, run.closed, run.undone) == (Status.RUNNING, None, False, True)
    assert run.resumable
    assert run.iterations == ended_run.iterations


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Outcome.FAILED, "why"),
        (Outcome.VERIFY_FAILED, "why"),
        (Outcome.NO_PROMISE, ""),
        (Outcome.TIMEOUT, ""),
        (Outcome.IDLE_TIMEOUT, ""),
        (Outcome.AGENT_ERROR, ""),
    ],
)
def test_reverted_attempt(outcome: Outcome, reason: str) -> None:
    before = told(OPENED, loaded(), *lost(1, ONE, outcome)[:-1])
    after = told(OPENED, loaded(), *lost(1, ONE, outcome))
    open_iteration = before.lanes[0].iteration
    assert open_iteration is not None
    assert after == replace(
        before,
        book=None,
        lanes=(Lane(checkpoint="c0"),),
        iterations=(replace(open_iteration, saved_ref="refs/ralph/attempts/demo/1/1"),),
        tallies={ONE.key: Tally(1, 1, reason, (tried(1, outcome),))},
    )


def test_interrupted_attempt_is_a_call_but_not_a_retry_and_keeps_the_reason() -> None:
    interrupted = lost(2, ONE, Outcome.INTERRUPTED, "stopped")
    tally = Tally(2, 1, "why", (tried(),))
    assert told(OPENED, loaded(), *lost(), *interrupted).tallies == {ONE.key: tally}


def test_reasons_belong_to_their_stories() -> None:
    facts = (OPENED, loaded(), *lost(reason="one"), *lost(2, TWO, reason="two"))
    one = Tally(1, 1, "one", (tried(why="one"),))
    failed = tried(why="two")
    two = Tally(1, 1, "two", (failed,))
    assert told(*facts).tallies == {ONE.key: one, TWO.key: two}
    assert told(*facts, *won(3)).tallies == {TWO.key: two}
    assert told(*facts, *lost(3, TWO, Outcome.TIMEOUT)).tallies == {
        ONE.key: one,
        TWO.key: Tally(2, 2, "", (failed, tried(2, Outcome.TIMEOUT))),
    }


def test_a_limit_leaves_no_entry() -> None:
    before = told(OPENED, loaded())
    limited = told(OPENED, loaded(), *lost(limit=LIMIT))
    lanes = (Lane(checkpoint="c0", limit=LIMIT, limited="scripted"),)
    assert limited == replace(before, lanes=lanes, ledger=limited.ledger)
    waiting = told(OPENED, loaded(), *lost(limit=LIMIT), f.WaitStarted(0, at(60), "usage limit"))
    lane = Lane(checkpoint="c0", waiting=Waiting(at(60), "usage limit"), limit_hits=1)
    assert waiting == replace(before, lanes=(lane,), ledger=waiting.ledger)


def test_plain_limit_keeps_the_work_and_leaves_no_entry() -> None:
    call = ended(Outcome.AGENT_ERROR, limit=LIMIT)
    run = told(OPENED, began(1, None), call, measured(), kept(), plan=PLAIN)
    lane = Lane(checkpoint="c1", limit=LIMIT, limited="scripted")
    assert run == replace(told(OPENED, plan=PLAIN), lanes=(lane,), tip="c1", ledger=run.ledger)


def test_plain_promise_is_the_done_check() -> None:
    (entry,) = told(OPENED, *won(1, None), plan=PROMISE).iterations
    assert entry.done_check


def test_person_done_forgets_a_stop() -> None:
    facts = (OPENED, began(1, None), NOW_, INTERRUPTED, measured(), kept())
    run = told(*facts, plan=PLAIN)
    assert run.stop == NOW_.stop
    ended_run = told(*facts, f.PersonDone(), plan=PLAIN)
    assert ended_run == replace(
        run, person_done=True, stop=None, status=Status.DONE, reason=Reason.SUCCESS
    )


OVER = (OPENED, loaded(done=True))


def test_choice_closed_refused() -> None:
    run = told(*OVER)
    chosen = told(*OVER, f.ChoiceMade(Choice.CLEANUP))
    assert chosen == replace(run, choice=Choice.CLEANUP)
    closed = told(*OVER, f.ChoiceMade(Choice.CLEANUP), f.Closed(Choice.CLEANUP))
    assert closed == replace(chosen, closed=True)
    refused = told(*OVER, f.ChoiceMade(Choice.CLEANUP), f.Refused(Choice.CLEANUP, "conflict"))
    assert refused == replace(run, closed=True, refused=True, error="conflict")
    again = f.ChoiceMade(Choice.KEEP)
    facts = (*OVER, NOW_, f.Refused(Choice.CLEANUP, "conflict"), again)
    assert told(*facts) == replace(run, choice=Choice.KEEP, error="conflict")


def test_failed_opening_is_abandoned() -> None:
    run = Run(PLAN, NOW, Status.STOPPED, abandoned=True, error="disk")
    assert told(f.StepFailed("Open", "disk")) == run


def test_failed_step_leaves_the_iteration_open() -> None:
    before = told(OPENED, loaded(), began(), ended())
    after = told(OPENED, loaded(), began(), ended(), f.StepFailed("MeasureUsage", "disk"))
    (lane,) = before.lanes
    broken = replace(before, lanes=(replace(lane, broken=True),), error="disk")
    assert after == replace(broken, status=Status.STUCK, reason=Reason.ERROR)


def test_a_choice_that_failed_is_still_open() -> None:
    run = told(*OVER)
    facts = (*OVER, f.ChoiceMade(Choice.CLEANUP), f.StepFailed("Close", "disk full"))
    failed = replace(run, closed=True, refused=True, choice=None, error="disk full")
    assert told(*facts) == failed
    assert told(*facts, f.ChoiceMade(Choice.KEEP)) == replace(
        failed, closed=False, refused=False, choice=Choice.KEEP
    )


def test_adopted_and_abandoned() -> None:
    run = told(OPENED)
    adopted = replace(run, lanes=(Lane(checkpoint="c9"),), tip="c9")
    assert told(OPENED, f.Adopted(0, "c9")) == adopted
    assert told(OPENED, f.Abandoned("restored")) == replace(
        run, abandoned=True, status=Status.STOPPED, error="restored"
    )


def test_a4_tests_that_the_person_takes_away_between_two_processes_are_no_failure() -> None:
    counted = f.ChecksTried(counted=(Counted("test", Counts(5)),))
    assert told(OPENED, counted, f.Adopted(0, "c0")).counted == counted.counted
    assert told(OPENED, counted, f.Adopted(0, "c9")).counted == ()


def test_resumed_forgets_the_ending_and_renews_the_retries() -> None:
    plan = replace(PLAN, model="better")
    facts = (OPENED, loaded(), *lost(1), *lost(2), *lost(3))
    stuck = told(*facts, f.ChoiceMade(Choice.KEEP), f.Closed(Choice.KEEP), NOW_)
    run = told(*facts, f.ChoiceMade(Choice.KEEP), f.Closed(Choice.KEEP), NOW_, f.Resumed(plan))
    assert run == replace(
        stuck,
        ledger=run.ledger,
        plan=plan,
        status=Status.RUNNING,
        reason=None,
        tallies={ONE.key: Tally(3, 0, "why", (tried(1), tried(2), tried(3)))},
        stop=None,
        choice=None,
        closed=False,
        listed=False,
    )


def test_asked_again_opens_the_choice_and_nothing_else() -> None:
    plan = replace(PLAN, model="better")
    run = told(*OVER)
    assert told(*OVER, SIGNAL, f.AskedAgain(plan)) == replace(run, plan=plan)
    facts = (*OVER, f.ChoiceMade(Choice.CLEANUP), f.Refused(Choice.CLEANUP, "conflict"))
    assert told(*facts, f.AskedAgain(PLAN)) == replace(run, error="conflict")
    stuck = (OPENED, loaded(), *lost(1), *lost(2), *lost(3))
    assert told(*stuck, SIGNAL, f.AskedAgain(PLAN)) == told(*stuck)


def test_words_of_a_run() -> None:
    assert [told(*facts).current_iteration for facts in ((), (OPENED, loaded(), began(4)))] == [
        *(0, 4),
    ]
    assert told(OPENED, loaded(), *won(3)).current_iteration == 3
    run = told(OPENED)
    assert run.origin is not None
    assert (run.origin.label, replace(run.origin, branch="").label) == ("feature/x", "0" * 40)
    outcomes = [o for o in Outcome if iteration(outcome=o).timed_out]
    assert outcomes == [Outcome.TIMEOUT, Outcome.IDLE_TIMEOUT]


def plain_trees(*trees: str) -> Run:
    facts: list[f.Fact] = [OPENED]
    for n, tree in enumerate(trees, 1):
        commit = f"c{n}" if n < 2 or tree != trees[n - 2] else ""
        facts += [began(n, None), ended(), measured(), replace(kept(commit), tree=tree)]
    return told(*facts, plan=PLAIN)


BACK_AND_FORTH = {
    "always something new": (("a", "b", "c", "d"), 0),
    "one step back": (("a", "b", "a"), 1),
    "on after a step back": (("a", "b", "a", "c"), 0),
    "two steps back": (("a", "b", "a", "b"), 2),
    "nothing at all": (("a", "a"), 1),
    "trees of an old journal": (("", "x", ""), 0),
}


@pytest.mark.parametrize("name", BACK_AND_FORTH)
def test_a_plain_loop_that_goes_back_and_forth_makes_no_progress(name: str) -> None:
    trees, commitless = BACK_AND_FORTH[name]
    run = plain_trees(*trees)
    assert run.commitless == commitless
    assert run.status is (Status.STALLED if commitless == 2 else Status.RUNNING)


def test_a_check_that_cannot_start_later_leaves_the_choice_to_the_person() -> None:
    run = told(OPENED, loaded(), *won(), f.ChecksTried(cannot_start=("gone",)))
    assert (run.status, run.choice, run.known_failures) == (Status.STUCK, None, None)
    assert "`gone`" in run.error
    again = apply(run, f.Resumed(PLAN), NOW)
    assert again.cannot_start == ()
