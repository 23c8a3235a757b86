"""`stop`, `finish` and `done`: words to a live loop, or after the fact."""

import os
from typing import Any

import click

from untildone.commands import control
from untildone.commands import finish as finishing
from untildone.commands.run import PULL_REQUEST
from untildone.commands.run_ending import Ended
from untildone.domain.errors import UserError
from untildone.domain.run.run import Choice
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.cli.view import View, process_for, say_ended, where_the_work_is
from untildone.interfaces.output import echo, progress
from untildone.wiring.repository import here
from untildone.wiring.worktrees import here_for, the_change

CHOICES = (*Choice, PULL_REQUEST)


def changes_and_choices(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    """What a shell completes for `finish`."""
    words = [str(word) for word in CHOICES if word.startswith(typed)]
    return words if ctx.params.get("words") else [*change_names(ctx, param, typed), *words]


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


@click.command(
    epilog="Examples:\n\n  untildone finish add-login cleanup\n\n"
    "  untildone finish add-login pr --base main\n\n  untildone finish pr --ready"
)
@click.argument(
    "words", nargs=-1, metavar="[CHANGE] cleanup|keep|pr", shell_complete=changes_and_choices
)
@click.option(
    "--draft/--ready",
    "draft",
    default=None,
    help="pr: a draft or not.  [default: ready once all is done and verified]",
)
@click.option(
    "--base", default="", help="pr: branch to merge into.  [default: where the run began]"
)
@click.option("--remote", default="", help="pr: remote to push to.  [default: the usual one]")
@click.option("--squash", is_flag=True, help="pr: one commit instead of one per story.")
@click.option(
    "--with-uncommitted",
    "uncommitted",
    is_flag=True,
    help="pr: hand over what you had not committed when the run began, too.",
)
@click.option("--json", "as_json", is_flag=True, help="Events as JSON lines on stdout.")
def finish(words: tuple[str, ...], as_json: bool, **pull_request: Any) -> int:  # noqa: ANN401, FBT001
    """Carry out the completion choice, for a waiting loop or after the fact.

    \b
    cleanup  back to the original branch, all changes as uncommitted edits
    keep     stay on ralph/CHANGE with one commit per story
    pr       keep, push ralph/CHANGE and open a pull request with the evidence;
             again: bring it up to date

    After a run with `--checkpoint stash` the first two leave all changes as uncommitted edits.
    CHANGE can be left out if only one run is there to be finished.
    """
    change, choice = _change_and_choice(words)
    if choice != PULL_REQUEST and (pull_request["draft"] is not None or any(pull_request.values())):
        raise click.UsageError(f"These options are for `pr`, not for `{choice}`.")
    change = change or the_change(here())
    view = View(as_json=as_json)
    if choice == PULL_REQUEST:
        return _pull_request(change, view, pull_request)
    repository = here_for(change)
    if repository.alive():
        control.send_choice(repository, change, choice)
        echo(f"{choice}: done")
        return 0
    process = process_for(repository, view, may_ask=False)
    ended = finishing.finish(process, repository.needed(change), Choice(choice))
    return say_ended(ended, view) if ended.exit_code == 5 else _finished(ended, choice)


def _pull_request(change: str, view: View, options: dict[str, Any]) -> int:
    """Keep first, for a waiting loop or after the fact; then the rest, whoever has kept it."""
    from untildone.commands.pull_request import Handover, Request
    from untildone.interfaces.cli.pull_request import keep_and_hand_over
    from untildone.settings.load import load

    repository = here_for(change)
    request = Request(**options, forge=load(repository.place.top, os.environ, {}).forge)
    run = repository.needed(change)
    control.refuse_agent(run.plan.run_id)
    Handover(repository, run, request, progress).check()
    if repository.alive():
        control.send_choice(repository, change, Choice.KEEP)
    refused = keep_and_hand_over(repository, change, request, view)
    return say_ended(refused, view) if refused else 0


def _change_and_choice(words: tuple[str, ...]) -> tuple[str, str]:
    if not words or words[-1] not in CHOICES:
        change = f"{words[0]} " if words else ""
        both = " or ".join(f"`untildone finish {change}{choice}`" for choice in CHOICES)
        given = f", and `{words[-1]}` is none" if len(words) > 1 else ""
        raise click.UsageError(f"The choice is missing{given}: {both}.")
    if len(words) > 2:
        raise click.UsageError(f"One change at a time, not {len(words) - 1}.")
    return (words[0] if len(words) == 2 else ""), words[-1]


@click.command()
@click.argument("change", required=False, default="", shell_complete=change_names)
def done(change: str) -> int:
    """Say that a run with `--done manual` is done; CHANGE is needed if several could be meant."""
    change = change or the_change(here())
    repository = here_for(change)
    if repository.alive():
        control.send_done(repository, change)
        echo(f"The loop over {change} was told that it is done.")
        return 0
    run = repository.needed(change)
    if not run.plan.plain and run.plan.done != "manual":
        raise UserError(
            f"The run of `{change}` ends when its stories are done, not by `untildone done`",
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
    echo(f"{choice}: done. {where_the_work_is(ended.run)}", wrap=True)
    return 0
