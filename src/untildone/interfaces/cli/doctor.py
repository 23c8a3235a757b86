"""`doctor`: what would keep a loop from working."""

import os
import sys
from pathlib import Path

import click
from msgspec import to_builtins

from untildone.commands import doctor as checkup
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.output import echo, echo_json, fitted, progress
from untildone.wiring.repository import here

COLORS = {"ok": "green", "warn": "yellow", "bad": "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@click.option("--fix", is_flag=True, help="Remove what a dead loop left behind.")
@click.option(
    "--abandon",
    metavar="CHANGE",
    shell_complete=change_names,
    help="With --fix: also end the unfinished run of this change; your files stay.",
)
def doctor(as_json: bool, fix: bool, abandon: str | None) -> int:  # noqa: FBT001 - click
    """Check git, agents, story sources, configuration and leftovers.

    Exits 1 when something is bad. `--fix` removes only files and stash entries of this tool that
    a dead loop left behind, and finishes a command that was killed, cleanup included; runs that
    can be resumed, saved work and your own files stay.
    """
    if abandon and not fix:
        raise click.UsageError(f"`--abandon` needs `--fix`: doctor --fix --abandon {abandon}")
    done = checkup.fix_leftovers(here(), abandon or "") if fix else []
    rows = checkup.examine(Path.cwd(), progress)
    healthy = all(row.level != "bad" for row in rows)
    if as_json:
        data = {"ok": healthy, "rows": to_builtins(rows), "fixed": done}
        echo_json(data)
        return int(not healthy)
    if fix:
        echo("\n".join(f"fixed  {text}" for text in done) or "There was nothing to fix.", wrap=True)
    for row in rows:
        _show(row)
    return int(not healthy)


def _show(row: checkup.Row) -> None:
    color = "" if os.environ.get("NO_COLOR") else COLORS[row.level]
    # Wrapped with the room of the level before it, which has a colour of its own.
    text = fitted(f"{'':<7}{row.check}: {row.text}", sys.stdout)
    echo(f"{row.level:<5}", color=color, nl=False)
    echo(text[5:])
    if row.fix and row.level != "ok":
        echo(f"{'':<7}fix: {row.fix}", wrap=True)
