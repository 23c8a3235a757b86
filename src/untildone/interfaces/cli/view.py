"""What commands that drive a loop share: its windows, their flags, and the last line."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO, TypeVar

import click
from msgspec import Struct

from untildone.app.bus import Observer
from untildone.app.wording import how_to_go_on, parked_words
from untildone.commands.background import Detached
from untildone.commands.run import LoopProcess
from untildone.commands.run_ending import Ended
from untildone.domain.costs.budget import said
from untildone.domain.plain_text import count_of
from untildone.domain.reporting import views
from untildone.domain.run.run import Run
from untildone.interfaces.output import echo, echo_json
from untildone.interfaces.windows import JsonLines, PlainLines, Title, terminal
from untildone.wiring.repository import Repository

MOST_NAMED = 5
F = TypeVar("F", bound=Callable[..., Any])


class View(Struct, frozen=True):
    """How a loop is shown."""

    as_json: bool = False
    quiet: bool = False
    no_color: bool = False

    @classmethod
    def of(cls, typed: dict[str, Any]) -> "View":
        """The view of a command line; its flags are taken out of it."""
        return cls(*(bool(typed.pop(name)) for name in cls.__struct_fields__))


def view_flags(command: F) -> F:
    for option in (
        click.option("--no-color", is_flag=True, help="No colours; NO_COLOR works too."),
        click.option("--quiet", "-q", is_flag=True, help="Only warnings and errors."),
        click.option("--json", "as_json", is_flag=True, help="Events as JSON lines on stdout."),
    ):
        command = option(command)
    return command


def detach_flag(command: F) -> F:
    about = "Run in the background, without this terminal; --json prints one line about it."
    return click.option("--detach", "-d", is_flag=True, help=about)(command)


def interactive(view: View) -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and terminal() is not None and not view.as_json


def process_for(
    repository: Repository, view: View, *, may_ask: bool = True, detach: bool = False
) -> LoopProcess:
    """The process of this worktree with its windows; they ask for no choice if it is made."""
    at_terminal = interactive(view)
    return LoopProcess(
        repository,
        windows=lambda asks: list(_windows(view, asks=asks and may_ask, at_terminal=at_terminal)),
        log_window=_log,
        detach=detach,
        at_terminal=at_terminal,
        warn=_warn,
    )


def _windows(view: View, *, asks: bool, at_terminal: bool) -> Iterator[Observer]:
    if view.as_json:
        yield JsonLines(sys.stdout, sys.stderr)
    elif sys.stdout.isatty() and not view.quiet:
        from untildone.interfaces.console import LiveView

        yield LiveView(color=colored(view), ask=asks and at_terminal)
    else:
        yield PlainLines(sys.stdout, sys.stderr, quiet=view.quiet, asks=asks)
    screen = terminal()
    if screen:
        yield Title(screen)


def colored(view: View) -> bool:
    return not view.no_color and not os.environ.get("NO_COLOR")


def _log(out: TextIO, asks: bool) -> Observer:  # noqa: FBT001 - as `log_window` of a process
    # What the agent says is in the journal already: a log of it all would grow without end.
    return PlainLines(out, out, asks=asks, notices=False)


def _warn(text: str) -> None:
    echo(f"warning: {text}", err=True, wrap=True)


def say_summary(run: Run | None, view: View) -> None:
    """After a night: what is done and verified, what is not and why, what it cost."""
    if run and run.iterations and views.stories(run) and not (view.as_json or view.quiet):
        with contextlib.suppress(OSError):
            for row in _summary(run):
                echo(row, wrap=True)


def _summary(run: Run) -> Iterator[str]:
    counts, spent = views.stories(run) or {}, run.ledger.total
    cost = "unknown" if spent.cost_usd is None else said("cost", spent.cost_usd)
    proof = f", {counts['verified']} verified by a check" if "verified" in counts else ""
    text = f"Done: {counts['finished']} of {count_of(counts['total'], 'story', 'stories')}{proof}"
    yield f"{text}; {count_of(len(run.iterations), 'call')}, cost {cost}"
    rest = run.book.open_stories(run.finished) if run.book else ()
    for story in rest[:MOST_NAMED]:
        parked = run.parked.get(story.key)
        why = f": {parked_words(parked.why)}" if parked else ""
        yield f"  not done: {story.id} {story.title}{why}"
    if len(rest) > MOST_NAMED:
        yield f"  and {len(rest) - MOST_NAMED} more: `untildone status`"


def say_ended(ended: Ended, view: View) -> int:
    """The last line; nobody reading it any more does not change how the run ended."""
    run = ended.run
    with contextlib.suppress(OSError):
        if ended.message:
            echo(ended.message, err=view.as_json, wrap=True)
        elif run and not view.as_json and not view.quiet:
            echo(_next_command(run, ended.exit_code), wrap=True)
    return ended.exit_code


def say_detached(left: Detached, view: View) -> int:
    """Where the loop is now; or, where its start has failed, what it said."""
    if left.exit_code:
        echo(left.said.rstrip(), err=True)
        return left.exit_code
    change = left.change_id
    if view.as_json:
        about = {"run_id": left.run_id, "change_id": change, "pid": left.pid}
        echo_json(about | {"log": str(left.log)})
    elif not view.quiet:
        echo(f"The run of {change} goes on without this terminal: {left.run_id}")
        for what, text in {
            "look": f"untildone attach {change} (or status)",
            "wait": f"untildone wait {change}",
            "stop": f"untildone stop {change}",
            "log": left.log,
        }.items():
            echo(f"  {what}: {text}")
    return 0


def _next_command(run: Run, exit_code: int) -> str:
    later = _later(run)
    if exit_code == 5:
        return f"Nothing was changed; the work is on ralph/{run.plan.change_id}. Later: {later}"
    in_worktree = run.plan.checkpoint == "worktree" and run.choice == "keep"
    in_place = run.plan.checkpoint == "stash" and run.choice
    if in_worktree or in_place or run.choice == "cleanup" or run.status == "done":
        return where_the_work_is(run)
    return f"Next: {how_to_go_on(run)}; {later} (or keep) ends it."


def where_the_work_is(run: Run) -> str:
    """After the choice was carried out."""
    branch = f"ralph/{run.plan.change_id}"
    if run.plan.checkpoint == "stash" and run.choice:
        return "All changes are uncommitted edits in your working tree: `git status`"
    if run.choice == "cleanup":
        own = f"`{run.origin.branch}`" if run.origin and run.origin.branch else "Your commit"
        return f"{own} is checked out, all changes are uncommitted edits: `git status`"
    if run.plan.checkpoint == "worktree":
        return f"The work is on {branch} in a worktree: `git worktree list`. Later: {_later(run)}"
    return f"The work is on {branch}: `git log`. Later: {_later(run)}"


def _later(run: Run) -> str:
    return f"`untildone finish {run.plan.change_id} cleanup`"
