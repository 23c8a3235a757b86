"""What the world is told: the events of each fact, word for word."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import (
    BACKUP,
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
from untildone.app.announce import announce
from untildone.domain.agents.agent import AgentText, AgentTool, Kind, Permissions, Trouble, Usage
from untildone.domain.reporting.event import Event, noticed, warning
from untildone.domain.run import fact as f
from untildone.domain.run.machine import apply, begin
from untildone.domain.run.plan import Done, Plan
from untildone.domain.run.run import Choice, Outcome, Reason, Status, Stop, StopHow
from untildone.domain.run.spending import Forecast
from untildone.domain.stories.story import Remark

VERIFY = replace(PLAN, verify=("make test",))
MANUAL = replace(PLAN, done=Done.MANUAL)
ALL_DONE = book(story(1, done=True), story(2, done=True))
ONE_ITERATION = replace(PLAN, limits=replace(LIMITS, max_iterations=1))
WAITS = {"why": "usage limit", "until": at(60), "class": Kind.QUOTA_EXHAUSTED}
WAIT = f.WaitStarted(0, at(60), "usage limit", Kind.QUOTA_EXHAUSTED)
LIMIT = Trouble(Kind.QUOTA_EXHAUSTED, "usage limit", at(60))
IDLE = (began(1, None), ended(), measured(), kept(""))
STOP = f.StopRequested(Stop(StopHow.NOW))
SIGNAL = f.StopRequested(Stop(StopHow.NOW, 15))
OVER = (OPENED, loaded(done=True))
REF = "refs/ralph/attempts/demo/1/1"
COMPLETE = Event(
    "complete",
    {"reason": Reason.SUCCESS, "options": ["cleanup", "keep"], "checked": False, "stories": {}},
)
REVERTED = Event("reverted", {"story_id": "1", "saved_ref": REF})


def finished(choice: Choice | None, status: Status, *notes: str) -> Event:
    return Event("finished", {"choice": choice, "status": status, "notes": notes})


def stopped(reason: Reason = Reason.STOPPED) -> Event:
    return Event("complete", {**COMPLETE.data, "reason": reason})


def left_to_person(reason: Reason) -> Event:
    return Event("complete", {**COMPLETE.data, "reason": reason, "by": "person"})


def no_retry_left(more: str = "") -> Event:
    data = {
        "message": f"Story 1: no retry is left after attempt 1{more}",
        "story_id": "1",
        "reason": "why",
        "saved_ref": REF,
        "hint": "`untildone attempts demo --show 1/1` shows the last attempt, "
        "`untildone resume demo` tries again",
    }
    return Event("error", data)


def stalled(what: str) -> Event:
    text = f"{what}; what was done before is kept"
    hint = "`untildone logs demo` shows what the agent said, `untildone resume demo` goes on"
    return Event("error", {"message": text, "story_id": "", "reason": text, "hint": hint})


def forth(tree: str) -> tuple[f.Fact, ...]:
    """An iteration of the plain loop that leaves this tree, and a commit called like it."""
    return (began(1, None), ended(), measured(), replace(kept(tree), tree=tree))


PROMISED = warning(
    "The agent said COMPLETE, which does not end this run: `untildone done demo` does"
)


def saved_event(name: str, commit: str, **more: object) -> Event:
    data = {"story_id": name, "commit": commit, "attempt": 1}
    return Event("checkpoint_saved", data | {"verified": False, "unchanged": False} | more)


def run_started(**more: object) -> Event:
    data = {
        "change_id": "demo",
        "run_id": "r1",
        "agent": "scripted",
        "source": "fake",
        "task": "Do it.",
        "done_criteria": Done.TASKS,
        "max_iterations": 9,
        "max_retries": 2,
        "verify": (),
        "commands": [],
        "checked": False,
        "verify_found": (),
        "protected": (),
        "permissions": Permissions.FULL,
        "sandbox": "off",
        "original_branch": "feature/x",
        "backup_ref": BACKUP,
        "resumed": False,
        "budgets": [],
    }
    return Event("run_started", data | more)


def ended_event(
    outcome: Outcome, reason: str = "", tokens: int | None = None, commits: tuple[str, ...] = ()
) -> Event:
    data = {
        "n": 1,
        "story_id": "1",
        "attempt": 1,
        "outcome": outcome,
        "outcome_class": str(outcome),
        "reason": reason,
        "tokens_used": tokens,
        "commits": commits,
    }
    return Event("iteration_ended", data)


STARTED_1 = Event(
    "iteration_started",
    {
        "n": 1,
        "story_id": "1",
        "title": "Story 1",
        "attempt": 1,
        "attempts_allowed": 3,
        "log_file": "logs/1",
        "agent": "scripted",
        "model": "",
    },
)
STARTED_PLAIN = Event(
    "iteration_started",
    {
        "n": 1,
        "story_id": "",
        "title": "",
        "attempt": 1,
        "attempts_allowed": 1,
        "log_file": "logs/1",
        "agent": "scripted",
        "model": "",
    },
)
STORIES = [
    {"id": "1", "title": "Story 1", "state": "open"},
    {"id": "2", "title": "Story 2", "state": "done"},
]
CAP = "The cap of 1 iteration is reached"

# The plan, what happened before, the fact, and its events.
Told = tuple[Plan, tuple[f.Fact, ...], f.Fact, tuple[Event, ...]]
ATTEMPT = (OPENED, loaded(), began())

EVENTS: dict[str, Told] = {
    "planned": (PLAN, (), f.Started(PLAN), ()),
    "opened": (PLAN, (), OPENED, (run_started(),)),
    "opened with remarks and an archive": (
        PLAN,
        (),
        f.Opened(
            replace(ORIGIN, branch=""), "c0", BACKUP, "refs/ralph/archive/demo/1", ("nested",)
        ),
        (
            run_started(original_branch="0" * 40),
            warning("nested"),
            warning("An earlier ralph/demo was stored as: refs/ralph/archive/demo/1"),
        ),
    ),
    "resumed": (PLAN, (OPENED,), f.Resumed(PLAN), (run_started(resumed=True),)),
    "resumed while it waits": (
        PLAN,
        (
            OPENED,
            loaded(),
            *lost(limit=LIMIT),
            WAIT,
            STOP,
        ),
        f.Resumed(PLAN),
        (
            run_started(resumed=True),
            Event("waiting", WAITS),
        ),
    ),
    "asked again": (
        PLAN,
        (*OVER, SIGNAL),
        f.AskedAgain(PLAN),
        (run_started(resumed=True), COMPLETE),
    ),
    "resumed before it was opened": (
        PLAN,
        (),
        f.Resumed(PLAN),
        (run_started(resumed=True, original_branch="", backup_ref=""),),
    ),
    "first reading lists the stories": (
        PLAN,
        (OPENED,),
        loaded(book(ONE, story(2, done=True), ignored=(Remark(7, "odd"),))),
        (
            Event(
                "stories_loaded",
                {
                    "total": 2,
                    "complete": 1,
                    "next": "1",
                    "stories": STORIES,
                    "ignored": [{"line": 7, "why": "odd"}],
                },
            ),
        ),
    ),
    "later readings do not": (
        PLAN,
        (OPENED, loaded(), *won()),
        loaded(book(story(1, done=True), TWO)),
        (
            Event(
                "stories_loaded",
                {
                    "total": 2,
                    "complete": 1,
                    "next": "2",
                    "ignored": [],
                    "forecast": Forecast(1, 0, None, 0.03),
                },
            ),
        ),
    ),
    "but for the first after a resume": (
        PLAN,
        (OPENED, loaded(), *won(), STOP, f.Resumed(PLAN)),
        loaded(book(ONE, story(2, done=True))),
        (
            Event(
                "stories_loaded",
                {
                    "total": 2,
                    "complete": 1,
                    "next": None,
                    "stories": STORIES,
                    "ignored": [],
                    "forecast": Forecast(1, 0, None, 0.03),
                },
            ),
        ),
    ),
    "only the person's word is missing": (
        replace(PLAN, done=Done.MANUAL),
        (OPENED, loaded(), *won()),
        loaded(book(story(1, done=True))),
        (
            Event("stories_loaded", {"total": 1, "complete": 1, "next": None, "ignored": []}),
            Event(
                "waiting",
                {"why": "all stories are finished; say `untildone done demo`", "until": None},
            ),
        ),
    ),
    "plain readings only count": (
        replace(PLAIN, done=Done.TASKS),
        (OPENED,),
        loaded(),
        (Event("stories_loaded", {"total": 2, "complete": 0}),),
    ),
    "all done": (
        PLAN,
        (OPENED, loaded(), *won()),
        f.StoriesLoaded(2, 2, done=True),
        (Event("stories_loaded", {"total": 2, "complete": 2}), COMPLETE),
    ),
    "iteration started": (PLAN, (OPENED, loaded()), began(), (STARTED_1,)),
    "plain iteration started": (PLAIN, (OPENED,), began(1, None), (STARTED_PLAIN,)),
    "the agent's end alone says nothing": (PLAN, ATTEMPT, ended(), ()),
    "measured": (
        PLAN,
        (*ATTEMPT, ended(commits=("a1",))),
        f.UsageMeasured(0, Usage(3, 4, 100), ("odd numbers",)),
        (
            warning("odd numbers"),
            ended_event(Outcome.COMPLETE, tokens=7, commits=("a1",)),
        ),
    ),
    "measured, checks to come": (VERIFY, (*ATTEMPT, ended()), measured(), ()),
    "measured, a limit": (PLAN, (*ATTEMPT, ended(limit=LIMIT)), measured(), ()),
    "checks failed": (
        VERIFY,
        (*ATTEMPT, ended(), measured()),
        f.Verified(0, passed=False, reason="red"),
        (ended_event(Outcome.VERIFY_FAILED, "red"),),
    ),
    "judged a second time": (
        PLAN,
        (*ATTEMPT, ended(), measured()),
        f.Verified(0, passed=False, reason="the story is gone"),
        (),
    ),
    "stopped before the checks": (
        VERIFY,
        (*ATTEMPT, STOP, ended()),
        measured(Usage(1, 2)),
        (ended_event(Outcome.INTERRUPTED, "the loop was stopped before the checks ran", 3),),
    ),
    "opened after a stop": (
        PLAN,
        (STOP,),
        OPENED,
        (run_started(), stopped(), finished(None, Status.STOPPED)),
    ),
    "opened after a signal": (
        PLAN,
        (SIGNAL,),
        OPENED,
        (run_started(), finished(None, Status.STOPPED)),
    ),
    "saved": (
        PLAN,
        (*ATTEMPT, ended(), measured()),
        f.Saved(0, "c1", "c1", ("boxes taken back",)),
        (
            warning("boxes taken back"),
            saved_event("1", "c1"),
        ),
    ),
    "plain saved": (
        PLAIN,
        (OPENED, began(4, None), ended(), measured()),
        kept(),
        (saved_event("iteration-4", "c1"), PROMISED),
    ),
    "plain, nothing to save": (
        PLAIN,
        (OPENED, began(1, None), ended(), measured()),
        kept(""),
        (PROMISED,),
    ),
    "reverted, on to the next attempt": (
        PLAN,
        (*ATTEMPT, ended(Outcome.FAILED, "why"), measured()),
        f.Reverted(0, REF, ("main was put back",)),
        (
            warning("main was put back"),
            REVERTED,
            Event(
                "retrying",
                {
                    "story_id": "1",
                    "attempt": 2,
                    "attempts_allowed": 3,
                    "retry": 1,
                    "reason": "why",
                },
            ),
        ),
    ),
    "reverted, retries used up": (
        replace(PLAN, limits=replace(LIMITS, max_retries=0)),
        (*ATTEMPT, ended(Outcome.FAILED, "why"), measured()),
        f.Reverted(0, REF),
        (
            REVERTED,
            no_retry_left(),
            stopped(Reason.MAX_RETRIES),
        ),
    ),
    "reverted, the list of stories stays broken": (
        PLAN,
        (*ATTEMPT, ended(), measured(), f.Verified(0, passed=False, reason="why", fatal=True)),
        f.Reverted(0, REF),
        (
            REVERTED,
            Event("error", {**no_retry_left().data, "message": "why"}),
            stopped(Reason.ERROR),
        ),
    ),
    "reverted, retries used up, others wait": (
        replace(PLAN, limits=replace(LIMITS, max_retries=0)),
        (
            OPENED,
            loaded(book(ONE, story(2, after=("1",)), story(3, after=("2",)))),
            *ATTEMPT[2:],
            ended(Outcome.FAILED, "why"),
            measured(),
        ),
        f.Reverted(0, REF),
        (
            REVERTED,
            no_retry_left("; not started because of it: 2, 3"),
            stopped(Reason.MAX_RETRIES),
        ),
    ),
    "reverted, a limit": (
        PLAN,
        (*ATTEMPT, ended(Outcome.AGENT_ERROR, limit=LIMIT), measured()),
        f.Reverted(0, REF),
        (REVERTED,),
    ),
    "reverted, a limit and a signal": (
        PLAN,
        (*ATTEMPT, SIGNAL, ended(Outcome.INTERRUPTED, limit=LIMIT), measured()),
        f.Reverted(0, REF),
        (REVERTED, finished(None, Status.STOPPED)),
    ),
    "reverted, interrupted": (
        PLAN,
        (*ATTEMPT, ended(Outcome.INTERRUPTED), measured()),
        f.Reverted(0, REF),
        (REVERTED,),
    ),
    "reverted, stopped on request": (
        PLAN,
        (*ATTEMPT, STOP, ended(Outcome.FAILED), measured()),
        f.Reverted(0, REF),
        (REVERTED, stopped(), finished(None, Status.STOPPED)),
    ),
    "reverted, stopped by a signal": (
        PLAN,
        (*ATTEMPT, SIGNAL, ended(Outcome.INTERRUPTED), measured()),
        f.Reverted(0, REF),
        (REVERTED, finished(None, Status.STOPPED)),
    ),
    "a wait": (
        PLAN,
        (OPENED, loaded(), *lost(limit=LIMIT)),
        WAIT,
        (Event("waiting", WAITS),),
    ),
    "a wait is over": (
        PLAN,
        (
            OPENED,
            loaded(),
            *lost(limit=LIMIT),
            WAIT,
        ),
        f.WaitOver(0),
        (),
    ),
    "the cap": (
        ONE_ITERATION,
        (OPENED, loaded(), *won()),
        f.StoriesLoaded(2, 1, done=False),
        (
            Event("stories_loaded", {"total": 2, "complete": 1}),
            Event(
                "error",
                {
                    "message": CAP,
                    "story_id": "",
                    "reason": CAP,
                    "hint": "`untildone resume demo` goes on with a new cap",
                },
            ),
            stopped(Reason.MAX_ITERATIONS),
        ),
    ),
    "stalled": (
        PLAIN,
        (OPENED, *won(1, None), *IDLE, *IDLE[:-1]),
        IDLE[-1],
        (
            stalled("2 iterations in a row left no commit"),
            left_to_person(Reason.STALLED),
        ),
    ),
    "stalled after one": (
        replace(PLAIN, limits=replace(LIMITS, stall_threshold=1)),
        (OPENED, *IDLE[:-1]),
        IDLE[-1],
        (
            PROMISED,
            stalled("The last iteration left no commit"),
            left_to_person(Reason.STALLED),
        ),
    ),
    "stalled by going back and forth": (
        PLAIN,
        (OPENED, *forth("a"), *forth("b"), *forth("a"), *forth("b")[:-1]),
        forth("b")[-1],
        (
            saved_event("iteration-1", "b"),
            stalled("2 iterations in a row only took earlier work back"),
            left_to_person(Reason.STALLED),
        ),
    ),
    "stopped": (PLAN, (OPENED, loaded()), STOP, (stopped(), finished(None, Status.STOPPED))),
    "stopped by a signal": (
        PLAN,
        (OPENED, loaded()),
        SIGNAL,
        (finished(None, Status.STOPPED),),
    ),
    "a signal while the choice is open": (PLAN, OVER, SIGNAL, (finished(None, Status.DONE),)),
    "a stop while the choice is open": (PLAN, OVER, STOP, (finished(None, Status.DONE),)),
    "a soft request while the choice is open": (
        PLAN,
        OVER,
        f.StopRequested(Stop(StopHow.AFTER_ITERATION)),
        (),
    ),
    "a second signal": (PLAN, (*OVER, SIGNAL), SIGNAL, ()),
    "a soft request": (PLAN, ATTEMPT, f.StopRequested(Stop(StopHow.AFTER_STORY)), ()),
    "the person's word": (MANUAL, (OPENED, loaded(ALL_DONE)), f.PersonDone(), (COMPLETE,)),
    "the person's word about a plain loop": (
        PLAIN,
        (OPENED,),
        f.PersonDone(),
        (left_to_person(Reason.SUCCESS),),
    ),
    "the person's word too early": (MANUAL, (OPENED, loaded()), f.PersonDone(), ()),
    "the person's word about stories": (PLAN, (OPENED, loaded()), f.PersonDone(), ()),
    "chosen": (PLAN, OVER, f.ChoiceMade(Choice.KEEP), ()),
    "closed": (
        PLAN,
        (*OVER, f.ChoiceMade(Choice.CLEANUP)),
        f.Closed(Choice.CLEANUP, ("stored as: x",)),
        (finished(Choice.CLEANUP, Status.DONE, "stored as: x"),),
    ),
    "a signal while the choice is carried out": (
        PLAN,
        (*OVER, f.ChoiceMade(Choice.KEEP)),
        SIGNAL,
        (),
    ),
    "archived": (
        *(PLAN, OVER, f.Archived("x/archive/demo", "", "c9", "c9", ("a remark",))),
        (
            Event("warning", {"message": "a remark"}),
            Event("archived", {"change_id": "demo", "path": "x/archive/demo", "commit": "c9"}),
        ),
    ),
    "not archived": (
        *(PLAN, OVER, f.Archived("", "2 boxes are open")),
        (Event("warning", {"message": "The change demo was not archived: 2 boxes are open"}),),
    ),
    "and then closed": (
        PLAN,
        (*OVER, f.ChoiceMade(Choice.KEEP), SIGNAL),
        f.Closed(Choice.KEEP),
        (finished(Choice.KEEP, Status.DONE),),
    ),
    "the choice failed": (
        PLAN,
        (*OVER, f.ChoiceMade(Choice.CLEANUP)),
        f.StepFailed("Close", "disk full", "make room"),
        (
            Event(
                "error",
                {
                    "message": "disk full",
                    "hint": "make room",
                    "story_id": "",
                    "reason": "disk full",
                },
            ),
            finished(None, Status.DONE),
        ),
    ),
    "refused": (
        PLAN,
        (*OVER, f.ChoiceMade(Choice.CLEANUP)),
        f.Refused(Choice.CLEANUP, "conflict", "merge"),
        (
            Event(
                "error",
                {"message": "conflict", "story_id": "", "reason": "refused", "hint": "merge"},
            ),
            finished(None, Status.DONE),
        ),
    ),
    "a step failed": (
        PLAN,
        ATTEMPT,
        f.StepFailed("Save", "disk full", "make room"),
        (
            Event(
                "error",
                {
                    "message": "disk full",
                    "hint": "make room",
                    "story_id": "1",
                    "reason": "disk full",
                },
            ),
            stopped(Reason.ERROR),
        ),
    ),
    "adopted": (PLAN, (OPENED,), f.Adopted(0, "c1", ("edits kept",)), (warning("edits kept"),)),
    "abandoned after the end": (
        PLAN,
        OVER,
        f.Abandoned("restored"),
        (finished(None, Status.DONE),),
    ),
}


@pytest.mark.parametrize("name", EVENTS)
def test_events_of_a_fact(name: str) -> None:
    plan, before, fact, events = EVENTS[name]
    run = told(*before, plan=plan)
    assert announce(run, fact, apply(run, fact, NOW)) == events


def test_every_error_has_the_same_fields() -> None:
    errors = [event for told in EVENTS.values() for event in told[3] if event.name == "error"]
    assert errors
    for event in errors:
        assert {"message", "story_id", "reason", "hint"} <= set(event.data)


def test_a_retry_after_an_interruption_has_one_attempt_more() -> None:
    facts = (OPENED, loaded(), *lost(1, ONE, Outcome.INTERRUPTED), loaded())
    run = told(*facts)
    (event,) = announce(run, began(2), apply(run, began(2), NOW))
    assert (event.data["attempt"], event.data["attempts_allowed"]) == (2, 4)


def test_events_of_another_story() -> None:
    run = told(OPENED, loaded(), *won(), loaded())
    (event,) = announce(run, began(2, TWO), apply(run, began(2, TWO), NOW))
    assert (event.data["n"], event.data["story_id"], event.data["attempt"]) == (2, "2", 1)


def test_notices() -> None:
    assert noticed(AgentText("hello")) == Event("agent_text", {"text": "hello"})
    assert noticed(AgentTool("Edit", "a.py")) == Event(
        "agent_tool", {"tool": "Edit", "detail": "a.py"}
    )


def test_what_was_said_before_the_run_is_told_after_its_start() -> None:
    before = begin(f.Started(PLAN), NOW)
    said = f.Guided("Use tabs.", ONE.key, "1")
    guided = apply(before, said, NOW)
    assert announce(before, said, guided) == ()
    events = announce(guided, OPENED, apply(guided, OPENED, NOW))
    assert [event.name for event in events[:2]] == ["run_started", "guided"]
    assert events[1] == Event("guided", {"story_id": "1", "text": "Use tabs."})
