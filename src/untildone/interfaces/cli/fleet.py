"""`fleet`: changes of many repositories on many machines."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from untildone.domain.plain_text import count_of
from untildone.interfaces.cli.setting_flags import WholeNumber, given, setting_flags
from untildone.interfaces.output import echo, echo_json, progress

if TYPE_CHECKING:
    from untildone.domain.fleet.order import ChangeOrder

# Settings that decide about one machine or one run as a whole; a fleet has its own ways.
NOT_SUBMITTED = ("checkpoint", "lanes", "story", "with_deps", "on_complete", "optimistic", "strict")
as_json_flag = click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
address_flag = click.option(
    "--address", default="", metavar="HOST:PORT", help="The server.  [default: as configured]"
)


@click.group(
    epilog="Examples:\n\n  untildone fleet up\n\n  untildone fleet worker --slots 4\n\n"
    "  untildone fleet submit git@host:team/app.git add-login --verify 'pytest -q'\n\n"
    "  untildone fleet status --watch"
)
def fleet() -> None:
    """Changes of many repositories on many machines, on a Temporal server.

    Workers take stories and run the same loop as `run` does, each in a checkout of its own. A story
    is done when its commit is on ralph/CHANGE of the remote: the server may be lost, and nothing
    that is there is done again. Needs `pip install 'untildone[fleet]'`.
    """


@fleet.command()
@click.option("--port", type=WholeNumber(0), help="0: a free one.  [default: 7233, or a free one]")
@click.option(
    "--host",
    type=click.Choice(["127.0.0.1", "0.0.0.0"]),  # noqa: S104 - only where it is asked for
    default="127.0.0.1",
    help="Listen on this host only, or at every address.",
    show_default=True,
)
@as_json_flag
def up(port: int | None, host: str, as_json: bool) -> int:  # noqa: FBT001 - click
    """Start a development server on this host, for this user; it lives on until `fleet down`.

    It has neither TLS nor users: whoever reaches its port can run commands on your workers. Other
    hosts reach it through a tunnel or a private network.
    """
    from untildone.commands.fleet import changes, server

    if not as_json:
        progress("Starting the server")
    found, new = server.up(port, host, lambda address: changes.engine(address=address).ready())
    if as_json:
        echo_json({"address": found.address, "ui": found.ui, "pid": found.pid})
        return 0
    echo(f"The server {'is up' if new else 'was up already'}: {found.address} ({found.ui})")
    echo("Next: `untildone fleet worker --slots 2`, here or where this address is reached.")
    return 0


@fleet.command()
@as_json_flag
def down(as_json: bool) -> int:  # noqa: FBT001 - click
    """End the server of `fleet up`. What it knows stays; `fleet up` goes on with it."""
    from untildone.commands.fleet import server

    found = server.down()
    if as_json:
        echo_json({"ended": found is not None, "pid": found.pid if found else None})
    else:
        echo("The server is down." if found else "No server of `fleet up` runs on this host.")
    return 0


@fleet.command()
@click.option("--slots", type=WholeNumber(1), default=1, help="Stories at once.", show_default=True)
@click.option("--once", is_flag=True, help="End when nothing is left to do.")
@address_flag
@as_json_flag
def worker(slots: int, once: bool, address: str, as_json: bool) -> int:  # noqa: FBT001 - click
    """Take stories and do them, until it is told to end.

    Only connections to the server and to the repositories are made, none is taken. SIGTERM or
    Ctrl-C: the stories at work are finished, no more are taken; a second one ends their agents.
    """
    from untildone.commands.fleet.worker import work

    def say(text: str) -> None:
        if as_json:
            echo_json({"said": text})
        else:
            echo(text)

    work(slots, once=once, say=say, address=address)
    return 0


def _order_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    from untildone.settings.settings import SETTINGS

    names = [name for name in SETTINGS if name not in NOT_SUBMITTED]
    for option in (
        click.option("--base", default="", help="Branch to begin from.  [default: its usual one]"),
        click.option("--account", default="", help="Whose calls count together, see `account`."),
        click.option("--reserve", type=float, default=0.0, help="Dollars a story may cost."),
        click.option("--priority", type=click.IntRange(1, 5), default=3, help="1 comes first."),
        click.option("--guide", "guidance", multiple=True, help="Say this to every agent."),
        address_flag,
        as_json_flag,
    ):
        command = option(command)
    return setting_flags(*names)(command)


@fleet.command()
@click.argument("repository")
@click.argument("changes", nargs=-1, metavar="CHANGE…")
@click.option(
    "--from",
    "file",
    type=click.File(),
    help="Also the changes of this file, one a line: CHANGE, or REPOSITORY CHANGE.",
)
@click.option("--land", is_flag=True, help="Bring it onto the base branch once all is done.")
@_order_flags
def submit(
    repository: str,
    changes: tuple[str, ...],
    file: Any,  # noqa: ANN401 - a text file
    land: bool,  # noqa: FBT001 - click
    as_json: bool,  # noqa: FBT001 - click
    address: str,
    **typed: Any,  # noqa: ANN401 - click
) -> int:
    """Enqueue changes of REPOSITORY, an address that workers reach.

    Idempotent: one that is under way stays as it is, and stories whose commits are on the remote's
    branch are not done again. Flags are those of `run`.
    """
    named = [(repository, change) for change in changes]
    for line in file or ():
        words = line.split()
        if words and not words[0].startswith("#"):
            named.append((words[0], words[1]) if len(words) > 1 else (repository, words[0]))
    if not named:
        raise click.UsageError("No change is named: REPOSITORY CHANGE…, or --from FILE.")
    return _submit(_orders(named, land=land, **typed), address, as_json=as_json)


@fleet.command()
@click.argument("repository")
@click.argument("changes", nargs=-1, metavar="CHANGE…", required=True)
@_order_flags
def land(
    repository: str,
    changes: tuple[str, ...],
    as_json: bool,  # noqa: FBT001 - click
    address: str,
    **typed: Any,  # noqa: ANN401 - click
) -> int:
    """Bring finished changes onto their base branch, one after the other, checked on top of it.

    The same as `submit --land`: what is not finished is finished first.
    """
    named = [(repository, change) for change in changes]
    return _submit(_orders(named, land=True, **typed), address, as_json=as_json)


def _orders(named: Sequence[tuple[str, str]], **typed: Any) -> "list[ChangeOrder]":  # noqa: ANN401
    from untildone.domain.fleet.order import ChangeOrder
    from untildone.settings.fleet import fleet_settings

    named = [(_absolute(repository), change) for repository, change in named]
    own = {name: typed.pop(name) for name in ("base", "account", "reserve", "priority", "land")}
    guidance = tuple(typed.pop("guidance"))
    flags = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in given(typed).items()
        if value is not None
    }
    beat = 60 * fleet_settings(os.environ).heartbeat
    return [
        ChangeOrder(repository, change, flags=flags, heartbeat_s=beat, guidance=guidance, **own)
        for repository, change in named
    ]


def _absolute(repository: str) -> str:
    """A folder by its full name: workers do not know the one that was typed in."""
    path = Path(repository).expanduser()
    return str(path.resolve()) if path.is_dir() else repository


def _submit(orders: "list[ChangeOrder]", address: str, *, as_json: bool) -> int:
    from untildone.commands.fleet import changes

    if not as_json:
        progress(f"Submitting {count_of(len(orders), 'change')}")
    rows = changes.submit(changes.engine(address=address), orders)
    if as_json:
        echo_json({"changes": [to_builtins(row) for row in rows]})
        return 0
    for row in rows:
        words = "submitted" if row.status == "submitted" else "is under way already"
        echo(f"{row.change_id}: {words}")
    echo("Next: `untildone fleet status --watch`")
    return 0


@fleet.command()
@click.option("--watch", "-w", is_flag=True, help="Again and again, until Ctrl-C.")
@address_flag
@as_json_flag
def status(watch: bool, address: str, as_json: bool) -> int:  # noqa: FBT001 - click
    """All changes on all hosts: where they stand, what they wait for, what they cost."""
    from untildone.commands.fleet import changes
    from untildone.interfaces.fleet_page import page

    server = changes.engine(address=address)
    if as_json:
        echo_json(to_builtins(changes.board(server)))
        return 0
    if not watch:
        echo(page(changes.board(server)))
        return 0
    from untildone.interfaces.fleet_page import watch as watched

    watched(lambda: changes.board(server))
    return 0


def _said(name: str, signal: str, about: str, done: str) -> click.Command:
    """A command that says one thing to changes that are under way."""

    @click.command(name, help=about)
    @click.argument("changes", nargs=-1, metavar="[REPOSITORY/]CHANGE…", required=True)
    @address_flag
    @as_json_flag
    def said(changes: tuple[str, ...], address: str, as_json: bool) -> int:  # noqa: FBT001
        from untildone.commands.fleet import changes as fleet_changes

        server = fleet_changes.engine(address=address)
        names = fleet_changes.named(server, changes)
        for workflow in names:
            if signal == "cancel":
                server.cancel(workflow)
            else:
                server.tell(workflow, signal)
        return _told(names, done, as_json=as_json)

    return said


def _told(names: Sequence[str], done: str, *, as_json: bool) -> int:
    shown = [name.removeprefix("change/") for name in names]
    if as_json:
        echo_json({"changes": shown, "said": done})
    else:
        for name in shown:
            echo(f"{name}: {done}")
    return 0


pause = _said(
    *("pause", "pause"),
    "Begin no more stories of these changes; the one at work is finished.",
    "no more stories are begun; `fleet resume` goes on",
)
resume = _said("resume", "resume", "Go on with changes that were paused.", "goes on")
cancel = _said(
    *("cancel", "cancel"),
    "End these changes and their agents; what is on the remote stays.",
    "is being cancelled",
)


def _with_text(name: str, signal: str, about: str, done: str) -> click.Command:
    """A command that says something in a person's own words to one change."""

    @click.command(name, help=about)
    @click.argument("change", metavar="[REPOSITORY/]CHANGE")
    @click.argument("text", required=name != "retry", default="")
    @address_flag
    @as_json_flag
    def said(change: str, text: str, address: str, as_json: bool) -> int:  # noqa: FBT001
        from untildone.commands.fleet import changes as fleet_changes

        server = fleet_changes.engine(address=address)
        (workflow,) = fleet_changes.named(server, [change])
        server.tell(workflow, signal, text)
        return _told([workflow], done, as_json=as_json)

    return said


guide = _with_text(
    *("guide", "guide"),
    "Say something to the agent of the next story that is begun.",
    "the next agent is told",
)
retry = _with_text(
    *("retry", "retry"),
    "Try the story that is stuck again, with words for its agent if you like.",
    "the story is tried again",
)
answer = _with_text(
    *("answer", "retry"),
    "Answer the question of a story; it is tried again with your words.",
    "the story goes on with your answer",
)
for command in (pause, resume, cancel, guide, retry, answer):
    fleet.add_command(command)


@fleet.command()
@click.argument("name")
@click.option("--limit", type=WholeNumber(0), default=0, help="Stories at once; 0: no limit.")
@click.option("--budget", type=float, default=0.0, help="Dollars in all; 0: no limit.")
@address_flag
@as_json_flag
def account(name: str, limit: int, budget: float, address: str, as_json: bool) -> int:  # noqa: FBT001
    """Limits of the account NAME: for changes that were submitted with `--account NAME`."""
    from untildone.commands.fleet import changes

    changes.engine(address=address).set_account(name, limit, budget)
    if as_json:
        echo_json({"account": name, "limit": limit, "budget_usd": budget})
    else:
        echo(f"{name}: {limit or 'any number of'} stories at once, {budget or 'any'} dollars")
    return 0


@fleet.command()
@address_flag
@as_json_flag
def reconcile(address: str, as_json: bool) -> int:  # noqa: FBT001 - click
    """Compare what was submitted from this host with the server and the remotes.

    What the server does not know (it lost its database), and what is gone from a remote, is
    submitted again; stories whose commits are there are not done again.
    """
    from untildone.commands.fleet import changes
    from untildone.commands.fleet.worker import tip_of

    found = changes.reconcile(changes.engine(address=address), tip_of)
    if as_json:
        echo_json({"changes": [to_builtins(row) for row in found]})
        return 0
    for row in found:
        echo(f"{row.repository} {row.change_id}: {row.what}")
    if not found:
        echo("All that was submitted from this host is known to the server, or finished.")
    return 0
