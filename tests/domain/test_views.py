"""The state file's fields: every one of them, and every phase."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import (
    BACKUP,
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
    won,
)
from untildone.domain.agents.agent import Kind, Trouble, Usage
from untildone.domain.costs.budget import Budget, Reached
from untildone.domain.reporting import views
from untildone.domain.run import fact as f
from untildone.domain.run.plan import Done, Plan
from untildone.domain.run.run import Choice, Iteration, Outcome, Reason, Status, Stop, StopHow
from untildone.domain.stories.parking import Why
from untildone.domain.stories.story import Remark

VERIFY = replace(PLAN, verify=("make test",))
STOP = f.StopRequested(Stop(StopHow.NOW))
LIMIT = Trouble(Kind.QUOTA_EXHAUSTED, "usage limit", at(60))
LIMITED = (OPENED, loaded(), *lost(limit=LIMIT))
ALL_DONE = book(story(1, done=True), story(2, done=True))

BUDGET = replace(PLAN, budgets=(Budget("story-time", 1),))
OVER = f.BudgetReached(Reached("story-time", 1.5, 1, "1", ONE.key), waits=True)

PHASES: dict[str, tuple[Plan, tuple[f.Fact, ...], str]] = {
    "opening": (PLAN, (), "opening"),
    "choosing": (PLAN, (OPENED,), "choosing_story"),
    "chosen": (PLAN, (OPENED, loaded()), "choosing_story"),
    "agent": (PLAN, (OPENED, loaded(), began()), "agent"),
    "measuring": (PLAN, (OPENED, loaded(), began(), ended()), "measuring"),
    "trying the checks": (
        replace(VERIFY, verify_start=True),
        (OPENED, loaded()),
        "verifying",
    ),
    "verifying": (VERIFY, (OPENED, loaded(), began(), ended(), measured()), "verifying"),
    "settling": (PLAN, (OPENED, loaded(), began(), ended(), measured()), "settling"),
    "limit": (PLAN, LIMITED, "waiting_limit"),
    "waiting": (PLAN, (*LIMITED, f.WaitStarted(0, at(60), "x")), "waiting_limit"),
    "budget": (BUDGET, (*LIMITED, OVER), "waiting_budget"),
    "person": (
        replace(PLAN, done=Done.MANUAL),
        (OPENED, loaded(ALL_DONE)),
        "awaiting_person",
    ),
    "plain": (replace(PLAIN, done=Done.TASKS), (OPENED, loaded(ALL_DONE)), "choosing_story"),
    "choice": (PLAN, (OPENED, loaded(done=True)), "awaiting_choice"),
    "stopped": (PLAN, (OPENED, loaded(), STOP), "stopped"),
    "closed": (PLAN, (OPENED, loaded(done=True), f.Closed(Choice.KEEP)), "ended"),
    "abandoned": (PLAN, (OPENED, f.Abandoned("restored")), "ended"),
}


@pytest.mark.parametrize("name", PHASES)
def test_phase(name: str) -> None:
    plan, facts, phase = PHASES[name]
    assert views.phase(told(*facts, plan=plan)) == phase


def test_every_field_of_the_state() -> None:
    stories = book(ONE, story(2, done=True), ignored=(Remark(3, "odd"),))
    run = told(OPENED, loaded(stories), began(), plan=replace(PLAN, task="Log in"))
    assert run.lanes[0].iteration is not None
    assert views.state(run, 42, 123.0) == {
        "schema_version": 1,
        "change_id": "demo",
        "run_id": "r1",
        "status": "running",
        "phase": "agent",
        "reason": None,
        "current_iteration": 1,
        "max_iterations": 9,
        "started_at": "2026-01-02T03:04:05.000+00:00",
        "task": "Log in",
        "done_criteria": "tasks",
        "stall_threshold": 2,
        "iteration_timeout_min": 45.0,
        "original_branch": "feature/x",
        "agent": "scripted",
        "source": "fake",
        "story_id": "1",
        "pid": 42,
        "pid_started": 123.0,
        "checkpoint": "c0",
        "backup_ref": BACKUP,
        "learnings_file": "",
        "choice": None,
        "waiting_until": None,
        "waiting_for": None,
        "unattempted_tokens": 0,
        "unattempted_cost_usd": None,
        "permissions": "full",
        "sandbox": "off",
        "error": "",
        "open_iteration": views.entry(run.lanes[0].iteration),
        "stories": {"total": 2, "finished": 1},
        "ignored": 1,
        "parked": [],
        "budgets": [],
        "budget_reached": None,
        "forecast": None,
    }


def test_a_used_up_budget_in_the_state() -> None:
    state = views.state(told(*LIMITED, OVER, plan=BUDGET), 42, 123.0)
    assert state["budget_reached"] == {
        "name": "story-time",
        "spent": 1.5,
        "limit": 1,
        "story_id": "1",
        "enough": "story-time=2.5m",
    }


def test_every_field_is_known() -> None:
    dead = views.left_behind(told(plan=replace(PLAN, terms=())), at(9))
    fields = {*views.state(dead, 1, None), "iterations", "total_tokens", "total_cost_usd"}
    fields |= set(views.state(told(OPENED, plan=TWO_LANES), 1, None))
    assert fields | {"worktree"} == set(views.KNOWN_FIELDS)


def test_fields_of_other_states() -> None:
    before = views.state(told(), 0, None)
    waiting = views.state(told(*LIMITED, f.WaitStarted(0, at(60), "x")), 1, None)
    stopped = views.state(told(OPENED, loaded(), *won(), STOP), 1, None)
    plain = views.state(told(OPENED, loaded(), plan=replace(PLAIN, done=Done.TASKS)), 1, None)
    seen = [
        (s["original_branch"], s["waiting_until"], s["story_id"], s["stories"], s["reason"])
        for s in (before, waiting, stopped, plain)
    ]
    assert seen == [
        ("", None, "", None, None),
        (
            *("feature/x", "2026-01-02T03:05:05.000+00:00", ""),
            *({"total": 2, "finished": 0}, None),
        ),
        ("feature/x", None, "1", {"total": 2, "finished": 1}, "stopped"),
        ("feature/x", None, "", None, None),
    ]


ENTRY = Iteration(
    *(3, at(0), "1", 2, 4, ONE.key, "logs/3", at(1.5)),
    outcome=Outcome.IDLE_TIMEOUT,
    reason="silent",
    usage=Usage(10, 5, 7, 8, 0.25, estimated=True, reasoning_tokens=3, model="m1"),
    commits=("a1", "c1"),
    saved_ref="refs/ralph/attempts/demo/1/2",
    done_check=True,
    agent="codex",
)


def test_every_field_of_an_entry() -> None:
    assert views.entry(ENTRY) == {
        "n": 3,
        "started": "2026-01-02T03:04:05.000+00:00",
        "ended": "2026-01-02T03:04:06.500+00:00",
        "done_check": True,
        "commits": ["a1", "c1"],
        "tokens_used": 15,
        "story_id": "1",
        "attempt": 2,
        "outcome": "idle_timeout",
        "outcome_class": "idle_timeout",
        "reason": "silent",
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_tokens": 7,
        "cache_write_tokens": 8,
        "reasoning_tokens": 3,
        "cost_usd": 0.25,
        "agent": "codex",
        "model": "m1",
        "log_file": "logs/3",
        "saved_ref": "refs/ralph/attempts/demo/1/2",
        "timed_out": True,
        "tokens_estimated": True,
    }


def test_fields_that_are_there_only_when_true() -> None:
    usage = Usage(1)
    for outcome, more in ((Outcome.COMPLETE, {"usage": usage}), (None, {"usage": None})):
        entry = views.entry(replace(ENTRY, outcome=outcome, **more))
        assert not {"timed_out", "tokens_estimated"} & set(entry)
    bare = views.entry(replace(ENTRY, usage=None, ended=None))
    assert (bare["tokens_used"], bare["cost_usd"], bare["ended"]) == (0, None, None)
    assert views.entry(replace(ENTRY, outcome=Outcome.TIMEOUT))["timed_out"] is True


def test_a_dead_loop_is_shown_as_stopped() -> None:
    run = told(OPENED, loaded(), began())
    iteration = run.lanes[0].iteration
    assert iteration is not None
    closed = replace(
        iteration,
        ended=at(9),
        outcome=Outcome.INTERRUPTED,
        reason="the loop ended during this iteration",
    )
    assert views.left_behind(run, at(9)) == replace(
        run,
        lanes=(replace(run.lanes[0], iteration=None),),
        iterations=(closed,),
        status=Status.STOPPED,
        reason=Reason.STOPPED,
        died=at(9),
    )
    shown = views.state(views.left_behind(run, at(9)), 0, None)
    assert (shown["phase"], shown["died_at"]) == ("died", at(9).isoformat(timespec="milliseconds"))


def test_who_was_asked_to_stop_has_not_died() -> None:
    run = told(OPENED, loaded(), began())
    signalled = replace(run, stop=Stop(StopHow.NOW, 15))
    after_story = replace(run, stop=Stop(StopHow.AFTER_STORY))
    deaths = [views.left_behind(r, at(9)).died for r in (signalled, after_story)]
    assert deaths == [None, at(9)]
    assert views.left_behind(replace(run, undone=True), at(9)).died is None


def test_nothing_waits_to_land_in_a_run_whose_process_is_gone() -> None:
    run = told(OPENED, *finished(1, 1), f.LandIntended(1, "c0", "c1"), plan=TWO_LANES)
    dead = views.left_behind(run, at(9))
    landing = views.state(dead, 0, None)["landing"]
    assert landing == {"queue": [], "candidate": None, "base": None, "checking": None}
    assert [it.outcome for it in dead.iterations] == [Outcome.COMPLETE]


def test_what_is_known_of_the_last_iteration_stays() -> None:
    run = told(OPENED, loaded(), began(), ended(Outcome.FAILED, "why"))
    (entry,) = views.left_behind(run, at(9)).iterations
    assert (entry.ended, entry.outcome, entry.reason) == (at(4), Outcome.FAILED, "why")


def test_an_ended_run_is_shown_as_it_ended() -> None:
    run = told(OPENED, loaded(done=True))
    assert views.left_behind(run, at(9)) == run


def test_parked_stories_are_shown() -> None:
    asked = replace(ended(Outcome.NO_PROMISE), question="Which?")
    run = told(OPENED, began(), asked, measured(), put_back(), f.StoryParked(TWO.key, Why.SKIPPED))
    assert views.state(run, 1, None)["parked"] == [
        {
            "story_id": "1",
            "title": "Story 1",
            "why": "question",
            "question": "Which?",
            "reason": "",
            "since": "2026-01-02T03:04:08.000+00:00",
            "saved_ref": "refs/ralph/attempts/demo/1/1",
        },
        {
            "story_id": "2",
            "title": "Story 2",
            "why": "skipped",
            "question": "",
            "reason": "",
            "since": "2026-01-02T03:04:11.000+00:00",
            "saved_ref": "",
        },
    ]


def test_the_phase_of_a_decision() -> None:
    asks = replace(PLAN, on_fail="ask", limits=replace(PLAN.limits, max_retries=0))
    assert views.phase(told(OPENED, loaded(), *lost(), plan=asks)) == "awaiting_decision"


def test_how_many_stories_are_verified_or_changed_nothing() -> None:
    facts = (began(1, ONE), ended(), measured(), replace(kept(), unchanged=True))
    run = told(OPENED, loaded(), *facts, plan=replace(PLAN, terms=(), verify=("test",)))
    assert views.proven(run) == {"verified": 0, "unchanged": 1}
    assert views.state(run, 1, None)["checked"] is True
    assert views.entry(run.iterations[0])["proof"] == "unchanged"


TWO_LANES = replace(PLAN, lanes=2, verify=("make test",))


def in_lane(lane: int, n: int) -> f.AttemptStarted:
    return f.AttemptStarted(lane, n, str(n), (str(n), "Title"), f"logs/{n}", base="c0")


def phases(*facts: f.Fact) -> list[object]:
    run = told(OPENED, f.SlotReady(0, "/slots/0"), *facts, plan=TWO_LANES)
    shown = views.state(run, 1, None)["lanes"]
    assert isinstance(shown, list)
    return [lane["phase"] for lane in shown]


def test_each_lane_has_a_phase() -> None:
    limit = f.AttemptEnded(0, Outcome.AGENT_ERROR, "limit", trouble=LIMIT)
    limited = (in_lane(0, 1), limit, f.UsageMeasured(0, None), f.Reverted(0, "ref"))
    assert phases() == ["idle", "preparing"]
    assert phases(in_lane(0, 1)) == ["agent", "preparing"]
    assert phases(*limited) == ["waiting_limit", "preparing"]


def finished(lane: int, n: int) -> tuple[f.Fact, ...]:
    done = f.AttemptEnded(lane, Outcome.COMPLETE), f.UsageMeasured(lane, None)
    return in_lane(lane, n), *done, f.Verified(lane, passed=True)


def test_who_waits_to_land_is_told_and_the_old_fields_show_the_oldest_lane() -> None:
    facts = (OPENED, *finished(1, 1), *finished(0, 2))
    run = told(*facts, plan=TWO_LANES)
    shown = views.state(run, 1, None)
    assert shown["landing"] == {
        "queue": ["1", "2"],
        "candidate": None,
        "base": None,
        "checking": "1",
    }
    assert (shown["story_id"], shown["phase"]) == ("1", "settling")
    lanes = shown["lanes"]
    assert isinstance(lanes, list)
    assert [lane["phase"] for lane in lanes] == ["waiting_to_land", "landing"]
    run = told(*facts, f.LandIntended(1, "c0", "c1"), plan=TWO_LANES)
    shown = views.state(run, 1, None)
    assert shown["landing"] == {
        "queue": ["1", "2"],
        "candidate": "c1",
        "base": "c0",
        "checking": None,
    }
    assert phases(*facts[1:], f.LandIntended(1, "c0", "c1")) == ["waiting_to_land", "landing"]
