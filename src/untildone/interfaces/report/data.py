"""The report for scripts: one object with everything, nothing left out."""

from msgspec import to_builtins

from untildone.commands.run_account import RunAccount, Size, as_data
from untildone.domain.reporting.account import (
    UNCHANGED,
    Account,
    Call,
    StoryAccount,
    Totals,
    bought,
    total,
)
from untildone.interfaces.report import formatting


def data(summary: RunAccount) -> dict[str, object]:
    """What `report --json` prints."""
    run, found = summary.run, summary.account
    verified, everything = len(found.of_state("verified")), total(found.calls)
    share = everything.per(verified)
    return {
        "change_id": run.plan.change_id,
        "run_id": run.plan.run_id,
        "status": run.status,
        "reason": run.reason,
        "choice": run.choice,
        "live": summary.live,
        "outcome": formatting.outcome(summary),
        "started_at": as_data(found.first),
        "last_at": as_data(found.last),
        "stories": [_story(summary, story) for story in found.stories],
        "verified": verified,
        "done_unverified": len(found.of_state("done, not verified")),
        "done_unchanged": len(found.of_state(UNCHANGED)),
        "total": _totals(everything),
        "wasted": _totals(total(call for call in found.calls if call.wasted)),
        "per_verified_story": _totals(share) if share else None,
        "pauses": [as_data(pause) for pause in found.pauses],
        "remarks": [as_data(remark) for remark in found.remarks],
        "lanes": _lanes(found),
        "calls": [_call(summary, call) for call in found.calls],
        "stored": as_data(summary.stored),
        "plan": as_data(run.plan),
    }


def _lanes(found: Account) -> object:
    """What several lanes were good for; nothing of a run that had one."""
    gain = bought(found)
    return to_builtins(gain) | {"paid": gain.paid} if gain else None


def _story(summary: RunAccount, story: StoryAccount) -> dict[str, object]:
    return {
        "id": story.id,
        "title": story.title,
        "state": story.state,
        **_totals(total(story.calls)),
        "calls": [call.n for call in story.calls],
    }


def _call(summary: RunAccount, call: Call) -> dict[str, object]:
    return {
        "n": call.n,
        "story_id": call.key[0],
        "attempt": call.attempt,
        "agent": call.agent,
        "started": as_data(call.started),
        "ended": as_data(call.ended),
        "outcome": call.outcome,
        "reason": call.reason,
        "kept": call.kept,
        "verified": call.verified,
        "unchanged": call.unchanged,
        "own_tests": call.own_tests,
        "limit": call.limit,
        "lane": call.lane,
        "requeued": call.requeued,
        "flaky": call.flaky,
        "old_failures_let_through": call.let_through,
        **_totals(total([call])),
        "checks": as_data(call.all_checks),
        "changed": _size(summary.size(call)),
        "commit": call.commit,
        "saved_ref": call.saved_ref,
    }


def _size(size: Size | None) -> object:
    return as_data(size) if size else None


def _totals(totals: Totals) -> dict[str, object]:
    used, known = totals.usage, totals.counted or not totals.calls
    return {
        "agent_calls": totals.calls,
        "seconds": totals.seconds,
        "input_tokens": used.input_tokens if known else None,
        "output_tokens": used.output_tokens if known else None,
        "cache_read_tokens": used.cache_read_tokens if known else None,
        "cache_write_tokens": used.cache_write_tokens if known else None,
        "cost_usd": used.cost_usd,
    }
