"""How each fact changes the run: pure functions, one per fact."""

from collections import Counter
from datetime import datetime

from msgspec.structs import replace

from untildone.domain.agents.agent import StandIn, Waiting
from untildone.domain.checks.checks import Proof, in_force
from untildone.domain.checks.counted_tests import merged as merged_counts
from untildone.domain.costs.budget import Budget
from untildone.domain.run import fact as f
from untildone.domain.run import run_endings, user_requests
from untildone.domain.run.after_failure import gate_opens, limited, waits_first, with_lost_work
from untildone.domain.run.plan import Done
from untildone.domain.run.run import (
    Choice,
    Iteration,
    Landing,
    Lane,
    Outcome,
    Reason,
    Run,
    Stage,
    Status,
)
from untildone.domain.run.spending import still_over
from untildone.domain.run.tally import Tally
from untildone.domain.stories.story import StoryKey

# Steps of a lane without an iteration: one may fail when another lane has ended the run.
IN_IDLE_LANES = ("PrepareSlot", "TryChecks")


def opened(run: Run, fact: f.Opened) -> Run:
    lanes = tuple(Lane(k, fact.checkpoint) for k in range(run.plan.lanes))
    run = replace(run, origin=fact.origin, backup_ref=fact.backup_ref, status=Status.RUNNING)
    return run_endings.stop_now(replace(run, lanes=lanes, tip=fact.checkpoint))


def stories_loaded(run: Run, fact: f.StoriesLoaded, at: datetime) -> Run:
    """Done, stuck at the cap or at parked stories, stalled, stopped, or on to the next story."""
    counts = {"story_count": fact.stories, "finished_count": fact.finished}
    run = replace(_renamed(run, fact.renamed), book=fact.book, listed=True, **counts)
    run = user_requests.looked(run, fact, at)
    if fact.done and run.iterations:
        last = replace(run.iterations[-1], done_check=True)
        run = replace(run, iterations=(*run.iterations[:-1], last))
    if run.ended:
        return run
    if fact.done or run_endings.person_may_end_run(run):
        return run_endings.end(run, Status.DONE, Reason.SUCCESS)
    if fact.unasked and not run.open_iterations:
        return run_endings.asked_for_is_done(run)
    if run_endings.stop_is_due(run):
        return run_endings.end(run, Status.STOPPED, Reason.STOPPED)
    if run.plan.plain and run.commitless >= run.plan.limits.stall_threshold:
        return run_endings.end(run, Status.STALLED, Reason.STALLED)
    return _stuck(run, fact)


def _renamed(run: Run, renamed: tuple[tuple[StoryKey, StoryKey], ...]) -> Run:
    """What a lane works on stays that story when somebody gives it another title meanwhile."""
    names = dict(renamed)
    for lane in run.lanes:
        key = lane.iteration.story_key if lane.iteration else ("", "")
        if key in names:
            run = run.with_iteration(lane.id, story_key=names[key])
            run = replace(run, tallies={**run.tallies, names[key]: run.tally(key)})
    return run


def _stuck(run: Run, fact: f.StoriesLoaded) -> Run:
    """Stuck where no story can be taken up, or at the cap; else the run as it is."""
    if fact.unfinished:
        run = replace(run, error=fact.unfinished)
        return run_endings.end(run, Status.STUCK, Reason.UNFINISHED)
    if fact.held:
        return run_endings.end(run, Status.STUCK, Reason.PARKED)
    at_cap = run_endings.iterations_used(run) >= run.plan.limits.max_iterations
    if at_cap and not run.open_iterations and not run_endings.all_finished(run):
        return run_endings.end(run, Status.STUCK, Reason.MAX_ITERATIONS)
    return run


def checks_tried(run: Run, fact: f.ChecksTried) -> Run:
    """What fails before the first story is known; without its checks no run begins."""
    if not fact.cannot_start or run.ended:
        files = {"changed_by_checks": fact.changed, "made_by_checks": fact.made}
        return replace(run, known_failures=fact.failing, counted=fact.counted, **files)
    commands = ", ".join(f"`{command}`" for command in fact.cannot_start)
    error = f"A check cannot start, there is no such program or it may not be run: {commands}"
    run = replace(run, cannot_start=fact.cannot_start, error=error)
    # Nothing was done yet, so nothing is to be kept or asked.
    choice = None if run.iterations else Choice.CLEANUP
    return replace(run_endings.end(run, Status.STUCK, Reason.ERROR), choice=choice)


def slot_ready(run: Run, fact: f.SlotReady) -> Run:
    return run.with_lane(fact.lane, slot=fact.path)


def attempt_started(run: Run, fact: f.AttemptStarted, at: datetime) -> Run:
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
        reserved=fact.reserved,
    )
    if fact.base:
        run = run.with_lane(fact.lane, checkpoint=fact.base)
    if fact.learned is not None:
        tallies = run.tallies | {fact.story_key: replace(tally, learned=fact.learned)}
        run = replace(run, tallies=tallies)
    return run.with_lane(fact.lane, iteration=iteration)


def attempt_ended(run: Run, fact: f.AttemptEnded, at: datetime) -> Run:
    """The agent is gone; its call is judged but not yet measured."""
    iteration = run.open_iteration(fact.lane)
    if not (fact.trouble and fact.trouble.passing):
        run = gate_opens(run, iteration)
    return run.with_iteration(
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
        spoke=fact.spoke,
    )


def usage_measured(run: Run, fact: f.UsageMeasured) -> Run:
    """What is left to decide depends on whether there is a check to run."""
    iteration = run.open_iteration(fact.lane)
    checks = in_force(run.plan.verify, iteration.checks)
    proof = (
        (checks and run.plan.checks_count)
        or run.plan.protected
        or (run.plan.evidence and not run.plan.plain)
    )
    to_verify = bool(proof) and iteration.outcome is Outcome.COMPLETE
    run = with_lost_work(run.with_iteration(fact.lane, usage=fact.usage), fact.lane)
    if to_verify and run_endings.must_stop_now(run):
        reason = "the loop was stopped before the checks ran"
        changes = {"outcome": Outcome.INTERRUPTED, "reason": reason}
        return _judged(run, fact.lane, **changes)
    if to_verify:
        return run.with_iteration(fact.lane, stage=Stage.MEASURED)
    return _judged(run, fact.lane)


def _judged(run: Run, lane: int, **changes: object) -> Run:
    """The work is to be kept or put back; beside other lanes, complete work waits to land."""
    run = run.with_iteration(lane, stage=Stage.JUDGED, **changes)
    if len(run.lanes) == 1 or run.open_iteration(lane).outcome is not Outcome.COMPLETE:
        return run
    return replace(run, tickets=run.tickets + 1).with_lane(lane, ticket=run.tickets + 1)


def verified(run: Run, fact: f.Verified) -> Run:
    """A failed check makes a failed attempt, one cut short by a stop an interrupted one."""
    if run_endings.must_stop_now(run) and not fact.passed:
        outcome = Outcome.INTERRUPTED
    else:
        outcome = Outcome.COMPLETE if fact.passed else Outcome.VERIFY_FAILED
    run = run.with_lane(fact.lane, still_failing=fact.still_failing, counted=fact.counted)
    run = run.with_lane(fact.lane, ticket=0)
    proof = Proof.VERIFIED if fact.passed and fact.checked else Proof.NONE
    changes = {"outcome": outcome, "reason": fact.reason, "fatal": fact.fatal, "proof": proof}
    return _judged(run, fact.lane, **changes)


def land_intended(run: Run, fact: f.LandIntended) -> Run:
    """Should the process die now, git is asked whether the branch has moved."""
    return run.with_lane(fact.lane, landing=Landing(fact.tip, fact.candidate))


def landed(run: Run, fact: f.Landed) -> Run:
    """The story is a commit of the run branch, the sum of both was checked."""
    changes = {"still_failing": fact.still_failing, "counted": fact.counted}
    run = run.with_lane(fact.lane, ticket=0, landing=None, **changes)
    kept = f.Saved(fact.lane, fact.commit, fact.commit, fact.remarks)
    return saved(run, replace(kept, unchanged=fact.unchanged, own_tests=fact.own_tests))


def _proof(iteration: Iteration, fact: f.Saved) -> Proof:
    """A check proves nothing of work that is not there, or that made its own tests easier."""
    if fact.unchanged:
        return Proof.UNCHANGED
    return Proof.OWN_TESTS if iteration.proof and fact.own_tests else iteration.proof


def saved(run: Run, fact: f.Saved) -> Run:
    """The work is kept: a story is finished for ever, a plain iteration adds to the history."""
    iteration = run.open_iteration(fact.lane)
    run = run.with_lane(fact.lane, iteration=None, checkpoint=fact.checkpoint)
    run = replace(run, tip=fact.checkpoint)
    if iteration.limit:
        return limited(run, fact.lane, iteration)
    kept = (*iteration.commits, fact.commit) if fact.commit else iteration.commits
    proof = _proof(iteration, fact)
    told = replace(iteration, commits=kept, proof=proof, own_tests=fact.own_tests)
    run = replace(run, book=None).with_entry(told)
    if run.plan.baseline and run.known_failures is not None:
        # What passes now and fails later is newly broken.
        run = replace(run, known_failures=run.lanes[fact.lane].still_failing)
    run = replace(run, counted=merged_counts(run.counted, run.lanes[fact.lane].counted))
    hits = run.lanes[fact.lane].limit_hits if iteration.trouble_counts else 0
    run = run.with_lane(fact.lane, limit_hits=hits, still_failing=(), counted=())
    if run.plan.plain:
        run = _more_history(run, fact.tree, kept)
        return waits_first(run_endings.after_plain_iteration(run, iteration), fact.lane, iteration)
    return run_endings.stop_now(_story_finished(run, iteration.story_key))


def _more_history(run: Run, tree: str, kept: tuple[str, ...]) -> Run:
    # An agent that does and undoes the same thing in turn commits every time and gets nowhere.
    back_and_forth = bool(tree) and len(run.trees) > 1 and run.trees[-2] == tree
    commitless = 0 if kept and not back_and_forth else run.commitless + 1
    return replace(run, commitless=commitless, trees=(*run.trees[-1:], tree))


def _story_finished(run: Run, key: StoryKey) -> Run:
    return replace(
        run,
        finished=run.finished | {key},
        finished_count=run.finished_count + 1,
        tallies={k: v for k, v in run.tallies.items() if k != key},
        parked={k: v for k, v in run.parked.items() if k != key},
        guidance=tuple(piece for piece in run.guidance if piece.key != key),
    )


def wait_started(run: Run, fact: f.WaitStarted) -> Run:
    limit_hits = run.lanes[fact.lane].limit_hits + 1
    waiting = Waiting(fact.until, fact.why, fact.kind)
    return run.with_lane(fact.lane, waiting=waiting, limit=None, limited="", limit_hits=limit_hits)


def stepped_in(run: Run, fact: f.SteppedIn) -> Run:
    """On with the story at once, by another agent."""
    stand_in = StandIn(fact.agent, fact.model, fact.until, fact.instead_of)
    return run.with_lane(fact.lane, limit=None, limited="", stand_in=stand_in)


def wait_over(run: Run, fact: f.WaitOver) -> Run:
    return run.with_lane(fact.lane, waiting=None)


def budget_reached(run: Run, fact: f.BudgetReached) -> Run:
    """A pause while somebody is there to raise it, else the end; what was attempted is settled."""
    reached = fact.reached
    if run.ended or Budget(reached.name, reached.limit) not in run.plan.budgets_of(
        reached.story_key
    ):
        return run  # stopped, or raised, while the loop looked
    run = replace(run, over=reached)
    if fact.waits:
        return run
    return run_endings.end(replace(run, error=reached.said), Status.STOPPED, Reason.STOPPED)


def budget_set(run: Run, fact: f.BudgetSet) -> Run:
    """The pause is over if nothing is used up any more."""
    run = replace(run, plan=run.plan.with_budgets(fact.budgets))
    return replace(run, over=still_over(run)) if run.over and not run.ended else run


def person_done(run: Run) -> Run:
    """The person's word ends the run as soon as no iteration is open."""
    run = replace(run, person_done=True)
    if any(lane.iteration for lane in run.lanes) or not run_endings.person_may_end_run(run):
        return run
    return run_endings.end(replace(run, stop=None), Status.DONE, Reason.SUCCESS)


def stop_requested(run: Run, fact: f.StopRequested) -> Run:
    """A stop takes effect at once when nothing is open; an ended run stays as it ended."""
    run = replace(run, stop=fact.stop)
    if run.ended or run.origin is None or any(lane.iteration for lane in run.lanes):
        return run
    # A soft stop waits for the next look at the stories, unless none will come.
    if _waits(run) and run_endings.stop_is_due(run):
        return run_endings.end(run, Status.STOPPED, Reason.STOPPED)
    return run_endings.stop_now(run)


def _waits(run: Run) -> bool:
    awaits_word = run.plan.done is Done.MANUAL and run_endings.all_finished(run)
    at_limit = any(lane.waiting or lane.limit for lane in run.lanes)
    return awaits_word or at_limit or bool(run.held_up or run.undecided)


def choice_made(run: Run, fact: f.ChoiceMade) -> Run:
    return replace(run, choice=fact.choice, closed=False, refused=False, stop=None)


def archived(run: Run, fact: f.Archived) -> Run:
    """The change is archived, or will not be."""
    run = replace(run, archived=True)
    if not fact.checkpoint:
        return run
    return replace(run.with_lane(0, checkpoint=fact.checkpoint), tip=fact.checkpoint)


def closed(run: Run, fact: f.Closed) -> Run:
    return replace(run, closed=True, choice=fact.choice)


def refused(run: Run, fact: f.Refused) -> Run:
    """The choice is still open, for later."""
    return replace(run, closed=True, refused=True, choice=None, error=fact.message)


def step_failed(run: Run, fact: f.StepFailed) -> Run:
    """Stuck; an open iteration stays open, so that `resume` settles it first."""
    run = replace(run, error=fact.message)
    if run.origin is None:
        return replace(run, status=Status.STOPPED, abandoned=True)
    late = fact.step in IN_IDLE_LANES
    if run.ended and not late:
        return replace(run, closed=True, refused=True, choice=None)
    run = run.with_lane(fact.lane, broken=True)
    return run if late and run.ended else run_endings.end(run, Status.STUCK, Reason.ERROR)


def resumed(run: Run, fact: f.Resumed) -> Run:
    """The run goes on: retries renewed, the earlier ending forgotten."""
    tallies = {key: tally.renewed for key, tally in run.tallies.items()}
    lanes = _lanes_again(run, fact.plan.lanes)
    gates = {k: g if g.lane < len(lanes) else replace(g, lane=0) for k, g in run.gates.items()}
    return replace(
        run,
        plan=fact.plan,
        status=Status.RUNNING,
        reason=None,
        tallies=tallies,
        parked=user_requests.forgiven(run),
        undecided=None,
        commitless=0,
        book=None,
        undone=False,
        listed=False,
        stop=None,
        choice=None,
        closed=False,
        refused=False,
        person_done=False,
        error="",
        over=None,
        cannot_start=(),
        ending=None,
        lanes=lanes,
        gates=gates,
    )


def _lanes_again(run: Run, wanted: int) -> tuple[Lane, ...]:
    """As many lanes as are wanted now, and those with work to settle; each slot is looked at.

    Open work is settled where it was begun: a single lane works in the worktree of the run, several
    in slots. So one stays one until that is done (see `grown`), and several stay several.
    """
    again = tuple(
        replace(
            lane, broken=False, slot="", checkpoint=lane.checkpoint if lane.iteration else run.tip
        )
        for lane in run.lanes
    )
    with_work = [lane.id + 1 for lane in again if lane.iteration]
    if with_work and len(again) == 1:
        return again
    kept = max([wanted, *with_work, 2 if with_work else 1])
    more = (Lane(k, run.tip) for k in range(len(again), kept))
    return (*again[:kept], *more)


def grown(run: Run) -> Run:
    """A run that was to go on with several lanes has them once the work of the one is settled."""
    wanted = run.plan.lanes
    if not len(run.lanes) == 1 < wanted or run.origin is None or run.open_iterations or run.ended:
        return run
    return replace(run, lanes=(*run.lanes, *(Lane(k, run.tip) for k in range(1, wanted))))


def asked_again(run: Run, fact: f.AskedAgain) -> Run:
    """The run stays as it ended; the choice is open again."""
    return replace(run, plan=fact.plan, stop=None, choice=None, closed=False, refused=False)


def adopted(run: Run, fact: f.Adopted) -> Run:
    """The person's own edits on the branch are the new checkpoint."""
    if fact.checkpoint != run.lanes[fact.lane].checkpoint:
        run = replace(run, counted=())  # who takes tests away here is the person
    run = replace(run, tip=fact.checkpoint)
    # Beside others a lane has a base of its own, from which its work goes on.
    return run.with_lane(fact.lane, checkpoint=fact.checkpoint) if len(run.lanes) == 1 else run


def abandoned(run: Run, fact: f.Abandoned) -> Run:
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
        undone=True,
        stop=None,
    )


def story_undone(run: Run, fact: f.StoryUndone) -> Run:
    """The story is open again and the run before its end; what else was finished stays so."""
    calls = sum(it.story_key == fact.key for it in run.iterations)
    lanes = tuple(replace(lane, checkpoint=fact.checkpoint) for lane in run.lanes)
    return replace(
        run,
        status=Status.RUNNING,
        reason=None,
        ending=None,
        finished=run.finished - {fact.key},
        finished_count=run.finished_count - 1,
        tallies=run.tallies | {fact.key: Tally(calls)},
        lanes=lanes,
        tip=fact.checkpoint,
        counted=(),  # who takes tests away here is the person
        book=None,
        undone=True,
        stop=None,
        choice=None,
        closed=False,
        refused=False,
        person_done=False,
        error="",
    )
