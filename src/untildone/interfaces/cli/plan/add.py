"""`add`: one story more, at any time."""

import os

import click

from untildone.commands.plan import add as adding
from untildone.domain.stories.story import NewStory
from untildone.interfaces.cli.completion import change_names, open_story_ids
from untildone.interfaces.cli.setting_flags import given, setting_flags
from untildone.interfaces.output import echo, echo_json
from untildone.settings.load import load
from untildone.wiring.worktrees import here_for


@click.command()
@click.argument("change", shell_complete=change_names)
@click.argument("title")
@click.option("--task", "tasks", multiple=True, metavar="TEXT", help="A task of it; repeatable.")
@click.option(
    "--after", metavar="ID", shell_complete=open_story_ids, help="Put it behind this one."
)
@click.option(
    *("--depends", "depends"),
    multiple=True,
    metavar="ID",
    shell_complete=open_story_ids,
    help="It waits for this story; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
@setting_flags("source", "source_file")
def add(
    change: str,
    title: str,
    tasks: tuple[str, ...],
    after: str | None,
    depends: tuple[str, ...],
    as_json: bool,  # noqa: FBT001 - click
    **flags: object,
) -> int:
    """Add the story TITLE to CHANGE, written as the others of its file are.

    Works beside a live loop, which takes it over with its next look at the plan. Without --after
    the story comes last.
    """
    repository = here_for(change)
    settings = load(repository.place.top, os.environ, given(flags))
    new = NewStory(title, tasks, depends, (after, "") if after else None)
    added = adding.add(repository, change, settings, new)
    path = os.path.relpath(repository.place.top / added.path)
    if as_json:
        place = {"path": added.path, "line": added.story.line, "live": added.live}
        story = {"story_id": added.story.id, "title": added.story.title}
        echo_json({"change_id": change} | story | place)
        return 0
    echo(f"Added story {added.story.id}: {path}:{added.story.line}")
    if added.ended:
        echo("The loop has come to its end and waits for your choice; the story is for the next.")
    elif added.live:
        echo("The loop that runs takes it over.")
    else:
        echo(f"Next: `untildone run {change}`")
    return 0
