"""A finished change that is put away in the way of its format."""

from msgspec.structs import replace

from untildone.domain.run.fact import Archived
from untildone.domain.run.run import Run, Status


def is_due(run: Run) -> bool:
    """Whether the change is finished and the person wants it archived; it is tried once."""
    return run.plan.archive and run.status is Status.DONE and not run.archived


def archived(run: Run, fact: Archived) -> Run:
    """The change is put away, or will not be."""
    run = replace(run, archived=True)
    if not fact.checkpoint:
        return run
    first = replace(run.lanes[0], checkpoint=fact.checkpoint)
    return replace(run, lanes=(first, *run.lanes[1:]))
