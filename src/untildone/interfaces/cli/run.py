"""`run` and `resume`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec.structs import replace

from untildone.commands import run as loop
from untildone.commands.background import Detached
from untildone.commands.control import raise_budget
from untildone.commands.run_ending import Ended
from untildone.commands.start.plan import SeveralChanges, Wanted
from untildone.domain.errors import UserError
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.cli.option_sections import SectionedCommand
from untildone.interfaces.cli.setting_flags import given, setting_flags
from untildone.interfaces.cli.view import (
    View,
    detach_flag,
    interactive,
    process_for,
    say_detached,
    say_ended,
    say_summary,
    view_flags,
)
from untildone.interfaces.output import echo, echo_json
from untildone.settings.load import load, origins
from untildone.settings.settings import Settings
from untildone.wiring.repository import Repository, here
from untildone.wiring.user_files import text_of
from untildone.wiring.worktrees import here_for

R = TypeVar("R")

EXAMPLES = """\b
Examples:
  untildone run add-login
  untildone run add-login --verify "pytest -q" --on-complete cleanup
  untildone run add-login --agent-cmd "my-agent --stdin" --max-retries 1
  untildone run --task "Make the tests faster" --done promise
  untildone run add-login --json | jq .event
  untildone run add-login --detach
  untildone run add-login --dry-run
"""


@click.command(cls=SectionedCommand, epilog=EXAMPLES)
@click.argument("change", required=False, shell_complete=change_names)
@click.option("--task", help="A run without stories: this text again and again.")
@click.option(
    "--task-file", type=click.Path(path_type=Path), metavar="FILE", help="Task from a file."
)
@click.option(
    "--include-flagged",
    is_flag=True,
    help="Include untracked files that are large or look like secrets.",
)
@click.option(
    "--dry-run", is_flag=True, help="Print the plan and the first prompt, and change nothing."
)
@setting_flags()
@detach_flag
@view_flags
def run(
    change: str | None,
    task: str | None,
    task_file: Path | None,
    include_flagged: bool,  # noqa: FBT001 - click
    dry_run: bool,  # noqa: FBT001 - click
    detach: bool,  # noqa: FBT001 - click
    **typed: Any,  # noqa: ANN401 - click
) -> int:
    """Start the loop over CHANGE, or go on with it after a crash.

    CHANGE is a named list of stories, such as an OpenSpec change; `untildone stories` lists what is
    found here. Without it: the only open change, or a question when there are several. The work
    happens on the branch ralph/CHANGE, one commit per story; at the end you choose what becomes
    of it. `untildone restore` brings back everything as it was.
    """
    if task_file:
        if task is not None:
            raise UserError(
                "`--task` and `--task-file` are both given: only one can be the task",
                hint="untildone run --task-file FILE",
            )
        task = text_of(task_file, "The task file")
    _refuse_blank(("change", change), ("task", task))
    view, flags = View.of(typed), given(typed)
    repository = here()
    settings = load(repository.place.top, os.environ, flags)
    where = (settings.source_file, settings.source)
    written = origins(repository.place.top, os.environ, flags)
    wanted = Wanted(change or "", task or "", "", include_flagged, *where, written)
    if dry_run:
        return _for_one(view, wanted, lambda one: _dry_run(repository, settings, flags, one, view))
    process = process_for(repository, view, detach=detach)
    return _driven(
        process,
        view,
        lambda: _for_one(view, wanted, lambda one: loop.start(process, settings, flags, one)),
    )


@click.command(cls=SectionedCommand)
@click.argument("change", required=False, default="", shell_complete=change_names)
@setting_flags()
@detach_flag
@view_flags
def resume(change: str, detach: bool, **typed: Any) -> int:  # noqa: ANN401, FBT001 - click
    """Go on with a stopped, stuck, stalled or crashed run.

    Keeps the flags of the run; given flags override them. Retries of the stuck story are renewed.
    """
    view, flags = View.of(typed), given(typed)
    repository = here_for(change)
    settings = load(repository.place.top, os.environ, flags)
    raised = raise_budget(repository, change, flags)
    if raised:
        return say_ended(Ended(0, None, raised), view)
    process = process_for(repository, view, detach=detach)
    return _driven(process, view, lambda: loop.resume(process, settings, flags, change))


def _driven(process: loop.LoopProcess, view: View, drive: Callable[[], Ended]) -> int:
    """The loop to its end, or until it is up without this terminal."""
    try:
        with process.corrects_error_state():
            ended = drive()
        say_summary(ended.run, view)
    except Detached as left:
        return say_detached(left, view)
    if not ended.run or ended.run.plan.on_complete != loop.PULL_REQUEST:
        return say_ended(ended, view)
    from untildone.interfaces.cli.pull_request import end_with_pull_request

    return end_with_pull_request(process.repository, ended, view)


def _refuse_blank(*given: tuple[str, str | None]) -> None:
    """An empty variable of a script must not start another run than the one that was meant."""
    for name, text in given:
        if text is not None and not text.strip():
            raise UserError(
                f"The {name} is given, but empty",
                state="Nothing was changed.",
                hint="untildone run --help",
            )


def _for_one(view: View, wanted: Wanted, action: Callable[[Wanted], R]) -> R:
    """Do it for the change that is meant; on a terminal the person can be asked which."""
    try:
        return action(wanted)
    except SeveralChanges as several:
        if not interactive(view):
            raise
        return action(replace(wanted, change=_ask_which(several.names)))


def _dry_run(
    repository: Repository,
    settings: Settings,
    flags: dict[str, object],
    wanted: Wanted,
    view: View,
) -> int:
    from untildone.commands.start.dry_run import dry_run
    from untildone.interfaces import dry_run_page

    dry = dry_run(repository, settings, flags, wanted)
    if view.as_json:
        echo_json(dry_run_page.data(dry))
    else:
        echo(dry_run_page.page(dry))
    if dry.refusal:
        raise dry.refusal
    return 0


def _ask_which(names: list[str]) -> str:
    for k, name in enumerate(names, 1):
        echo(f"  {k}  {name}", err=True)
    answer = click.prompt("Which change", err=True, type=click.IntRange(1, len(names)))
    return names[answer - 1]
