"""`mcp`: a server for other agents, and how they are told of it."""

import signal
from pathlib import Path

import click

from untildone.commands.care.mcp_clients import CLIENTS, Entry, entries, write
from untildone.domain.errors import UserError
from untildone.interfaces.output import echo
from untildone.wiring.repository import here

INSTALL = "install"


@click.command(
    epilog="Examples:\n\n  untildone mcp install --client claude --yes\n\n"
    "  claude mcp add untildone -- untildone mcp --control"
)
@click.argument("words", nargs=-1, metavar="[install] [REPOSITORY]...")
@click.option("--control", is_flag=True, help="Let the client start, guide and stop runs, too.")
@click.option(
    *("--client", "clients"),
    type=click.Choice(CLIENTS),
    multiple=True,
    help="install: only for this client; repeatable.",
)
@click.option("--yes", is_flag=True, help="install: write it instead of only showing it.")
def mcp(words: tuple[str, ...], control: bool, clients: tuple[str, ...], yes: bool) -> int:  # noqa: FBT001 - click
    """Serve the runs of REPOSITORY, or of the current folder, to other agents over MCP.

    It speaks on standard input and output, so a client starts it. It only looks, unless --control
    is given. With `install` it shows, or with --yes writes, what makes a client start it.
    """
    if words[:1] == (INSTALL,):
        return _install(entries(clients, words[1:], control=control), yes=yes)
    if clients or yes:
        raise click.UsageError("These options are for `untildone mcp install`.")
    folders = tuple(Path(word).absolute() for word in words)
    for folder in folders:
        here(folder)
    from untildone.interfaces.mcp.served import Served
    from untildone.interfaces.mcp.server import serve

    # Nothing is to be put away, and a thread that reads would keep the process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    serve(Served(folders or (Path.cwd(),), control=control))
    return 0


def _install(found: list[Entry], *, yes: bool) -> int:
    for entry in found:
        if entry.there == entry.text:
            echo(f"{entry.client}: has it already: {entry.path}")
        elif entry.there:
            raise UserError(
                f"{entry.client} has another server of this name: {entry.path}",
                hint="Remove the entry `untildone` there, then try again.",
            )
        elif yes:
            write(entry)
            echo(f"{entry.client}: written: {entry.path}")
        else:
            echo(f"{entry.client}: to be added to {entry.path}:\n\n{entry.text}\n")
    if not yes:
        echo("Nothing was written; `--yes` writes it.")
    return 0
