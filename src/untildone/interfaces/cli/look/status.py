"""`status` and `logs`: where loops stand, what agents said and did."""

import sys

import click

from untildone.commands.look import status as loop_status
from untildone.commands.look.feed import Followed
from untildone.interfaces import render, status_page
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.cli.setting_flags import WholeNumber
from untildone.interfaces.output import echo, echo_json
from untildone.wiring.repository import Repository, here
from untildone.wiring.worktrees import here_for

WATCH_S = 1.0


@click.command()
@click.option("--json", "as_json", is_flag=True, help='{"loops": [...]}: every state file.')
@click.option("--weigh", is_flag=True, help="With --json: also what the saved attempts weigh.")
@click.option("--watch", "-w", is_flag=True, help="Refresh until Ctrl-C.")
@click.option("--schema", is_flag=True, help="The JSON Schema of the state file.")
def status(as_json: bool, weigh: bool, watch: bool, schema: bool) -> int:  # noqa: FBT001 - click
    """Where every loop of this repository stands, in all worktrees."""
    if schema:
        echo(loop_status.schema())
        return 0
    repository = here()
    if not watch:
        _show(repository, loop_status.loops(repository), as_json=as_json, weigh=weigh)
        return 0
    shown = None
    while True:
        loops = loop_status.loops(repository)
        if sys.stdout.isatty() and not as_json:
            click.clear()
            _show(repository, loops, as_json=as_json, weigh=weigh)
        elif loops != shown:  # for a script only what is new
            _show(repository, loops, as_json=as_json, weigh=weigh)
            sys.stdout.flush()
        shown = loops
        repository.inbox.wake.wait(WATCH_S)


def _show(
    repository: Repository, loops: list[dict[str, object]], *, as_json: bool, weigh: bool
) -> None:
    loops = [dict(loop) for loop in loops]
    if weigh or not as_json:
        loop_status.weigh(repository, loops)
    if as_json:
        echo_json({"loops": loops})
    elif not loops:
        echo("No loop has run in this repository yet. Start one: `untildone run`", wrap=True)
    else:
        now = repository.clock.now()
        pages = (status_page.page(loop, loop_status.told(loop), now) for loop in loops)
        echo("\n\n".join(pages), wrap=True)


@click.command()
@click.argument("change", required=False, default="", shell_complete=change_names)
@click.option("--iteration", "-n", type=WholeNumber(1), help="Only this iteration.")
@click.option("--lane", type=WholeNumber(0), help="Only this lane.")
@click.option("--follow", "-f", is_flag=True, help="Go on as the loop goes on.")
@click.option("--raw", is_flag=True, help="The agent's raw output, escapes taken out.")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines.")
def logs(
    change: str,
    iteration: int | None,
    lane: int | None,
    follow: bool,  # noqa: FBT001 - click
    raw: bool,  # noqa: FBT001 - click
    as_json: bool,  # noqa: FBT001 - click
) -> int:
    """What the agent said and did in the newest run of CHANGE."""
    repository = here_for(change)
    if raw:
        for text in loop_status.raw_output(repository, change, iteration, lane):
            echo(text, nl=False)
        return 0
    run = Followed(repository, loop_status.run_of(repository, change).plan.run_id)
    for event in loop_status.events(run, iteration, lane, follow=follow):
        if as_json:
            echo_json(event)
        else:
            text = _log_line(render.safe(event))
            if text:
                echo(text)
        sys.stdout.flush()
    return 0


def _log_line(event: render.EventObject) -> str:
    if event["event"] == "agent_text":
        return str(event["text"]).rstrip("\n")
    text = render.complaint(event) or render.line(event)
    return f"{render.clock_time(event['at'])} {text}" if text else ""
