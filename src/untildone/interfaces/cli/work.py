"""`attempts` and `restore`: getting saved work back."""

import json
from dataclasses import asdict

import click

from untildone.interfaces.cli.loop import session_for
from untildone.interfaces.cli.names import change_names
from untildone.wiring import saved
from untildone.wiring.undo import operations
from untildone.wiring.undo import undo as take_back
from untildone.wiring.worktrees import here_for


@click.command()
@click.argument("change", shell_complete=change_names)
@click.option("--show", metavar="STORY/K", help="What the attempt changed, as a diff.")
@click.option("--restore", metavar="STORY/K", help="Bring its files into the working tree.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable list.")
def attempts(change: str, show: str | None, restore: str | None, as_json: bool) -> int:  # noqa: FBT001 - click
    """Failed attempts of CHANGE that were saved: list, show, bring back."""
    repository = here_for(change)
    if show:
        click.echo(saved.show(repository, change, show), nl=False)
        return 0
    if restore:
        stored = saved.bring_back(repository, change, restore)
        click.echo(
            f"The attempt's files are in the working tree; what was there is stored as: {stored}"
        )
        return 0
    rows = saved.attempts(repository, change)
    if as_json:
        click.echo(json.dumps({"attempts": rows}, ensure_ascii=False))
        return 0
    if not rows:
        click.echo(f"No attempt of {change} was saved.")
    for row in rows:
        reason = f"  {row['reason']}" if row["reason"] else ""
        click.echo(f"{row['attempt']}  {row['at']}  {row['outcome']}  {row['files']} files{reason}")
    return 0


@click.command()
@click.argument("change", shell_complete=change_names)
def restore(change: str) -> int:
    """Put the working tree, index and branch back exactly as they were before the run.

    What is there now is stored under refs/ralph/archive first.
    """
    repository = here_for(change)
    stored = session_for(repository).restore(repository.needed(change))
    click.echo("Everything is as it was before the run. What was there is stored as:")
    for ref in stored:
        click.echo(f"  {ref}")
    return 0


@click.command()
@click.argument("change", required=False, default="", shell_complete=change_names)
@click.option("--list", "listed", is_flag=True, help="Only show what was done, newest last.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def undo(change: str, listed: bool, as_json: bool) -> int:  # noqa: FBT001 - click
    """Take back the newest change that untildone made here: refs, HEAD, index and files.

    Works for a start, a checkpoint, a put-back, cleanup, keep, restore, `attempts --restore` and
    for undo itself, so that a second undo does it again. Edits that you made since are kept.
    CHANGE names a run that has a worktree of its own.
    """
    repository = here_for(change)
    if listed:
        rows = [asdict(operation) for operation in operations(repository)]
        if as_json:
            click.echo(json.dumps({"operations": rows}, ensure_ascii=False))
        for row in rows if not as_json else ():
            click.echo(f"{row['name']}  {row['change']}  {row['run_id']}")
        return 0
    taken = take_back(repository)
    if as_json:
        click.echo(json.dumps({"undone": asdict(taken)}, ensure_ascii=False))
    else:
        click.echo(f"Taken back: {taken.name} of {taken.change}. `untildone undo` does it again.")
    return 0
