"""Undo: the newest operation in this worktree is taken back, and that is an operation too."""

from untildone.adapters.checkpoints.undo import Undoing
from untildone.adapters.records import journal as journals
from untildone.adapters.records.operations import Operation, OperationLog
from untildone.app.recovery import facts_before
from untildone.domain.errors import UserError
from untildone.domain.run import fact as f
from untildone.domain.run.run import Run
from untildone.wiring.build import build_closing
from untildone.wiring.repository import Repository
from untildone.wiring.worktrees import others


def operations(repository: Repository) -> list[Operation]:
    """Everything that was changed in this worktree, oldest first."""
    return OperationLog(repository.home).all()


def undo(repository: Repository) -> Operation:
    """Take back the newest operation; returns it."""
    repository.lock.take("undo")
    try:
        return _undo(repository)
    finally:
        repository.lock.release()


def _undo(repository: Repository) -> Operation:
    log = OperationLog(repository.home)
    operation, undoing = _newest(repository, log.all())
    path = repository.folder(operation.run_id).journal
    facts = [fact for fact, _ in journals.replayed(path)]
    run = repository.replay(operation.run_id)
    _refuse_open(run)
    undo, tree = undoing.plan(operation, len(facts))
    log.add(undo)
    undoing.carry_out(operation, undo, tree)
    told = _told(operation, facts)
    if told:
        journal = journals.Journal(path)
        journal.record(told, (), repository.clock.now())
        journal.close()
    after = repository.replay(operation.run_id)
    if after:
        repository.write_dead(after, repository.clock.now())
    return operation


def _newest(repository: Repository, known: list[Operation]) -> tuple[Operation, Undoing]:
    """The newest operation that came about; a crash may have come before it could."""
    for operation in reversed(known):
        run = repository.replay(operation.run_id)
        if run is None:
            continue
        closing = build_closing(repository, run.plan)
        undoing = Undoing(closing, repository.place)
        if undoing.was_carried_out(operation) or operation is known[-1]:
            return operation, undoing
    own = (o.place.top for o in others(repository) if o.place.top.exists() and operations(o))
    hints = (f"cd {top} && untildone undo" for top in own)
    raise UserError(
        "There is nothing to undo in this worktree", hint=next(hints, "untildone status")
    )


def _refuse_open(run: Run | None) -> None:
    if run and any(lane.iteration for lane in run.lanes):
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
