"""How a command that drives a run ends."""

from msgspec import Struct

from untildone.domain.run.run import Run, Status

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
