"""`push-run` and `pull-run`: a run goes from machine to machine."""

import click
from msgspec import to_builtins

from untildone.commands.hand_over.push_run import Carried
from untildone.domain.plain_text import count_of
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.cli.view import View, process_for
from untildone.interfaces.output import echo, echo_json, progress
from untildone.wiring.repository import here
from untildone.wiring.worktrees import here_for


@click.command()
@click.argument("change", shell_complete=change_names)
@click.argument("remote", required=False, default="")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def push_run(change: str, remote: str, as_json: bool) -> int:  # noqa: FBT001 - click
    """Push a run that has stopped to REMOTE, so that another machine can go on with it.

    Journal, attempts, your state before the run and the branch go as git refs, all or none, and
    never over something newer. REMOTE is a name or an address; without it: the usual one. Secrets
    are redacted; logs, logins and conversations of agents stay here.
    """
    from untildone.commands.hand_over.push_run import push_run as push

    process = process_for(here_for(change), View(quiet=True), may_ask=False)
    pushed = push(process, change, remote, progress)
    if not _say(pushed, as_json=as_json):
        echo(f"The run of {change} is on {pushed.remote}: {count_of(len(pushed.refs), 'ref')}.")
        echo(f"There: `untildone pull-run {change}`, then `untildone resume {change}`", wrap=True)
    return 0


@click.command()
@click.argument("change")
@click.argument("remote", required=False, default="")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def pull_run(change: str, remote: str, as_json: bool) -> int:  # noqa: FBT001 - click
    """Fetch the run of CHANGE that another machine has pushed to REMOTE, and go to its branch.

    `untildone resume CHANGE` goes on with it. Nothing of this repository is overwritten: what is in
    the way is refused or kept under refs/ralph/archive. REMOTE is a name or an address; without it:
    the usual one.
    """
    from untildone.commands.hand_over.pull_run import pull_run as pull

    process = process_for(here(), View(quiet=True), may_ask=False)
    pulled = pull(process, change, remote, progress)
    if not _say(pulled, as_json=as_json):
        echo(f"The run of {change} ({pulled.run_id}) is here: {pulled.worktree}")
        echo(f"Next: `untildone resume {change}`; `untildone status` shows where it stands.")
    return 0


def _say(carried: Carried, *, as_json: bool) -> bool:
    if as_json:
        echo_json(to_builtins(carried))
    else:
        for note in carried.notes:
            echo(f"note: {note}", err=True, wrap=True)
    return as_json
