"""Budgets of a run that exists: raised for a live loop, asked for before one goes on."""

from collections.abc import Mapping
from pathlib import Path

from untildone.adapters.git.repository import STATE_FILE
from untildone.adapters.records.inbox import POLL_S
from untildone.commands.control import for_people, live, post
from untildone.commands.plan import given_budgets
from untildone.domain.costs.budget import Budget, merged
from untildone.domain.errors import UserError
from untildone.domain.run.run import Run, Status
from untildone.domain.run.spending import still_over
from untildone.wiring.repository import Repository, read_state
from untildone.wiring.sources import source_of

PAUSED = "waiting_budget"
ANSWER_WAIT_S = 15.0


def refuse_spent(run: Run, more: tuple[Budget, ...], top: Path) -> None:
    """A run whose budget is used up does not go on before it has a higher one."""
    if run.status is Status.DONE and not run.closed:
        return  # only the choice is missing
    if not more and any(lane.iteration for lane in run.lanes):
        return  # an attempt that was cut short is settled first, then the loop stops by itself
    over = still_over(run, merged(run.plan.budgets, more))
    if over and (run.plan.plain or _has_work(run, top)):
        raise UserError(
            over.said,
            state="Nothing was changed.",
            hint=f"untildone resume {run.plan.change_id} --budget {over.enough}",
        )


def _has_work(run: Run, top: Path) -> bool:
    source = None if run.archived else source_of(run.plan, top)
    return source is not None and bool(source.load().open_stories(run.finished))


def raise_live(repository: Repository, change: str, flags: Mapping[str, object]) -> str:
    """Give a live loop its new budgets; empty if this command is not for a live loop."""
    state = read_state(repository.place.top / STATE_FILE) if repository.alive() else None
    if state is None:
        return ""
    more = given_budgets(flags)
    others = any(value not in (None, ()) for name, value in flags.items() if name != "budget")
    paused = state.get("phase") == PAUSED
    if others or not (more or paused):
        return ""
    state = live(repository, change)
    for_people(state.get("run_id"))
    run = repository.needed(str(state["change_id"]))
    refuse_spent(run, more, repository.place.top)
    if not more:
        return ""  # somebody else was quicker
    post(repository, state, {"kind": "budget", "budget": ",".join(b.written for b in more)})
    words = ", ".join(budget.written for budget in more)
    if not paused:
        return f"The loop over {run.plan.change_id} holds to {words} after the current call."
    if _goes_on(repository):
        return f"The loop over {run.plan.change_id} goes on with {words}."
    return "The loop was told and has not answered yet; see `untildone status`."


def _goes_on(repository: Repository) -> bool:
    end = repository.clock.monotonic() + ANSWER_WAIT_S
    while repository.clock.monotonic() < end:
        state = read_state(repository.place.top / STATE_FILE) or {}
        if state.get("phase") != PAUSED:
            return True
        repository.inbox.wake.wait(POLL_S / 20)
    return False
