"""After the loop: the completion choice, the word of the person, everything back as it was."""

from functools import partial

from untildone.adapters.git.own_worktree import user_of
from untildone.app.wording import restored_hint
from untildone.commands.run import LoopProcess
from untildone.commands.run_ending import Ended
from untildone.commands.undo import tell
from untildone.domain.errors import UserError
from untildone.domain.run import fact as f
from untildone.domain.run.run import RESTORED, Choice, Run, Stop, StopHow
from untildone.wiring.build import build_checkpoint, build_closing
from untildone.wiring.repository import at
from untildone.wiring.worktrees import user_place


def finish(process: LoopProcess, run: Run, choice: Choice) -> Ended:
    """The completion choice after the fact."""
    run = process.taken_over(run)
    if run.restored:
        raise UserError(
            f"The run of `{run.plan.change_id}` was restored, nothing of it is left to finish",
            hint=restored_hint(run),
        )
    if run.plan.checkpoint == "worktree" and run.closed and run.choice is choice:
        from untildone.commands.leftovers import remove_worktrees

        # Carried out, by us or by one that died before it could say so, or remove everything.
        for said in remove_worktrees(process.repository):
            process.warn(said)
        return Ended(0, run)
    if run.abandoned or (run.closed and run.choice is Choice.CLEANUP):
        raise UserError(
            f"The run of `{run.plan.change_id}` was already ended",
            hint=f"`untildone undo` takes its end back, `untildone restore {run.plan.change_id}` "
            "leads to before the run",
        )
    process.go_to_worktree(run)
    loop = process.recovered(run)
    process.refuse_cut_short(loop.run)
    if not loop.run.ended:
        loop.record(f.StopRequested(Stop(StopHow.NOW)))
        process.drive(loop)
    loop.record(f.ChoiceMade(choice))
    return process.drive(loop)


def person_done(process: LoopProcess, run: Run) -> Ended:
    """The person's word for a run whose process is gone."""
    run = process.taken_over(run)
    if run.closed:
        change = run.plan.change_id
        more = f"`untildone resume {change}` goes on with it"
        cleanup = f"`untildone finish {change} cleanup` brings its work to your branch"
        hint = f"{more}, {cleanup}" if run.resumable else f"untildone run {change}"
        raise UserError(f"The run of `{change}` has already ended", hint=hint)
    loop = process.recovered(run)
    if not loop.run.ended:
        loop.record(f.StopRequested(Stop(StopHow.NOW)))
        process.drive(loop)
    loop.record(f.PersonDone())
    return process.drive(loop)


def restore(process: LoopProcess, run: Run) -> tuple[str, ...]:
    """Everything back as it was before the run; returns where the present state is stored."""
    from untildone.adapters.checkpoints.worktree import WorktreeCheckpoint

    run = process.taken_over(run)
    if user_of(process.repository.place) and run.choice is Choice.CLEANUP:
        run = _after_cleanup(process, run)
    repo = process.repository
    run = settled(process, run)
    origin = run.origin
    if origin is None:
        raise UserError(
            "This run never touched anything; there is nothing to restore",
            hint="untildone status",
        )
    workspace = build_checkpoint(repo, run.plan, origin)
    if isinstance(workspace, WorktreeCheckpoint):
        stored = workspace.discard()
        if not run.abandoned:
            run = repo.abandon(run, f"{RESTORED}; the state before is stored as {stored[0]}")
    else:
        closing, branch = build_closing(repo, run.plan), run.plan.checkpoint != "stash"
        told = partial(tell, repo)
        stored = closing.restore(origin, run.backup_ref, branch=branch, told=told)
    process.remove_worktree(run)
    return stored


def settled(process: LoopProcess, run: Run) -> Run:
    """An attempt that was cut short is put back first: it may have moved more than files."""
    loop = process.recovered(run)
    if any(lane.iteration for lane in loop.run.lanes) and not loop.run.ended:
        loop.record(f.StopRequested(Stop(StopHow.NOW)))
        process.drive(loop)
        process.caught_up = (
            "The attempt that was cut short was saved and put back; nothing else was changed."
        )
    return loop.run


def _after_cleanup(process: LoopProcess, run: Run) -> Run:
    """A cleanup that was cut short has touched the user's own worktree: on from there."""
    user = user_place(process.repository.place)
    assert user is not None
    process.finish_closing(run)
    process.repository.lock.release()
    process.repository = at(user)
    process.take_over(run.plan.change_id)
    return process.repository.needed(run.plan.change_id)
