"""A run that never was: every kind of fact, with a value of its own in every field."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from untildone.adapters.records.journal import Journal, replayed
from untildone.adapters.records.state_file import StateFile
from untildone.app.announce import announce
from untildone.app.recovery import replay
from untildone.domain.agents.agent import Ending, Kind, Permissions, Session, Trouble, Usage
from untildone.domain.checks.checks import Failing
from untildone.domain.costs.budget import Budget, Reached
from untildone.domain.reporting.views import left_behind, state
from untildone.domain.run import fact as f
from untildone.domain.run.plan import Done, Limits, Plan
from untildone.domain.run.run import Choice, Origin, Outcome, Run, Stop, StopHow
from untildone.domain.stories.parking import Why

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NAME = "by-hand"
# More digits than a journal keeps.
NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
LATER = datetime(2026, 1, 2, 9, 30, 0, 1, tzinfo=timezone(timedelta(hours=5, minutes=30)))
ODD = 'Grüße „世界“ \U0001f600\u2028\u2029\x7f\x85 \t\r\n\x00\x1b[1m "\\" </p> \ufeff'
ONE, TWO, THREE = ("1", "Log in"), ("2", "Log out"), ("3", ODD)
REF = "refs/ralph/attempts/demo/1/1"
SHA = "0123456789abcdef0123456789abcdef01234567"
TREE = "89abcdef0123456789abcdef0123456789abcdef"
FAILING = (Failing("make test", "exit code 2", ("a::b", "c::d")), Failing("lint", "timeout"))
USAGE = Usage(10**15, 2, 3, 4, 1e-07, estimated=True, reasoning_tokens=1, model="m1")
TOTALS = Usage(1, 1, 1, 1, 1e16, estimated=False, reasoning_tokens=1, model=ODD)
LIMITS = Limits(
    max_retries=2,
    max_iterations=12,
    stall_threshold=5,
    timeout_min=0.1 + 0.2,
    idle_timeout_min=1e-05,
    max_file_mb=1.5,
    verify_timeout_min=7.0,
    repeat_limit=9,
)
PLAN = Plan(
    change_id="demo",
    run_id="20260102-030405-abcd",
    task=ODD,
    plain=False,
    done=Done.MANUAL,
    source="openspec",
    agent="claude",
    limits=LIMITS,
    model="opus",
    agent_cmd="my-agent --stdin",
    script="script.json",
    verify=("make test", "warn: lint"),
    story_verify=("1=make one",),
    verify_found=("npm test",),
    protect=("tests/**",),
    check_files=("check.sh",),
    protect_checks=False,
    evidence=True,
    clean_room=True,
    allow_empty_story=("2",),
    verify_start=True,
    baseline=True,
    checkpoint="worktree",
    on_complete="cleanup",
    usage_cmd="wt-usage {since}",
    prompt_template="prompt.md",
    configured_max=12,
    permissions=Permissions.EDITS,
    fallback="codex:small",
    resume_session=True,
    sandbox="bwrap",
    sandbox_network=False,
    sandbox_writable=("/srv/cache",),
    contained=True,
    granularity="task",
    source_file="notes.md",
    archive=True,
    on_fail="ask",
    ladder=("claude:haiku", "claude:opus"),
    budgets=(Budget("tokens", 2e6), Budget("story-cost", 0.5)),
    on_stuck="park",
    learnings="/srv/learnings/demo.md",
)
STARTED = f.Started(PLAN)


def _began(n: int) -> f.AttemptStarted:
    log = f"/srv/repo/.git/untildone/runs/{PLAN.run_id}/logs/{n:04d}.log"
    said = (("make one", ODD), 1, "Use make.\n")
    return f.AttemptStarted(0, n, "1", ONE, log, "claude", "opus", Session("s0", TOTALS), *said)


def _ended(outcome: Outcome, kind: Kind, ending: Ending, code: int) -> f.AttemptEnded:
    return f.AttemptEnded(
        *(0, outcome, ODD, (SHA, TREE), USAGE, Trouble(kind, ODD, LATER, 1.25)),
        *(Session("s1", TOTALS), ending, code),
        spoke=True,
        question="Which one?",
    )


FACTS: tuple[f.Fact, ...] = (
    f.Opened(Origin("feature/x", SHA), SHA, "refs/ralph/backup/demo/r", REF, ("a remark", ODD)),
    f.StoriesLoaded(
        *(9, 2, False, None, 3, 1),
        marked=((THREE, "What is it?"), (TWO, ODD)),
        settled=(TWO,),
        held=True,
    ),
    f.Resumed(PLAN),
    f.ChecksTried(FAILING, ("junk.log was put back",)),
    _began(1),
    _ended(Outcome.FAILED, Kind.REFUSED, Ending.REPEATING, -9),
    f.UsageMeasured(0, USAGE, ("odd", ODD)),
    f.Reverted(0, REF, ("moved aside",), TREE),
    f.StoryParked(ONE, Why.FAILED, ODD, REF),
    f.Guided(ODD, ONE, "1-2"),
    f.GuidanceCleared(ONE),
    f.Guided("Tabs.", TWO, "1-3"),
    f.StoryRetried(ONE),
    f.StoriesReordered((TWO, ONE)),
    f.StoryAdded(TWO),
    _began(2),
    _ended(Outcome.AGENT_ERROR, Kind.RATE_LIMITED, Ending.IDLE_TIMEOUT, 1),
    f.UsageMeasured(0, USAGE, ("odd",)),
    f.Reverted(0, REF, ("moved aside",), TREE),
    f.WaitStarted(0, LATER, ODD, Kind.HUNG),
    f.WaitOver(0),
    f.SteppedIn(0, "codex", "small", LATER, ODD, "claude:opus"),
    f.BudgetReached(Reached("story-cost", 0.75, 0.5, "1", ONE), waits=True),
    f.BudgetSet((Budget("story-cost", 1e16), Budget("time", 1e-05))),
    _began(2),
    f.AttemptEnded(0, Outcome.COMPLETE),
    f.UsageMeasured(0, None),
    f.Verified(0, passed=True, reason=ODD, still_failing=FAILING, fatal=True),
    f.Saved(0, SHA, TREE, ("boxes were ticked",), TREE),
    f.PersonDone(),
    f.StopRequested(Stop(StopHow.AFTER_STORY, 15)),
    f.StepFailed("Save", ODD, "make room"),
    f.AskedAgain(PLAN),
    f.Archived("openspec/changes/archive/demo", ODD, SHA, TREE, ("moved",)),
    f.ChoiceMade(Choice.CLEANUP),
    f.Refused(Choice.CLEANUP, ODD, "merge first"),
    f.ChoiceMade(Choice.KEEP),
    f.Closed(Choice.KEEP, ("stored", ODD)),
    f.TakenBack(29),
    f.Adopted(0, TREE, ("edits by hand",)),
    f.StoryParked(TWO, Why.SKIPPED, ODD, REF),
    f.GivenUp(TWO),
    f.Abandoned(ODD),
)


def write(folder: Path) -> None:
    """The journal and the state file of this run, by the writers that a loop uses."""
    folder.mkdir(parents=True)
    journal = Journal(folder / "journal.jsonl")
    told: list[tuple[f.Fact, datetime]] = [(STARTED, NOW)]
    journal.record(STARTED, (), NOW)
    for k, fact in enumerate(FACTS, 1):
        before, at = _run(told), NOW + timedelta(seconds=k / 7)
        told.append((fact, at))
        journal.record(fact, announce(before, fact, _run(told)), at)
    journal.close()
    shown = left_behind(_run(replayed(journal.path)), NOW)
    StateFile(folder / "loop-state.json").write(state(shown, 0, None), shown.iterations)


def _run(told: Iterable[tuple[f.Fact, datetime]]) -> Run:
    run = replay(told)
    assert run is not None
    return run
