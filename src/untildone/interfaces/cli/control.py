"""`stop`, `finish` and `done`: words to a live loop, or after the fact."""

import click

from untildone.commands import control
from untildone.commands import finish as finishing
from untildone.commands.run import Ended
from untildone.domain.errors import UserError
from untildone.domain.run.run import Choice
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.cli.view import View, process_for, say_ended
from untildone.interfaces.output import echo
from untildone.wiring.worktrees import here_for


@click.command()
@click.argument("change", required=False, default="", shell_complete=change_names)
@click.option("--now", "how", flag_value="now", default="now", help="End the agent now (default).")
@click.option(
    "--after-iteration", "how", flag_value="after-iteration", help="After this agent call."
)
@click.option("--after-story", "how", flag_value="after-story", help="After this story.")
def stop(change: str, how: str) -> int:
    """Ask a live loop to stop; `untildone resume` goes on later."""
    repository = here_for(change)
    text = control.stop(repository, change, how)
    echo(text)
    return 0


@click.command()
@click.argument("change", shell_complete=change_names)
@click.argument("choice", type=click.Choice(["cleanup", "keep"]))
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines on stdout.")
def finish(change: str, choice: str, as_json: bool) -> int:  # noqa: FBT001 - click
    """Carry out the completion choice, for a waiting loop or after the fact.

    cleanup: back to the original branch, all changes as uncommitted edits.
    keep: stay on ralph/CHANGE with one commit per story.
    After a run with `--checkpoint stash` both leave all changes as uncommitted edits.
    """
    repository = here_for(change)
    if repository.alive():
        control.send_choice(repository, change, choice)
        echo(f"{choice}: done")
        return 0
    view = View(as_json=as_json)
    process = process_for(repository, view, may_ask=False)
    ended = finishing.finish(process, repository.needed(change), Choice(choice))
    return say_ended(ended, view) if ended.exit_code == 5 else _finished(ended, choice)


@click.command()
@click.argument("change", shell_complete=change_names)
def done(change: str) -> int:
    """Say that a run with `--done manual` is done."""
    repository = here_for(change)
    if repository.alive():
        control.send_done(repository, change)
        echo(f"The loop over {change} was told that it is done.")
        return 0
    run = repository.needed(change)
    if not run.plan.plain and run.plan.done != "manual":
        raise UserError(
            f"The run of `{change}` ends when its stories are done, not by your word",
            hint=f"untildone resume {change}",
        )
    if run.closed and run.status == "done":
        raise UserError(f"The run of `{change}` is done already", hint="untildone status")
    process = process_for(repository, View(), may_ask=False)
    return say_ended(finishing.person_done(process, run), View())


def _finished(ended: Ended, choice: str) -> int:
    # The run may have ended stuck or stopped; carrying out the choice is a success of its own.
    if ended.run is None or ended.exit_code not in (0, 3, 4, 6):
        return ended.exit_code
    plan = ended.run.plan
    stays = choice == "cleanup" or plan.checkpoint == "stash"
    where = "the original branch" if stays else f"ralph/{plan.change_id}"
    echo(f"{choice}: done, the worktree is on {where}.")
    return 0
