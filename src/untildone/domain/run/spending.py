"""What a run has spent, which budget is used up, and what the rest will cost."""

import math
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from untildone.domain.agents.agent import Ending
from untildone.domain.costs.budget import OF_A_STORY, Budget, Reached, Reserved, kind
from untildone.domain.costs.ledger import Account, Ledger
from untildone.domain.run import fact as f
from untildone.domain.run.run import Iteration, Outcome, Run, Stage
from untildone.domain.stories.story import StoryKey

# How a call ends whose agent had the time to say what it used.
TOLD = (Outcome.COMPLETE, Outcome.FAILED, Outcome.NO_PROMISE)

# What a call in one of these stages has cost is in the ledger.
MEASURED = (Stage.MEASURED, Stage.JUDGED)


def booked(before: Run, fact: f.Fact, after: Run, at: datetime) -> Run:
    """The run after this fact, with the time and the usage that it tells of."""
    ledger = _entered(before, fact, after, at)
    return after if ledger is before.ledger else replace(after, ledger=ledger)


def _entered(run: Run, fact: f.Fact, after: Run, at: datetime) -> Ledger:  # noqa: C901 - one arm each
    ledger = run.ledger
    match fact:
        case f.AttemptStarted(lane):
            return ledger.begun(at, lane, alone=not run.open_iterations)
        case f.WaitStarted() if run.open_iterations:
            return ledger.worked(at)
        case f.Opened() | f.WaitStarted() | f.Resumed():
            return ledger.read(at)
        case f.BudgetSet() if run.over and not after.over:
            return ledger.read(at)
        case f.AttemptEnded():
            # Nobody knows how long the agent of a loop that was killed has worked.
            unseen = fact.outcome is Outcome.INTERRUPTED and fact.ending is Ending.EXITED
            return ledger.read(at) if unseen else _worked(run, fact.lane, at)
        case f.UsageMeasured():
            return _with_usage(after, fact, _worked(run, fact.lane, at))
        case f.Verified():
            return _worked(run, fact.lane, at)
        case f.WaitOver() | f.ChecksTried():
            return ledger.worked(at)
        case f.BudgetReached():
            return (ledger.worked(at) if _waits(run) else ledger).read(None)
        case f.Saved() | f.Landed() if not run.plan.plain:
            return ledger.without_story(_key(run, fact.lane))
        case _:
            return ledger


def _worked(run: Run, lane: int, at: datetime) -> Ledger:
    return run.ledger.worked_on(at, lane, _key(run, lane))


def _key(run: Run, lane: int) -> StoryKey:
    return run.open_iteration(lane).story_key


def _with_usage(run: Run, fact: f.UsageMeasured, ledger: Ledger) -> Ledger:
    iteration = run.lanes[fact.lane].iteration
    assert iteration is not None
    guessed = fact.usage is not None and fact.usage.estimated
    usage = None if iteration.limit and guessed else fact.usage
    told = iteration.outcome in TOLD and not iteration.limit
    attempt = iteration.limit is None
    return ledger.called(iteration.story_key, usage, iteration=attempt, told=told)


def _waits(run: Run) -> bool:
    return any(lane.waiting for lane in run.lanes)


def spent(run: Run, name: str, key: StoryKey | None = None, at: datetime | None = None) -> float:
    """What counts against a budget; a wait that is under way counts up to `at`."""
    of_story = name.startswith(OF_A_STORY)
    account = _account(run, name, key)
    if kind(name) == "time" and at and _waits(run) and not of_story:
        account = replace(account, seconds=account.seconds + run.ledger.passed(at))
    return account.amount(kind(name))


def _account(run: Run, name: str, key: StoryKey | None) -> Account:
    of_story = name.startswith(OF_A_STORY)
    return run.ledger.story(key or ("", "")) if of_story else run.ledger.total


def reached(
    run: Run,
    at: datetime | None = None,
    story: tuple[str, StoryKey] | None = None,
) -> Reached | None:
    """The first budget that is used up: of the run, or of the story that comes next.

    One of cost also stops the run when nobody knows what a call has cost: it could not be kept.
    """
    story_id, key = story or ("", None)
    for budget in run.plan.budgets_of(key):
        of_story = budget.name.startswith(OF_A_STORY)
        if of_story and story is None:
            continue
        used = spent(run, budget.name, key, at)
        over = used >= budget.limit or not affordable(run, expected_cost(run), (budget,))
        unknown = kind(budget.name) == "cost" and _account(run, budget.name, key).unpriced > 0
        if over or unknown:
            whose = (story_id, key) if of_story else ("", None)
            return Reached(budget.name, used, budget.limit, *whose, unknown=not over)
    return None


def expected_cost(run: Run) -> Reserved:
    """What the next call may cost, by this run's calls so far: nine of ten cost no more.

    Nothing is kept free for a single lane: its budgets are looked at between calls.
    """
    if len(run.lanes) == 1 or not run.plan.budgets:
        return Reserved()
    usages = [iteration.usage for iteration in _measured(run) if iteration.usage]
    tokens = sorted(usage.total for usage in usages)
    costs = sorted(usage.cost_usd for usage in usages if usage.cost_usd is not None)
    ninth = [values[math.ceil(0.9 * len(values)) - 1] for values in (tokens, costs) if values]
    return Reserved(int(ninth[0]) if tokens else 0, float(ninth[-1]) if costs else 0.0)


def is_guesswork(run: Run) -> bool:
    """Whether a budget of tokens or money is to be kept and no call has told what one costs.

    Then only one is under way at a time.
    """
    budgets = (kind(b.name) for b in run.plan.budgets if not b.name.startswith(OF_A_STORY))
    if not {"tokens", "cost"} & {*budgets}:
        return False
    return not _measured(run)


def _measured(run: Run) -> tuple[Iteration, ...]:
    """The calls of which is known what they cost, as far as it ever will be."""
    return (*run.iterations, *(one for one in run.open_iterations if one.stage in MEASURED))


def affordable(run: Run, new: Reserved, budgets: tuple[Budget, ...] | None = None) -> bool:
    """Whether one more call fits into the budgets of the run, beside those under way.

    So no cap is passed by more than what running calls cost beyond what was kept free for them.
    """
    if len(run.lanes) == 1:
        return True
    under_way = (one.reserved for one in run.open_iterations if one.stage not in MEASURED)
    kept = (*under_way, new)
    reserved = {
        "tokens": float(sum(one.tokens for one in kept)),
        "cost": sum(one.cost_usd for one in kept),
        "iterations": float(len(kept)),
    }
    return all(
        spent(run, budget.name) + reserved.get(kind(budget.name), 0.0) <= budget.limit
        for budget in (run.plan.budgets if budgets is None else budgets)
        if not budget.name.startswith(OF_A_STORY)
    )


def still_over(run: Run) -> Reached | None:
    """The budget that keeps a run from going on, as far as that is known without its stories."""
    over = run.held_up
    story = (over.story_id, over.story_key) if over and over.story_key else None
    return reached(run, None, story)


def standing(run: Run) -> list[dict[str, object]]:
    """Every budget with what counts against it; a story's with what the story at hand has used."""
    key = _story_at_hand(run)
    return [
        {"name": b.name, "limit": b.limit, "spent": round(spent(run, b.name, key), 6)}
        for b in run.plan.budgets_of(key)
    ]


def _story_at_hand(run: Run) -> StoryKey | None:
    if run.over and run.over.story_key:
        return run.over.story_key
    open_one = next((lane.iteration for lane in run.lanes if lane.iteration), None)
    last = open_one or (run.iterations[-1] if run.iterations else None)
    return last.story_key if last else None


class Forecast(Struct, frozen=True):
    """What the rest will cost if the stories go on as they went.

    `enough_for` is how many of them `budget` will pay for; None if the budgets are enough.
    """

    stories_left: int
    tokens: int
    cost_usd: float | None
    minutes: float
    enough_for: int | None = None
    budget: str = ""


def forecast(run: Run) -> Forecast | None:
    """From what the finished stories of this run cost; None before the first or after the last.

    Parked stories are not part of the rest.
    """
    finished = len(run.finished)
    left = run.story_count - run.finished_count - len(run.parked)
    if run.plan.plain or not finished or left <= 0:
        return None
    total, each = run.ledger.total, left / finished
    cost = total.cost_usd
    pays_for = [  # 1e-9: in binary 0.3 / 0.1 is a little less than 3
        (math.floor((budget.limit - used) / (used / finished) + 1e-9), budget.name)
        for budget in run.plan.budgets
        if not budget.name.startswith(OF_A_STORY) and (used := spent(run, budget.name))
    ]
    enough_for, name = min(pays_for, default=(left, ""))
    short = enough_for < left
    return Forecast(
        stories_left=left,
        tokens=round(total.tokens * each),
        cost_usd=None if cost is None else round(cost * each, 6),
        minutes=round(total.seconds / 60 * each, 2),
        enough_for=max(0, enough_for) if short else None,
        budget=name if short else "",
    )
