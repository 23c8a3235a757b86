"""`demo`: a complete run in a throw-away repository."""

import os
import sys
from pathlib import Path

import click

from untildone.commands import demo as demo_project
from untildone.domain.plain_text import count_of
from untildone.interfaces import render
from untildone.interfaces.cli.view import View, process_for
from untildone.interfaces.output import echo
from untildone.interfaces.windows import terminal


@click.command()
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Make the repository in this new folder and keep it.",
)
@click.option("--fast", is_flag=True, help="Without the pauses that let a person follow.")
def demo(keep: Path | None, fast: bool) -> int:  # noqa: FBT001 - click
    """A complete run in a throw-away repository with the built-in scripted agent.

    Needs no key and no network. Of four stories one passes, one fails with a reason and then
    passes, one lies about being done and is caught by the check, and one crashes and recovers.
    """
    if sys.stdin is None:  # descriptor 0 was closed: the next pipe must not get that number
        sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123 - open until the process ends
    asks = sys.stdin.isatty() and terminal() is not None
    on_complete = "ask" if asks else "cleanup"
    with demo_project.project(keep, fast=fast) as repository:
        echo(f"A throw-away repository, a change of four stories: {repository.place.top}")
        echo(f"$ untildone run {demo_project.CHANGE} --strict --verify '{demo_project.CHECK}'")
        ended = demo_project.play(process_for(repository, View()), on_complete)
        if ended.exit_code or ended.run is None:
            return ended.exit_code
        _sum_up(demo_project.summary(repository, ended.run), str(ended.run.choice), keep)
    return 0


def _sum_up(summary: demo_project.Summary, choice: str, keep: Path | None) -> None:
    commits = "\n".join(f"  {row}" for row in summary.commits)
    echo(f"\nThe commits it made, one per story (`git log --oneline`):\n{commits}")
    echo("Failed attempts were put back, nothing is lost, each is saved under a ref:")
    for row in summary.attempts:
        echo(f"  {row}")
    if choice == "cleanup":
        echo(f"After cleanup, uncommitted on `main`: {count_of(len(summary.edits), 'file')}")
    echo(f"Tokens (as the scripted agent tells them): {render.tokens(summary.tokens)}")
    gone = "The throw-away repository was removed."
    echo(f"The repository is kept in: {keep}" if keep else gone)
    if keep:
        echo(f"What happened, on one page: cd {keep} && untildone report")
    echo("next: cd your-repo && untildone init")
