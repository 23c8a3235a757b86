"""How each fact changes the run: pure functions, one per fact."""

from collections import Counter
from datetime import datetime

from msgspec.structs import replace

from untildone.domain.agents.agent import Kind
from untildone.domain.agents.same_failure import REMEMBERED, Tried, fingerprint
from untildone.domain.checks.checks import in_force
from untildone.domain.costs.budget import Budget, merged
from untildone.domain.run import fact as f
from untildone.domain.run import parking_rules, run_endings
from untildone.domain.run.run import (
    Done,
    Iteration,
    Outcome,
    Reason,
    Run,
    Stage,
    Status,
    Tally,
    label,
)
from untildone.domain.run.spending import still_over
from untildone.domain.run.waiting import StandIn, Waiting

REASON_IS_PASSED_ON = (Outcome.FAILED, Outcome.VERIFY_FAILED)


def opened(run: Run, fact: f.Opened) -> Run:
    """The workspace stands."""
    run = replace(run, origin=fact.origin, backup_ref=fact.backup_ref, status=Status.RUNNING)
    return run_endings.stop_now(_lane(run, 0, checkpoint=fact.checkpoint))


def stories_loaded(run: Run, fact: f.StoriesLoaded, at: datetime) -> Run:
    """Done, stuck at the cap or at parked stories, stalled, stopped, or on to the next story."""
    run = replace(run, book=fact.book, story_count=fact.stories, finished_count=fact.finished)
    run = parking_rules.looked(run, fact, at)
    if fact.done and run.iterations:
        last = replace(run.iterations[-1], done_check=True)
        run = replace(run, iterations=(*run.iterations[:-1], last))
    if run.ended:
        return run
    if fact.done or run_endings.word_counts(run):
        return run_endings.end(run, Status.DONE, Reason.SUCCESS)
    if run_endings.stop_is_due(run):
        return run_endings.end(run, Status.STOPPED, Reason.STOPPED)
    if run.plan.plain and run.commitless >= run.plan.limits.stall_threshold:
        return run_endings.end(run, Status.STALLED, Reason.STALLED)
    if fact.held:
        return run_endings.end(run, Status.STUCK, Reason.PARKED)
    if run.current_iteration >= run.plan.limits.max_iterations and not run_endings.all_finished(
        run
    ):
        return run_endings.end(run, Status.STUCK, Reason.MAX_ITERATIONS)
    return run


def checks_tried(run: Run, fact: f.ChecksTried) -> Run:
    """What fails before the first story is known."""
    return replace(run, known_failures=fact.failing)


def attempt_started(run: Run, fact: f.AttemptStarted, at: datetime) -> Run:
    """An iteration is open."""
    tally = run.tally(fact.story_key)
    allowed = 1 if run.plan.plain else tally.calls + 1 + run.plan.limits.max_retries - tally.spent
    iteration = Iteration(
        n=fact.n,
        started=at,
        story_id=fact.story_id,
        attempt=1 if run.plan.plain else tally.calls + 1,
        attempts_allowed=allowed,
        story_key=fact.story_key,
        log_file=fact.log_file,
        agent=fact.agent,
        checks=fact.checks,
        model=fact.model,
        rung=fact.rung,
    )
    if fact.learned is not None:
        tallies = run.tallies | {fact.story_key: replace(tally, learned=fact.learned)}
        run = replace(run, tallies=tallies)
    return _lane(run, fact.lane, iteration=iteration)


def attempt_ended(run: Run, fact: f.AttemptEnded, at: datetime) -> Run:
    """The agent is gone; its call is judged but not yet measured."""
    iteration = run.lanes[fact.lane].iteration
    assert iteration is not None
    return _iteration(
        run,
        fact.lane,
        ended=max(at, iteration.started),  # the clock of a later process may be behind
        stage=Stage.ENDED,
        outcome=fact.outcome,
        reason=fact.reason,
        commits=fact.commits,
        usage=fact.usage,
        trouble=fact.trouble,
        session=fact.session,
        question=fact.question,
    )


def usage_measured(run: Run, fact: f.UsageMeasured) -> Run:
    """What is left to decide depends on whether there is a check to run."""
    iteration = run.lanes[fact.lane].iteration
    assert iteration is not None
    checks = in_force(run.plan.verify, iteration.checks)
    proof = (
        (checks and run.plan.checks_count)
        or run.plan.protected
        or (run.plan.evidence and not run.plan.plain)
    )
    to_verify = bool(proof) and iteration.outcome is Outcome.COMPLETE
    run = _iteration(run, fact.lane, usage=fact.usage)
    if to_verify and run_endings.must_stop_now(run):
        reason = "the loop was stopped before the checks ran"
        changes = {"outcome": Outcome.INTERRUPTED, "reason": reason}
        return _iteration(run, fact.lane, stage=Stage.JUDGED, **changes)
    return _iteration(run, fact.lane, stage=Stage.MEASURED if to_verify else Stage.JUDGED)


def verified(run: Run, fact: f.Verified) -> Run:
    """A failed check makes a failed attempt, one cut short by a stop an interrupted one."""
    if run_endings.must_stop_now(run) and not fact.passed:
        outcome = Outcome.INTERRUPTED
    else:
        outcome = Outcome.COMPLETE if fact.passed else Outcome.VERIFY_FAILED
    run = _lane(run, fact.lane, still_failing=fact.still_failing)
    changes = {"outcome": outcome, "reason": fact.reason, "fatal": fact.fatal}
    return _iteration(run, fact.lane, stage=Stage.JUDGED, **changes)


def saved(run: Run, fact: f.Saved) -> Run:
    """The work is kept: a story is finished for ever, a plain iteration adds to the history."""
    iteration = run.lanes[fact.lane].iteration
    assert iteration is not None
    run = _lane(run, fact.lane, iteration=None, checkpoint=fact.checkpoint)
    if iteration.limit:
        return _limited(run, fact.lane, iteration)
    kept = (*iteration.commits, fact.commit) if fact.commit else iteration.commits
    finished = run.finished if run.plan.plain else run.finished | {iteration.story_key}
    run = replace(
        run,
        book=None,
        finished=finished,
        finished_count=run.finished_count + (not run.plan.plain),
        iterations=(*run.iterations, replace(iteration, commits=kept)),
        tallies={k: v for k, v in run.tallies.items() if k not in finished},
        parked={k: v for k, v in run.parked.items() if k != iteration.story_key},
        guidance=parking_rules.still_needed(run, iteration.story_key),
        commitless=0 if kept and not _back_and_forth(run, fact.tree) else run.commitless + 1,
        trees=(*run.trees[-1:], fact.tree) if run.plan.plain else (),
    )
    if run.plan.baseline and run.known_failures is not None:
        # What passes now and fails later is newly broken.
        run = replace(run, known_failures=run.lanes[fact.lane].still_failing)
    run = _lane(run, fact.lane, strikes=0, still_failing=())
    return (
        run_endings.plain_verdict(run, iteration) if run.plan.plain else run_endings.stop_now(run)
    )


def reverted(run: Run, fact: f.Reverted) -> Run:
    """The attempt is put aside: again, or parked, or stuck when its retries are used up."""
    iteration = run.lanes[fact.lane].iteration
    assert iteration is not None
    if iteration.limit:
        return _limited(run, fact.lane, iteration)
    before = run.tally(iteration.story_key)
    needs_person = iteration.trouble is not None and iteration.trouble.kind is Kind.NOT_LOGGED_IN
    if iteration.outcome is Outcome.INTERRUPTED or needs_person or iteration.question:
        tally = replace(before, calls=before.calls + 1)
    else:
        tried = _tried(iteration, fact)
        remembered = (*before.tried, tried)[-REMEMBERED:]
        tally = replace(
            before,
            calls=before.calls + 1,
            spent=before.spent + 1,
            reason=tried.reason,
            tried=remembered,
        )
    run = replace(
        run,
        book=None,
        iterations=(*run.iterations, replace(iteration, saved_ref=fact.saved_ref)),
        tallies=run.tallies | {iteration.story_key: tally},
    )
    run = _lane(run, fact.lane, iteration=None, strikes=0)
    if needs_person or iteration.fatal:
        return run_endings.end(replace(run, error=iteration.reason), Status.STUCK, Reason.ERROR)
    run = parking_rules.settled(run, iteration, tally, fact.saved_ref)
    return run if run.ended else run_endings.stop_now(run)


def wait_started(run: Run, fact: f.WaitStarted) -> Run:
    """A limit is being waited out."""
    strikes = run.lanes[fact.lane].strikes + 1
    waiting = Waiting(fact.until, fact.why, fact.kind)
    return _lane(run, fact.lane, waiting=waiting, limit=None, limited="", strikes=strikes)


def stepped_in(run: Run, fact: f.SteppedIn) -> Run:
    """On with the story at once, by another agent."""
    stand_in = StandIn(fact.agent, fact.model, fact.until, fact.instead_of)
    return _lane(run, fact.lane, limit=None, limited="", stand_in=stand_in)


def wait_over(run: Run, fact: f.WaitOver) -> Run:
    """On with the story."""
    return _lane(run, fact.lane, waiting=None)


def budget_reached(run: Run, fact: f.BudgetReached) -> Run:
    """A pause while somebody is there to raise it, else the end; what was attempted is settled."""
    reached = fact.reached
    if run.ended or Budget(reached.name, reached.limit) not in run.plan.budgets:
        return run  # stopped, or raised, while the loop looked
    run = replace(run, over=reached)
    if fact.waits:
        return run
    return run_endings.end(replace(run, error=reached.said), Status.STOPPED, Reason.STOPPED)


def budget_set(run: Run, fact: f.BudgetSet) -> Run:
    """The pause is over if nothing is used up any more."""
    run = replace(run, plan=replace(run.plan, budgets=merged(run.plan.budgets, fact.budgets)))
    return replace(run, over=still_over(run)) if run.over and not run.ended else run


def person_done(run: Run) -> Run:
    """The person's word ends the run as soon as no iteration is open."""
    run = replace(run, person_done=True)
    if any(lane.iteration for lane in run.lanes) or not run_endings.word_counts(run):
        return run
    return run_endings.end(replace(run, stop=None), Status.DONE, Reason.SUCCESS)


def stop_requested(run: Run, fact: f.StopRequested) -> Run:
    """A stop takes effect at once when nothing is open; an ended run stays as it ended."""
    run = replace(run, stop=fact.stop)
    if run.ended or run.origin is None or any(lane.iteration for lane in run.lanes):
        return run
    # A soft stop waits for the next look at the stories, unless none will come.
    awaits_word = run.plan.done is Done.MANUAL and run_endings.all_finished(run)
    waits = bool(run.held_up or run.undecided) or awaits_word
    waits = waits or any(lane.waiting or lane.limit for lane in run.lanes)
    if waits and run_endings.stop_is_due(run):
        return run_endings.end(run, Status.STOPPED, Reason.STOPPED)
    return run_endings.stop_now(run)


def choice_made(run: Run, fact: f.ChoiceMade) -> Run:
    """The choice is to be carried out."""
    return replace(run, choice=fact.choice, closed=False, refused=False, stop=None)


def closed(run: Run, fact: f.Closed) -> Run:
    """The choice is carried out."""
    return replace(run, closed=True, choice=fact.choice)


def refused(run: Run, fact: f.Refused) -> Run:
    """The choice is still open, for later."""
    return replace(run, closed=True, refused=True, choice=None, error=fact.message)


def step_failed(run: Run, fact: f.StepFailed) -> Run:
    """Stuck; an open iteration stays open, so that `resume` settles it first."""
    run = replace(run, error=fact.message)
    if run.origin is None:
        return replace(run, status=Status.STOPPED, abandoned=True)
    if run.ended:
        return replace(run, closed=True, refused=True, choice=None)
    return run_endings.end(run, Status.STUCK, Reason.ERROR)


def resumed(run: Run, fact: f.Resumed) -> Run:
    """The run goes on: retries renewed, the earlier ending forgotten."""
    tallies = {key: replace(tally, spent=0) for key, tally in run.tallies.items()}
    return replace(
        run,
        plan=fact.plan,
        status=Status.RUNNING,
        reason=None,
        tallies=tallies,
        parked=parking_rules.forgiven(run),
        undecided=None,
        commitless=0,
        book=None,
        stop=None,
        choice=None,
        closed=False,
        refused=False,
        person_done=False,
        error="",
        over=None,
    )


def asked_again(run: Run, fact: f.AskedAgain) -> Run:
    """The run stays as it ended; the choice is open again."""
    return replace(run, plan=fact.plan, stop=None, choice=None, closed=False, refused=False)


def adopted(run: Run, fact: f.Adopted) -> Run:
    """The person's own edits on the branch are the new checkpoint."""
    return _lane(run, fact.lane, checkpoint=fact.checkpoint)


def abandoned(run: Run, fact: f.Abandoned) -> Run:
    """The run will not go on."""
    status = run.status if run.ended else Status.STOPPED
    return replace(run, abandoned=True, status=status, error=fact.why)


def taken_back(now: Run, then: Run) -> Run:
    """The run as it was then; what was called since stays in the history and in the counts."""
    calls = Counter(it.story_key for it in now.iterations)
    return replace(
        then,
        iterations=now.iterations,
        ledger=now.ledger,
        unattempted=now.unattempted,
        tallies={key: Tally(calls[key]) for key in calls if key not in then.finished},
        parked=now.parked,
        answered=now.answered,
        order=now.order,
        guidance=now.guidance,
        book=None,
        stop=None,
    )


# ---------------------------------------------------------------------------------------------


def _limited(run: Run, lane: int, iteration: Iteration) -> Run:
    run = _unattempted(run, iteration)
    who = label(iteration.agent or run.plan.agent, iteration.model)
    run = _lane(run, lane, iteration=None, limit=iteration.limit, limited=who)
    return run_endings.stop_now(run)


def _tried(iteration: Iteration, fact: f.Reverted) -> Tried:
    outcome = str(iteration.outcome)
    return Tried(
        iteration.attempt,
        outcome,
        fingerprint(outcome, iteration.reason),
        iteration.reason if iteration.outcome in REASON_IS_PASSED_ON else "",
        fact.saved_ref,
        fact.tree,
        iteration.rung,
    )


def _back_and_forth(run: Run, tree: str) -> bool:
    """Whether a plain iteration only took back what the one before it did."""
    return run.plan.plain and bool(tree) and len(run.trees) > 1 and run.trees[-2] == tree


def _unattempted(run: Run, iteration: Iteration) -> Run:
    usage = iteration.usage
    if usage is None or usage.estimated:
        return run  # there is no entry to say that it is a guess
    return replace(run, unattempted=run.unattempted.plus(usage))


def _lane(run: Run, lane_id: int, **changes: object) -> Run:
    lanes = tuple(replace(lane, **changes) if lane.id == lane_id else lane for lane in run.lanes)
    return replace(run, lanes=lanes)


def _iteration(run: Run, lane_id: int, **changes: object) -> Run:
    iteration = run.lanes[lane_id].iteration
    assert iteration is not None
    return _lane(run, lane_id, iteration=replace(iteration, **changes))
