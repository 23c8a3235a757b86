"""Names of changes, for the shell's completion."""

import click

from untildone.domain.errors import UntildoneError


def change_names(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """Open changes of the repository, and those that have a run."""
    from untildone.wiring.repository import here
    from untildone.wiring.sources import open_changes

    try:
        names = [row.name for row in open_changes(here().place.top)]
    except UntildoneError:
        return []
    return [name for name in names if name.startswith(typed)]
