"""`doctor` and `agents`: what would keep a loop from working, and what can be driven from here."""

import os
import shlex
import sys
from pathlib import Path

import click
from msgspec import to_builtins

from untildone.commands.care import agents as installed
from untildone.commands.care import doctor as checkup
from untildone.domain.errors import UserError
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.output import echo, echo_json, fitted, progress
from untildone.settings.load import load
from untildone.settings.settings import SETTINGS
from untildone.wiring.repository import here

COLORS = {"ok": "green", "warn": "yellow", "bad": "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@click.option("--notify", is_flag=True, help="Send a test notification to every address.")
@click.option("--fix", is_flag=True, help="Remove what a dead loop left behind.")
@click.option(
    "--abandon",
    metavar="CHANGE",
    shell_complete=change_names,
    help="With --fix: also end the unfinished run of this change; your files stay.",
)
def doctor(as_json: bool, notify: bool, fix: bool, abandon: str | None) -> int:  # noqa: FBT001 - click
    """Check git, agents, story sources, configuration and leftovers.

    Exits 1 when something is bad. `--fix` removes only files and stash entries of this tool that
    a dead loop left behind, and finishes a command that was killed, cleanup included; runs that
    can be resumed, saved work and your own files stay.
    """
    if abandon and not fix:
        raise click.UsageError(f"`--abandon` needs `--fix`: doctor --fix --abandon {abandon}")
    done = checkup.fix_leftovers(here(), abandon or "") if fix else []
    rows = checkup.examine(Path.cwd(), progress, send_test=notify)
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
    rows = installed.agents(settings, top or Path.cwd(), tell=progress)
    if as_json:
        data = {"agents": [to_builtins(row) for row in rows]}
        echo_json(data)
        return 0
    for row in rows:
        _show_agent(row)
    echo("  command    any other program: `untildone run --agent-cmd 'PROGRAM ARGS'`")
    return 0


def _show_agent(row: installed.Found) -> None:
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
