"""Talking to a live loop from another process."""

import os

from untildone.adapters.git.repository import STATE_FILE
from untildone.adapters.records import journal as journals
from untildone.adapters.records.inbox import POLL_S, send
from untildone.domain.errors import CloseRefused, UserError
from untildone.domain.run import fact as f
from untildone.domain.run.run import Done
from untildone.wiring.repository import Repository, at, read_state
from untildone.wiring.worktrees import user_place

STOP_WAIT_S = 15.0
CHOICE_WAIT_S = 120.0


def stop(repository: Repository, change: str, how: str) -> str:
    """Ask the live loop to stop; for `now`, wait until it has."""
    state = live(repository, change)
    post(repository, state, {"kind": "stop", "how": how})
    if how != "now":
        return (
            f"The loop over {state['change_id']} will stop {how.replace('-', ' the current ', 1)}."
        )
    if _gone(repository, STOP_WAIT_S):
        return f"Stopped. `untildone resume {state['change_id']}` goes on."
    return "The loop was asked to stop and is still finishing; see `untildone status`."


def send_choice(repository: Repository, change: str, choice: str) -> None:
    """The choice for a loop that waits for it; one that it refuses is a CloseRefused."""
    state = live(repository, change)
    user = user_place(repository.place)
    refuse_agent(state.get("run_id"))
    if state.get("phase") != "awaiting_choice":
        waits = state.get("phase") == "awaiting_person"
        word = f"untildone done {change}" if waits else f"`untildone stop {change}` first, or wait"
        raise UserError(
            f"The loop over {change} is not at its end yet (phase: {state.get('phase')})", hint=word
        )
    post(repository, state, {"kind": "choice", "choice": choice})
    if not _gone(repository, CHOICE_WAIT_S):
        raise UserError(
            "The loop has not carried out the choice yet",
            state=f"It was told to {choice} and is still at it.",
            hint="untildone status",
        )
    # After cleanup, a worktree that was made for the run is gone and the user's has its record.
    after = repository.latest(change) or (at(user).latest(change) if user else None)
    if not after or after.choice != choice:
        raise _refused(repository, str(state.get("run_id")), change, choice)


def _refused(repository: Repository, run_id: str, change: str, choice: str) -> CloseRefused:
    """Why the loop did not carry out the choice, in its own words."""
    path = repository.folder(run_id).journal
    facts = [fact for fact, _ in journals.replayed(path)] if path.exists() else []
    last = facts[-1] if facts else None
    if isinstance(last, f.Refused | f.StepFailed):
        return CloseRefused(last.message, hint=last.hint)
    return CloseRefused(
        f"The loop over {change} ended before it carried out the choice",
        state="Nothing was changed by it.",
        hint=f"untildone finish {change} {choice}",
    )


def send_done(repository: Repository, change: str) -> None:
    state = live(repository, change)
    refuse_agent(state.get("run_id"))
    run = repository.latest(change)
    if run and not run.plan.plain and run.plan.done is not Done.MANUAL:
        raise UserError(
            f"The run of `{change}` ends when its stories are done, not by your word",
            hint=f"`untildone stop {change}` stops it; `--done manual` is for your word",
        )
    post(repository, state, {"kind": "done"})


def refuse_agent(run_id: object) -> None:
    """Refuse a decision that an agent tries to make about its own run."""
    if run_id and os.environ.get("UNTILDONE_RUN_ID") == run_id:
        raise UserError(
            "This decision belongs to the person who runs the loop, not to its agent",
            state="Nothing was changed.",
            hint="End with a promise instead; `untildone status` only looks.",
        )


def live(repository: Repository, change: str) -> dict[str, object]:
    """The state of the loop that runs here; none, or another change's, is a UserError."""
    state = read_state(repository.place.top / STATE_FILE)
    if not repository.alive() or state is None:
        what = f"No loop over {change} is running" if change else "No loop is running"
        raise UserError(f"{what} in this worktree", hint="untildone status")
    if change and state.get("change_id") != change:
        raise UserError(
            f"The live loop of this worktree works on another change: {state.get('change_id')}",
            hint="untildone status",
        )
    return state


def post(repository: Repository, state: dict[str, object], message: dict[str, str]) -> None:
    pid = state.get("pid")
    send(repository.inbox.folder, pid if isinstance(pid, int) else 0, message)


def _gone(repository: Repository, seconds: float) -> bool:
    end = repository.clock.monotonic() + seconds
    while repository.alive():
        if repository.clock.monotonic() >= end:
            return False
        repository.inbox.wake.wait(POLL_S / 20)
    return True
