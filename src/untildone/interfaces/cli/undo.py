"""`undo` and `restore`: back to before the last change, or before the run."""

from functools import partial

import click
from msgspec import to_builtins

from untildone.app.wording import restored_hint
from untildone.commands import finish
from untildone.commands.undo import operations, undo_story
from untildone.commands.undo import undo as take_back
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.cli.view import View, process_for
from untildone.interfaces.output import echo, echo_json
from untildone.wiring.repository import Repository, here
from untildone.wiring.worktrees import here_for, the_change


@click.command()
@click.argument("change", required=False, default="", shell_complete=change_names)
def restore(change: str) -> int:
    """Put the working tree, index and branch back exactly as they were before the run.

    What is there now is stored under refs/ralph/archive first. CHANGE can be left out if no other
    change has a run here.
    """
    change = change or the_change(here(), only=True)
    repository = here_for(change)
    process = process_for(repository, View(), may_ask=False)
    with process.corrects_error_state():
        run = repository.needed(change)
        stored = finish.restore(process, run)
    echo("Everything is as it was before the run. What was there is stored as:")
    for ref in stored:
        echo(f"  {ref}")
    echo(f"Next: {restored_hint(run)}.", wrap=True)
    return 0


@click.command()
@click.argument("change", required=False, default="", shell_complete=change_names)
@click.option("--story", metavar="ID", default="", help="Take out this finished story only.")
@click.option("--list", "listed", is_flag=True, help="Only show what was done, newest last.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def undo(change: str, story: str, listed: bool, as_json: bool) -> int:  # noqa: FBT001 - click
    """Take back the newest change that untildone made here: refs, HEAD, index and files.

    Works for a start, a checkpoint, a put-back, cleanup, keep, restore, `attempts --restore` and
    for undo itself, so that a second undo is a redo. Edits that you made since are kept.
    With CHANGE only if that was a change of this run, also in a worktree of its own.

    With --story ID the work of one finished story of CHANGE is taken out by a commit on top of
    its branch: stories that came after it stay, and this one is open again. If later work is in
    the same places, nothing is changed and the files are named.
    """
    if story:
        change = change or the_change(here(), only=True)
    repository = here_for(change) if change else here()
    if listed:
        _list(repository, as_json=as_json)
        return 0
    warn = partial(echo, err=True)
    taken = undo_story(repository, change, story, warn) if story else take_back(repository, change)
    if as_json:
        echo_json({"undone": to_builtins(taken)})
    elif story:
        echo(f"Taken out: story {story} of {change}; it is open again, all others stay.")
        again = f"`untildone resume {change}` does it again"
        echo(f"Next: {again}, `untildone undo {change}` puts it back.", wrap=True)
    else:
        echo(f"Taken back: {taken.name} of {taken.change}. A second `untildone undo` redoes it.")
    return 0


def _list(repository: Repository, *, as_json: bool) -> None:
    rows = [to_builtins(operation) for operation in operations(repository)]
    if as_json:
        echo_json({"operations": rows})
        return
    for row in rows:
        story = f"  {row['story']}" if row["story"] else ""
        echo(f"{row['at'] or '-':16}  {row['name']}  {row['change']}{story}  {row['run_id']}")
