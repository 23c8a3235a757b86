"""`run` and `resume`."""

import contextlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec.structs import replace

from untildone.commands.drive import Ended
from untildone.commands.plan import SeveralChanges, Wanted
from untildone.commands.raise_budget import raise_live
from untildone.commands.run import Session
from untildone.domain.errors import UserError
from untildone.domain.run.run import Run
from untildone.interfaces.cli.names import change_names
from untildone.interfaces.cli.setting_flags import given, setting_flags
from untildone.interfaces.windows import JsonLines, PlainLines, Title, terminal
from untildone.settings.load import load
from untildone.settings.settings import Settings
from untildone.wiring.repository import Repository, here
from untildone.wiring.user_files import text_of
from untildone.wiring.worktrees import here_for

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

QUIET_VIEW = {"as_json": False, "quiet": False, "no_color": False}

EXAMPLES = """\b
Examples:
  untildone run add-login
  untildone run add-login --verify "pytest -q" --on-complete cleanup
  untildone run add-login --agent-cmd "my-agent --stdin" --max-retries 1
  untildone run --task "Make the tests faster" --done promise
  untildone run add-login --json | jq .event
  untildone run add-login --dry-run
"""


def view_options(command: F) -> F:
    """Flags of what is shown of a loop."""
    for option in (
        click.option("--no-color", is_flag=True, help="No colours; NO_COLOR works too."),
        click.option("--quiet", "-q", is_flag=True, help="Only warnings and errors."),
        click.option("--json", "as_json", is_flag=True, help="Events as JSON lines on stdout."),
    ):
        command = option(command)
    return command


@click.command(epilog=EXAMPLES)
@click.argument("change", required=False, shell_complete=change_names)
@click.option("--task", help="A run without stories: the plain loop over this text.")
@click.option(
    "--task-file", type=click.Path(path_type=Path), metavar="FILE", help="Task from a file."
)
@click.option(
    "--include-flagged",
    is_flag=True,
    help="Take untracked files along that are large or look like secrets.",
)
@click.option(
    "--dry-run", is_flag=True, help="Print the plan and the first prompt, and change nothing."
)
@setting_flags()
@view_options
def run(
    change: str | None,
    task: str | None,
    task_file: Path | None,
    include_flagged: bool,  # noqa: FBT001 - click
    dry_run: bool,  # noqa: FBT001 - click
    **typed: Any,  # noqa: ANN401 - click
) -> int:
    """Start the loop over CHANGE, or go on with it after a crash.

    Without CHANGE: the only open change, or a question when there are several.
    """
    if task_file:
        if task is not None:
            raise UserError(
                "`--task` and `--task-file` are both given: only one can be the task",
                hint="untildone run --task-file FILE",
            )
        task = text_of(task_file, "The task file")
    _refuse_blank(("change", change), ("task", task))
    view, flags = _view(typed), given(typed)
    repository = here()
    settings = load(repository.place.top, os.environ, flags)
    where = (settings.source_file, settings.source)
    wanted = Wanted(change or "", task or "", "", include_flagged, *where)
    if dry_run:
        return _for_one(view, wanted, lambda one: _dry_run(repository, settings, flags, one, view))
    session = session_for(repository, settings.on_complete, view)
    with session.honest():
        ended = _for_one(view, wanted, lambda one: session.start(settings, flags, one))
    return tell(ended, view)


@click.command()
@click.argument("change", required=False, default="", shell_complete=change_names)
@setting_flags()
@view_options
def resume(change: str, **typed: Any) -> int:  # noqa: ANN401 - click
    """Go on with a stopped, stuck, stalled or crashed run.

    Keeps the flags of the run; given flags override them. Retries of the stuck story are renewed.
    """
    view, flags = _view(typed), given(typed)
    repository = here_for(change)
    settings = load(repository.place.top, os.environ, flags)
    told = raise_live(repository, change, flags)
    if told:
        return tell(Ended(0, None, told), view)
    known = repository.latest(change)
    session = session_for(repository, settings.on_complete or _chosen(known), view)
    with session.honest():
        ended = session.resume(settings, flags, change)
    return tell(ended, view)


def _refuse_blank(*given: tuple[str, str | None]) -> None:
    """An empty variable of a script must not start another run than the one that was meant."""
    for name, text in given:
        if text is not None and not text.strip():
            raise UserError(
                f"The {name} is given, but empty",
                state="Nothing was changed.",
                hint="untildone run --help",
            )


def _for_one(view: dict[str, bool], wanted: Wanted, action: Callable[[Wanted], R]) -> R:
    """Do it for the change that is meant; on a terminal the person can be asked which."""
    try:
        return action(wanted)
    except SeveralChanges as several:
        if not _interactive(view):
            raise
        return action(replace(wanted, change=_ask_which(several.names)))


def _dry_run(
    repository: Repository,
    settings: Settings,
    flags: dict[str, object],
    wanted: Wanted,
    view: dict[str, bool],
) -> int:
    from untildone.commands.dry_run import dry_run
    from untildone.interfaces import dry_run_page

    dry = dry_run(repository, settings, flags, wanted)
    if view["as_json"]:
        click.echo(json.dumps(dry_run_page.data(dry), ensure_ascii=False))
    else:
        click.echo(dry_run_page.page(dry))
    if dry.refusal:
        raise dry.refusal
    return 0


def _chosen(run: Run | None) -> str:
    return run.plan.on_complete if run else ""


def _view(typed: dict[str, Any]) -> dict[str, bool]:
    return {name: bool(typed.pop(name)) for name in QUIET_VIEW}


def _interactive(view: dict[str, bool]) -> bool:
    return sys.stdin.isatty() and terminal() is not None and not view["as_json"]


def session_for(
    repository: Repository, on_complete: str = "keep", view: dict[str, bool] = QUIET_VIEW
) -> Session:
    at_terminal = _interactive(view)
    asks = on_complete == "ask" or (at_terminal and not on_complete)
    session = Session(repository, at_terminal=at_terminal, warn=_warn)
    if view["as_json"]:
        session.windows.append(JsonLines(sys.stdout, sys.stderr))
    elif sys.stdout.isatty() and not view["quiet"]:
        from untildone.interfaces.console import LiveView

        color = not view["no_color"] and not os.environ.get("NO_COLOR")
        session.windows.append(LiveView(color=color, ask=asks and at_terminal))
    else:
        session.windows.append(PlainLines(sys.stdout, sys.stderr, quiet=view["quiet"], asks=asks))
    screen = terminal()
    if screen:
        session.windows.append(Title(screen))
    return session


def _ask_which(names: list[str]) -> str:
    for k, name in enumerate(names, 1):
        click.echo(f"  {k}  {name}", err=True)
    answer = click.prompt("Which change", err=True, type=click.IntRange(1, len(names)))
    return names[answer - 1]


def _warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)


def tell(ended: Ended, view: dict[str, bool]) -> int:
    """The last line; nobody reading it any more does not change how the run ended."""
    run = ended.run
    with contextlib.suppress(OSError):
        if ended.message:
            click.echo(ended.message, err=view["as_json"])
        elif run and not view["as_json"] and not view["quiet"]:
            click.echo(_next_command(run, ended.exit_code))
    return ended.exit_code


def _next_command(run: Run, exit_code: int) -> str:
    change = run.plan.change_id
    later = f"`untildone finish {change} cleanup`"
    if exit_code == 5:
        return f"Nothing was changed; the work is on ralph/{change}. Later: {later}"
    if run.plan.checkpoint == "stash" and run.choice:
        return "All changes are uncommitted edits in your working tree: `git status`"
    if run.plan.checkpoint == "worktree" and run.choice == "keep":
        return f"The work is on ralph/{change} in a worktree: `git worktree list`. Later: {later}"
    if run.choice == "cleanup":
        return "Your branch is checked out, all changes are uncommitted edits: `git status`"
    if run.status == "done":
        return f"The work is on ralph/{change}: `git log`. Later: {later}"
    more = f" --budget {run.held_up.enough}" if run.held_up else ""
    return f"Next: `untildone resume {change}{more}` goes on, {later} (or keep) ends it."
