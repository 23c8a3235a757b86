"""Undo: the newest operation in this worktree is taken back, and that is an operation too."""

from collections.abc import Callable
from functools import partial

from untildone.adapters.checkpoints.undo import moved_since
from untildone.adapters.git.repository import move_stale_locks
from untildone.adapters.records import journal as journals
from untildone.adapters.records.operations import Begun, Operation, OperationLog
from untildone.app.recovery import facts_before
from untildone.domain.errors import UserError
from untildone.domain.run import fact as f
from untildone.domain.run.run import RESTORED, Run
from untildone.wiring.build import build_closing
from untildone.wiring.repository import Repository
from untildone.wiring.worktrees import others


def operations(repository: Repository) -> list[Operation]:
    """Everything that was changed in this worktree, oldest first."""
    return OperationLog(repository.home).all()


def undo(repository: Repository, change: str = "") -> Operation:
    """Take back the newest operation; returns it. One of another change is left alone."""
    repository.lock.take("undo")
    try:
        cut_short = finish_begun(repository)
        if cut_short and cut_short.undone:
            return cut_short.undone  # that undo is what was asked for
        return _undo(repository, change)
    finally:
        repository.lock.release()


def _undo(repository: Repository, change: str) -> Operation:
    operation = _newest(repository, OperationLog(repository.home).all())
    if change not in ("", operation.change):
        raise UserError(
            f"The newest change here is the {operation.name} of `{operation.change}`, "
            f"not one of `{change}`",
            state="Nothing was changed.",
            hint=f"`untildone undo {operation.change}` takes that back; `untildone undo --list`",
        )
    run = repository.replay(operation.run_id)
    assert run is not None
    _refuse_open(run)
    facts = sum(1 for _ in journals.replayed(repository.folder(operation.run_id).journal))
    closing = build_closing(repository, run.plan)
    closing.undo(operation, facts, partial(tell, repository))
    return operation


def finish_begun(
    repository: Repository, warn: Callable[[str], None] = lambda text: None
) -> Begun | None:
    """Finish what a killed command has begun here; whoever takes the lock calls this."""
    log = OperationLog(repository.home)
    begun = log.begun()
    # Git was killed with it. The user's own may hold the index for as long as an editor is open.
    for lock in move_stale_locks(repository.place, repository.home / "aside", index=bool(begun)):
        warn(f"Moved a lock aside that a killed git command had left: {lock}")
    run = repository.replay(begun.operation.run_id) if begun else None
    if begun is None or run is None:
        log.drop()
        return None
    stored = build_closing(repository, run.plan).finish(begun, partial(tell, repository))
    name, change = begun.operation.name, begun.operation.change
    warn(f"The {name} of `{change}` that was cut short was finished; stored before: {stored}")
    return begun


def tell(repository: Repository, begun: Begun) -> None:
    """What the run has to know of an operation; once only, whoever was killed over it."""
    operation = begun.operation
    run = repository.replay(operation.run_id)
    if run is None:
        return
    if operation.name == "restore":
        _tell_restore(repository, run, operation)
    if begun.undone is None:
        return
    path = repository.folder(operation.run_id).journal
    facts = [fact for fact, _ in journals.replayed(path)]
    told = _told(begun.undone, facts) if len(facts) == operation.facts else None
    if told:
        journal = journals.Journal(path)
        journal.record(told, (), repository.clock.now())
        journal.close()
    after = repository.replay(operation.run_id)
    if after:
        repository.write_dead(after)


def _tell_restore(repository: Repository, run: Run, operation: Operation) -> None:
    git, plan = repository.git(), run.plan
    if plan.checkpoint == "stash":
        from untildone.adapters.checkpoints.stash import remove_traces

        remove_traces(git, plan.change_id, plan.run_id)
    if not run.abandoned:
        refs = git.refs(f"refs/ralph/archive/{plan.change_id}/")
        stored = (name for name, ref in refs.items() if ref.commit == operation.before.files)
        repository.abandon(run, f"{RESTORED}; the state before is stored as {next(stored, '')}")


def _newest(repository: Repository, known: list[Operation]) -> Operation:
    """The newest operation that came about; a crash may have come before it could."""
    git, place = repository.git(), repository.place
    for operation in reversed(known):
        if repository.replay(operation.run_id) is None:
            continue
        if not moved_since(git, place, operation) or operation is known[-1]:
            return operation
    own = (o.place.top for o in others(repository) if o.place.top.exists() and operations(o))
    hints = (f"cd {top} && untildone undo" for top in own)
    raise UserError(
        "There is nothing to undo in this worktree", hint=next(hints, "untildone status")
    )


def _refuse_open(run: Run) -> None:
    if any(lane.iteration for lane in run.lanes):
        change = run.plan.change_id
        raise UserError(
            f"The run of `{change}` was cut short in an attempt, which comes first",
            state="Nothing was changed.",
            hint=f"`untildone resume {change}`, or `untildone finish {change} keep`",
        )


def _told(operation: Operation, facts: list[f.Fact]) -> f.Fact | None:
    """What the run's journal has to know of it."""
    if operation.name == "undo":
        return f.TakenBack(operation.facts)
    if operation.name == "start":
        return f.Abandoned("the start was undone")
    position = facts_before(operation.name, operation.after.files, facts)
    return None if position is None else f.TakenBack(position)
