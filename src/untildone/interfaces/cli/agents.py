"""`agents`: what can be driven from here."""

import os
import shlex
from pathlib import Path

import click
from msgspec import to_builtins

from untildone.commands import agents as found
from untildone.domain.errors import UserError
from untildone.interfaces.output import echo, echo_json, progress
from untildone.settings.load import load
from untildone.settings.settings import SETTINGS
from untildone.wiring.repository import here

WORDS = {True: "login found", False: "NO LOGIN FOUND", None: "login unknown"}


@click.command(epilog="Examples:\n\n  untildone agents\n\n  untildone agents --permissions edits")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@click.option(
    "--permissions",
    type=click.Choice(SETTINGS["permissions"].words),
    help="As `run` would be told.",
)
def agents(as_json: bool, permissions: str | None) -> int:  # noqa: FBT001 - click
    """The agents that are installed here: version, login, and how each will be called.

    A login is seen by its file or its variable; whether it still holds only a call can tell.
    """
    try:
        top: Path | None = here().place.top
    except UserError:
        top = None
    settings = load(top, os.environ, {"permissions": permissions})
    rows = found.agents(settings, top or Path.cwd(), tell=progress)
    if as_json:
        data = {"agents": [to_builtins(row) for row in rows]}
        echo_json(data)
        return 0
    for row in rows:
        _show(row)
    echo("  command    any other program: `untildone run --agent-cmd 'PROGRAM ARGS'`")
    return 0


def _show(row: found.Found) -> None:
    mark = "→" if row.chosen else " "
    if not row.path:
        untested = ", and UNTESTED" if row.untested else ""
        echo(f"{mark} {row.name:<10} not installed{untested}: {row.install}")
        return
    how = WORDS[row.logged_in]
    echo(f"{mark} {row.name:<10} {row.version or row.why}, {how} ({row.path})")
    if row.untested:
        echo(f"{'':13}UNTESTED: written from its documentation; tell us what it really does")
    if row.login:
        echo(f"{'':13}to log in{' again' if row.logged_in else ''}: {row.login}")
    if row.call:
        echo(f"{'':13}call: {shlex.join(row.call)}")
    else:
        echo(f"{'':13}{row.refused}")
    if row.holds:
        echo(f"{'':13}permissions {row.permissions}: {row.holds}")
    if row.environment:
        given = (f"{name}={shlex.quote(value)}" for name, value in row.environment.items())
        echo(f"{'':13}with: {' '.join(given)}")
