"""One read model of a run: the state file's fields, for every window."""

from datetime import datetime

from msgspec.structs import replace

from untildone.domain.agents.agent import Usage
from untildone.domain.checks.checks import Proof
from untildone.domain.run.lanes import next_landing
from untildone.domain.run.machine import awaits_person, tries_checks
from untildone.domain.run.run import Iteration, Lane, Outcome, Reason, Run, Stage, Status
from untildone.domain.run.run_commands import is_checked
from untildone.domain.run.spending import forecast, standing

SCHEMA_VERSION = 1
NOT_USED = Usage()
_AS_IS = frozenset({str, int, float, bool, type(None)})  # nearly all: not worth a call
KNOWN_FIELDS = (
    "change_id",
    "status",
    "current_iteration",
    "max_iterations",
    "started_at",
    "task",
    "iterations",
    "done_criteria",
    "stall_threshold",
    "iteration_timeout_min",
    "total_tokens",
    "original_branch",
    "run_id",
    "pid",
    "pid_started",
    "phase",
    "story_id",
    "agent",
    "total_cost_usd",
    "schema_version",
    "open_iteration",
    "reason",
    "error",
    "worktree",
    "source",
    "backup_ref",
    "learnings_file",
    "checkpoint",
    "choice",
    "waiting_until",
    "waiting_for",
    "unattempted_tokens",
    "unattempted_cost_usd",
    "permissions",
    "sandbox",
    "stories",
    "checked",
    "ignored",
    "parked",
    "budgets",
    "budget_reached",
    "forecast",
    "died_at",
    "lanes",
    "landing",
)


def entry(iteration: Iteration) -> dict[str, object]:
    """An iteration as the state file shows it; some fields only when they say something."""
    usage = iteration.usage or NOT_USED
    fields: dict[str, object] = {
        "n": iteration.n,
        "started": iteration.started,
        "ended": iteration.ended,
        "done_check": iteration.done_check,
        "commits": iteration.commits,
        "tokens_used": usage.total,
        "story_id": iteration.story_id,
        "attempt": iteration.attempt,
        "outcome": iteration.outcome,
        "outcome_class": iteration.outcome_class,
        "reason": iteration.reason,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cost_usd": usage.cost_usd,
        "agent": iteration.agent,
        "model": usage.model or iteration.model,
        "log_file": iteration.log_file,
        "saved_ref": iteration.saved_ref,
    }
    if iteration.timed_out:
        fields["timed_out"] = True
    if usage.estimated:
        fields["tokens_estimated"] = True
    if iteration.proof:
        fields["proof"] = iteration.proof
    return codec_ready(fields)


def codec_ready(fields: dict[str, object]) -> dict[str, object]:
    """Values that JSON can hold."""
    return {name: v if type(v) in _AS_IS else _plain(v) for name, v in fields.items()}


def state(run: Run, pid: int, pid_started: float | None) -> dict[str, object]:
    """All fields of the state file but the history and its totals."""
    plan = run.plan
    lane = _oldest(run)
    # Only there when it is true, as `timed_out` of an iteration.
    death = {"died_at": run.died} if run.died else {}
    return codec_ready(
        {
            "schema_version": SCHEMA_VERSION,
            "change_id": plan.change_id,
            "run_id": plan.run_id,
            "status": run.status,
            "phase": phase(run),
            "reason": run.reason,
            "current_iteration": run.current_iteration,
            "max_iterations": plan.limits.max_iterations,
            "started_at": run.started_at,
            "task": plan.task,
            "done_criteria": plan.done,
            "stall_threshold": plan.limits.stall_threshold,
            "iteration_timeout_min": plan.limits.timeout_min,
            "original_branch": run.origin.label if run.origin else "",
            "agent": plan.agent,
            "source": plan.source,
            "story_id": _story_id(run),
            "pid": pid,
            "pid_started": pid_started,
            "checkpoint": run.tip or lane.checkpoint,
            "backup_ref": run.backup_ref,
            "learnings_file": plan.learnings,
            "choice": run.choice,
            "waiting_until": lane.waiting.until if lane.waiting else None,
            "waiting_for": lane.waiting.kind if lane.waiting else None,
            "unattempted_tokens": run.unattempted.total,
            "unattempted_cost_usd": run.unattempted.cost_usd,
            "permissions": plan.permissions,
            "sandbox": "bwrap" if plan.contained else "off",
            "error": run.error,
            "open_iteration": entry(lane.iteration) if lane.iteration else None,
            "stories": stories(run),
            "ignored": len(run.book.ignored) if run.book else 0,
            "parked": parked(run),
            "budgets": standing(run),
            "budget_reached": _over(run),
            "forecast": forecast(run),
            **({} if plan.terms is None else {"checked": is_checked(plan)}),
            **death,
            **(_beside(run) if len(run.lanes) > 1 else {}),
        }
    )


def _oldest(run: Run) -> Lane:
    """The lane that the fields for a single one tell of: the one that is at work for longest."""
    if len(run.lanes) == 1:
        return run.lanes[0]
    at_work = [lane for lane in run.lanes if lane.iteration]
    waiting = [lane for lane in run.lanes if lane.waiting or lane.limit]
    first = min(at_work, key=lambda lane: lane.iteration.n if lane.iteration else 0, default=None)
    return first or next(iter(waiting), run.lanes[0])


def _beside(run: Run) -> dict[str, object]:
    """What each lane does, and who waits to land; only where there are several."""
    # A lane that was broken at its landing may keep the ticket of what is over.
    queue = sorted((lane for lane in run.lanes if lane.ticket), key=lambda lane: lane.ticket)
    queued = [lane.iteration.story_id for lane in queue if lane.iteration]
    landing = next_landing(run)
    now = landing.landing if landing else None
    return {
        "lanes": [_lane(run, lane) for lane in run.lanes],
        "landing": {
            "queue": queued,
            "candidate": now.candidate if now else None,
            "base": now.tip if now else None,
            "checking": run.open_iteration(landing.id).story_id if landing and not now else None,
        },
    }


def _lane(run: Run, lane: Lane) -> dict[str, object]:
    iteration = lane.iteration
    return codec_ready(
        {
            "lane": lane.id,
            "story_id": iteration.story_id if iteration else "",
            "attempt": iteration.attempt if iteration else None,
            "phase": _lane_phase(run, lane),
            "iteration": iteration.n if iteration else None,
            "since": iteration.started if iteration else None,
            "last_sign": None,
            "log_file": iteration.log_file if iteration else "",
            "slot": lane.slot,
        }
    )


def _lane_phase(run: Run, lane: Lane) -> str:
    if lane.landing:
        return "landing"
    if lane.ticket:
        return "waiting_to_land" if next_landing(run) is not lane else "landing"
    if lane.iteration:
        return _STAGE_PHASE[lane.iteration.stage]
    if lane.waiting or lane.limit:
        return "waiting_limit"
    return "idle" if lane.slot or run.ended else "preparing"


def stories(run: Run) -> dict[str, int] | None:
    """How many stories there are and how many are finished."""
    if run.plan.plain or not run.story_count:
        return None
    return {"total": run.story_count, "finished": run.finished_count} | proven(run)


def proven(run: Run) -> dict[str, int]:
    """How many stories a check has verified, and how many have changed nothing."""
    if run.plan.terms is None:  # an earlier release began it, and did not write that down
        return {}
    last = {it.story_key: it.proof for it in run.iterations if it.story_key in run.finished}
    proofs = list(last.values())
    return {
        "verified": proofs.count(Proof.VERIFIED),
        "unchanged": proofs.count(Proof.UNCHANGED),
    }


def parked(run: Run) -> list[dict[str, object]]:
    """The stories that are passed over, and what they wait for."""
    return [
        codec_ready(
            {
                "story_id": story_id,
                "title": title,
                "why": entry.why,
                "question": entry.text if entry.asks else "",
                "reason": "" if entry.asks else entry.text,
                "since": entry.since,
                "saved_ref": entry.saved_ref,
            }
        )
        for (story_id, title), entry in run.parked.items()
    ]


def phase(run: Run) -> str:
    """The finer word for where a run stands."""
    lane = _oldest(run)
    if run.closed or run.abandoned or run.ended:
        return _end_phase(run)
    if run.origin is None:
        return "opening"
    if lane.iteration:
        return _STAGE_PHASE[lane.iteration.stage]
    if run.held_up:
        return "waiting_budget"
    if run.undecided:
        return "awaiting_decision"
    if lane.waiting or lane.limit:
        return "waiting_limit"
    if awaits_person(run):
        return "awaiting_person"
    return "verifying" if tries_checks(run) else "choosing_story"


def _end_phase(run: Run) -> str:
    if run.closed or run.abandoned:
        return "ended"
    if run.died:
        return "died"
    return "stopped" if run.status is Status.STOPPED else "awaiting_choice"


def _over(run: Run) -> dict[str, object] | None:
    over = run.held_up
    if over is None:
        return None
    told = {"name": over.name, "spent": over.spent, "limit": over.limit, "story_id": over.story_id}
    return told | {"enough": over.enough}


def left_behind(run: Run, at: datetime) -> Run:
    """The run as it must be shown when its process is gone: entry closed, status stopped.

    Who was not asked to stop, by a signal or an undo, has died; `at` is its last sign of life.
    """
    for lane in run.lanes:
        if lane.iteration:
            closed = replace(
                lane.iteration,
                ended=lane.iteration.ended or max(at, lane.iteration.started),
                outcome=lane.iteration.outcome or Outcome.INTERRUPTED,
                reason=lane.iteration.reason or "the loop ended during this iteration",
            )
            run = replace(run, iterations=(*run.iterations, closed))
    idle = (replace(lane, iteration=None, ticket=0, landing=None) for lane in run.lanes)
    run = replace(run, lanes=tuple(idle))
    if run.ended:
        return run
    asked = run.undone or (run.stop and run.stop.signal)
    died = None if asked else at
    return replace(run, status=Status.STOPPED, reason=Reason.STOPPED, died=died)


_STAGE_PHASE = {
    Stage.RUNNING: "agent",
    Stage.ENDED: "measuring",
    Stage.MEASURED: "verifying",
    Stage.JUDGED: "settling",
}


def _story_id(run: Run) -> str:
    lane = _oldest(run)
    if lane.iteration:
        return lane.iteration.story_id
    return run.iterations[-1].story_id if run.iterations else ""


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, tuple):
        return list(value)
    return value
