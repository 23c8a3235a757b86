"""How a command that drives a run ends: with the run, or without it."""

from pathlib import Path

from msgspec import Struct

from untildone.domain.run.run import Plan, Run, Status

EXIT_CODES = {Status.DONE: 0, Status.STUCK: 3, Status.STALLED: 4, Status.STOPPED: 6}


class Ended(Struct, frozen=True):
    """How a command that drove a loop ended; `run` is None when there was nothing to do."""

    exit_code: int
    run: Run | None = None
    message: str = ""


def exit_code(run: Run) -> int:
    """What the command that drove this run to its end has returned."""
    if run.stop and run.stop.signal:
        return 128 + run.stop.signal
    if run.cannot_start and not run.iterations and not run.refused:
        return 2
    return 5 if run.refused else EXIT_CODES.get(run.status, 1)


class Detached(Exception):
    """In the process that was typed: the loop lives on in one of its own.

    `exit_code` and `said` are those of a start that failed.
    """

    def __init__(self, plan: Plan, pid: int, log: Path, exit_code: int, said: str) -> None:
        super().__init__(plan.run_id)
        self.run_id, self.change_id = plan.run_id, plan.change_id
        self.pid, self.log = pid, log
        self.exit_code, self.said = exit_code, said
