"""Handing a run over, by `finish CHANGE pr` or at the end of a run."""

import os

from untildone.commands import finish as finishing
from untildone.commands.pull_request import HandedOver, Handover, NotHandedOver, Request
from untildone.commands.run_ending import Ended
from untildone.domain.errors import UntildoneError
from untildone.domain.run.run import Choice, Run
from untildone.interfaces.cli.view import View, process_for, say_ended
from untildone.interfaces.output import echo, echo_json, progress
from untildone.interfaces.report.pull_request import pull_request_text
from untildone.settings.load import load
from untildone.wiring.repository import Repository


def hand_over(repository: Repository, run: Run, request: Request, view: View) -> None:
    """Push and open the pull request; if that cannot be done, the commands that do it by hand."""
    try:
        handover = Handover(repository, run, request, progress)
        over = handover.carry_out(pull_request_text)
    except NotHandedOver as refused:
        for command in refused.commands:
            echo(command, err=view.as_json)
        raise
    if view.as_json:
        echo_json(handover.event)
    else:
        _say(over)


def keep_and_hand_over(
    repository: Repository, change: str, request: Request, view: View
) -> Ended | None:
    """The same after the choice `keep`, which is carried out first unless it was."""
    process = process_for(repository, view, may_ask=False)
    run = repository.needed(change)
    if run.closed and run.choice is Choice.KEEP and not run.abandoned:
        hand_over(repository, process.taken_over(run), request, view)
        return None
    ended = finishing.finish(process, run, Choice.KEEP)
    if ended.run is None or not ended.run.closed:
        return ended
    hand_over(process.repository, ended.run, request, view)
    return None


def end_with_pull_request(repository: Repository, ended: Ended, view: View) -> int:
    """The last words of a loop; then the pull request, if the run was to end with one."""
    from untildone.interfaces.cli.main import show

    code, run = say_ended(ended, view), ended.run
    kept = run and run.closed and run.choice is Choice.KEEP and not ended.message
    if not (run and kept):
        return code
    forge = load(repository.place.top, os.environ, {}).forge
    try:
        hand_over(repository, run, Request(forge=forge), view)
    except UntildoneError as error:
        show(error)
        return code or NotHandedOver.exit_code
    return code


def _say(over: HandedOver) -> None:
    kind = "draft pull request" if over.draft else "pull request"
    what = "opened" if over.created else "brought up to date"
    for note in over.notes:
        echo(f"note: {note}", err=True, wrap=True)
    echo(f"pr: done. The {kind} is {what}: {over.url}", wrap=True)
    if over.created and "/pull/" in over.url:
        change = over.branch.removeprefix("ralph/")
        echo(f"Next: `untildone watch-ci {change}` follows its checks")
