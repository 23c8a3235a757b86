"""What follows a call that did not finish its story: wait, retry, park it, or end the run."""

from msgspec.structs import replace

from untildone.domain.agents.agent import SAID_WHY, Gate, Kind, Trouble
from untildone.domain.agents.same_failure import REMEMBERED, Tried, fingerprint, gives_up
from untildone.domain.costs.budget import kind, said
from untildone.domain.plain_text import count_of
from untildone.domain.run import run_endings
from untildone.domain.run.fact import Requeued, Reverted
from untildone.domain.run.lanes import MOST_REQUEUES, account_of
from untildone.domain.run.plan import label
from untildone.domain.run.run import Iteration, Outcome, Reason, Run, Status
from untildone.domain.run.tally import Tally
from untildone.domain.run.user_requests import park
from untildone.domain.stories.parking import Parked, Why

REASON_IS_PASSED_ON = (Outcome.FAILED, Outcome.VERIFY_FAILED)


def reverted(run: Run, fact: Reverted) -> Run:
    """The attempt is stored and put back: again, or parked, or stuck when its retries are used."""
    iteration = run.open_iteration(fact.lane)
    if iteration.limit:
        return limited(run, fact.lane, iteration)
    tally = _counted(run.tally(iteration.story_key), iteration, fact)
    hits = run.lanes[fact.lane].limit_hits if iteration.trouble_counts else 0
    run = replace(run, book=None, tallies=run.tallies | {iteration.story_key: tally})
    run = run.with_entry(replace(iteration, saved_ref=fact.saved_ref))
    run = run.with_lane(fact.lane, iteration=None, limit_hits=hits)
    if _needs_login(iteration) or iteration.fatal:
        return run_endings.end(replace(run, error=iteration.reason), Status.STUCK, Reason.ERROR)
    run = _decided(run, iteration, tally, fact.saved_ref)
    run = waits_first(run, fact.lane, iteration)
    return run if run.ended else run_endings.stop_now(run)


def limited(run: Run, lane: int, iteration: Iteration) -> Run:
    """A limit or a passing trouble: the call is no attempt, and the lane waits before the next."""
    usage = iteration.usage
    if usage and not usage.estimated:  # there is no entry to say that it is a guess
        run = replace(run, unattempted=run.unattempted.plus(usage))
    run = run.with_lane(lane, iteration=None)
    return run_endings.stop_now(_at_limit(run, lane, iteration, iteration.limit))


def _at_limit(run: Run, lane: int, iteration: Iteration, limit: Trouble | None) -> Run:
    """The lane waits; of several at the limit of one account only the first does, for all."""
    account = account_of(run, iteration)
    gate = run.gates.get(account)
    first = run.lanes[gate.lane] if gate else None
    if first and first.id != lane and (first.limit or first.waiting or first.iteration):
        return run
    hits = max(one.limit_hits for one in run.lanes)
    if len(run.lanes) > 1:
        run = replace(run, gates=run.gates | {account: Gate(lane)})
    return run.with_lane(lane, limit=limit, limited=_who(run, iteration), limit_hits=hits)


def gate_opens(run: Run, iteration: Iteration) -> Run:
    """A call that was at no limit lets one more lane of its account in."""
    account = account_of(run, iteration)
    gate = run.gates.get(account)
    if gate is None:
        return run
    run = replace(run, lanes=tuple(replace(lane, limit_hits=0) for lane in run.lanes))
    if gate.allowed + 1 < len(run.lanes):
        return replace(run, gates=run.gates | {account: replace(gate, allowed=gate.allowed + 1)})
    return replace(run, gates={k: v for k, v in run.gates.items() if k != account})


def requeued(run: Run, fact: Requeued) -> Run:
    """The story is done again on what has landed: no attempt is used; at last it is parked."""
    iteration = run.open_iteration(fact.lane)
    key, before = iteration.story_key, run.tally(iteration.story_key)
    again = before.requeues + 1
    tally = replace(before, calls=before.calls + 1, requeues=again, reason=fact.why)
    failed = replace(
        iteration,
        outcome=Outcome.VERIFY_FAILED,
        reason=fact.why,
        requeued=True,
        contested=fact.files,
        saved_ref=fact.saved_ref,
    )
    run = replace(run, book=None, tallies=run.tallies | {key: tally}).with_entry(failed)
    run = run.with_lane(fact.lane, iteration=None, ticket=0, landing=None, limit_hits=0)
    if again > MOST_REQUEUES:
        run = _parked(run, failed, Why.FAILED, fact.saved_ref)
    return run_endings.stop_now(run)


def with_lost_work(run: Run, lane: int) -> Run:
    """Count a call that passing trouble has ended after real work, and its trouble if too much is.

    What never came to work costs nothing and is waited for without end.
    """
    iteration = run.open_iteration(lane)
    usage = iteration.usage if iteration.usage and not iteration.usage.estimated else None
    if not iteration.limit or not (iteration.spoke or (usage and usage.total)):
        return run
    tally = run.tally(iteration.story_key)
    lost = tally.lost.with_call(usage, iteration=True, told=False)
    lost = replace(lost, seconds=lost.seconds + iteration.seconds)
    tallies = run.tallies | {iteration.story_key: replace(tally, lost=lost)}
    run = replace(run, tallies=tallies)
    budgets = run.plan.trouble_budgets
    over = next((b for b in budgets if lost.amount(kind(b.name)) >= b.limit), None)
    if over is None:
        return run
    calls = count_of(lost.iterations, "call")
    used, limit = (said(over.name, amount) for amount in (lost.amount(kind(over.name)), over.limit))
    reason = (
        f"{iteration.reason} (passing trouble has ended {calls} of this story "
        f"after real work; {over.name}: {used}, and {limit} is as much as may be lost)"
    )
    return run.with_iteration(lane, trouble_counts=True, reason=reason)


def waits_first(run: Run, lane: int, iteration: Iteration) -> Run:
    """Trouble that counts as an attempt is waited out before the next one all the same."""
    if run.ended or not iteration.trouble_counts:
        return run
    return _at_limit(run, lane, iteration, iteration.trouble)


def _who(run: Run, iteration: Iteration) -> str:
    return label(iteration.agent or run.plan.agent, iteration.model)


def _needs_login(iteration: Iteration) -> bool:
    return iteration.trouble is not None and iteration.trouble.kind is Kind.NOT_LOGGED_IN


def _counted(before: Tally, iteration: Iteration, fact: Reverted) -> Tally:
    """The story's calls; a retry is used up only by a failure of the agent's own."""
    calls = before.calls + 1
    interrupted = iteration.outcome is Outcome.INTERRUPTED
    if interrupted or iteration.question or _needs_login(iteration):
        return replace(before, calls=calls)
    tried = _tried(iteration, fact)
    remembered = (*before.tried, tried)[-REMEMBERED:]
    spent = before.spent + 1
    return replace(before, calls=calls, spent=spent, reason=tried.reason, tried=remembered)


def _is_passed_on(iteration: Iteration) -> bool:
    """Whether the next attempt is told the reason: the agent, a check or its program gave one."""
    said_why = iteration.trouble is not None and iteration.trouble.why == SAID_WHY
    return said_why or iteration.outcome in REASON_IS_PASSED_ON


def _tried(iteration: Iteration, fact: Reverted) -> Tried:
    outcome = str(iteration.outcome)
    return Tried(
        iteration.attempt,
        outcome,
        fingerprint(outcome, iteration.reason),
        iteration.reason if _is_passed_on(iteration) else "",
        fact.saved_ref,
        fact.tree,
        iteration.rung,
    )


def _decided(run: Run, iteration: Iteration, tally: Tally, saved_ref: str) -> Run:
    if iteration.question:
        return _parked(run, iteration, Why.QUESTION, saved_ref)
    rungs = len(run.plan.rungs_of(iteration.story_key))
    if run.plan.on_stuck == "park" and gives_up(tally.tried, rungs, since_renewal=tally.spent):
        return _parked(run, iteration, Why.STUCK, saved_ref)
    if tally.spent <= run.plan.limits.max_retries:
        return run
    if run.plan.on_fail in ("skip", "ask"):
        return _parked(run, iteration, Why.FAILED, saved_ref)
    return run_endings.end(run, Status.STUCK, Reason.MAX_RETRIES)


def _parked(run: Run, iteration: Iteration, why: Why, saved_ref: str) -> Run:
    text = iteration.question if why is Why.QUESTION else iteration.reason
    since = iteration.ended or iteration.started
    run = park(run, iteration.story_key, Parked(why, text, since, saved_ref))
    asks = run.plan.on_fail == "ask" and why is not Why.STUCK
    return replace(run, undecided=iteration.story_key) if asks else run
