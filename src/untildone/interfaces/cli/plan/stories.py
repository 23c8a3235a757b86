"""`stories`: what there is to do, as the loop sees it."""

import os

import click

from untildone.commands.look import status
from untildone.commands.start.plan import SeveralChanges, Wanted, pick_change
from untildone.domain.errors import StoriesError
from untildone.domain.plain_text import count_of, plain
from untildone.domain.run.plan import label
from untildone.domain.stories.predicted_files import Beside
from untildone.domain.stories.story import Story, StoryBook
from untildone.interfaces.cli.completion import change_names
from untildone.interfaces.cli.setting_flags import setting_flags
from untildone.interfaces.mermaid import flowchart
from untildone.interfaces.output import echo, echo_json
from untildone.settings.load import load
from untildone.wiring.repository import here
from untildone.wiring.sources import options_of


@click.command()
@click.argument("change", required=False, default="", shell_complete=change_names)
@setting_flags("source", "source_file", "granularity")
@click.option(
    "--graph",
    is_flag=True,
    help="What waits for what and what may run at once, as a Mermaid flowchart.",
)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def stories(
    change: str,
    graph: bool,  # noqa: FBT001 - click
    as_json: bool,  # noqa: FBT001 - click
    **flags: str | None,
) -> int:
    """The stories of CHANGE as the loop sees them, and what was not counted.

    Without CHANGE: the only open one, or everything that can be run here when there are several.
    """
    repository = here()
    settings = load(repository.place.top, os.environ, flags)
    try:
        wanted = Wanted(change, source_file=settings.source_file, source=settings.source)
        name = pick_change(repository, wanted)
    except SeveralChanges:
        _list(status.changes_json(repository, settings.source), as_json=as_json)
        return 0
    book = status.stories(repository, name, settings.source, options_of(settings))
    if graph:
        book, beside = status.may_run_beside(repository, book, optimistic=settings.optimistic)
        _show_graph(book, beside, as_json=as_json)
    elif as_json:
        listed = {} if change else {"changes": status.changes_json(repository, settings.source)}
        echo_json(status.book_json(book) | listed)
    else:
        echo(_table(book))
    if book.problems:
        first = book.problems[0]
        raise StoriesError(
            f"{first.path or book.path}:{first.line}: {first.why}",
            hint=f"Mend the file, then `untildone stories {name}` again.",
        )
    return 0


def _list(rows: list[dict[str, object]], *, as_json: bool) -> None:
    if as_json:
        echo_json({"changes": rows})
        return
    width = max(len(str(row["name"])) for row in rows)
    marks = {"open": "○", "done": "✓", "broken": "!"}
    for row in rows:
        counts = row["tasks"]
        assert isinstance(counts, dict)
        what = (
            plain(str(row["why"]))
            or f"{counts['complete']} of {count_of(counts['total'], 'task')} done"
        )
        name = f"{plain(str(row['name'])):<{width}}"
        echo(f"{marks[str(row['state'])]} {name}  {row['source']}  {what}")
    echo("Run one of them: `untildone run CHANGE`")


def _show_graph(book: StoryBook, beside: Beside, *, as_json: bool) -> None:
    if as_json:
        echo_json(status.beside_json(book, beside))
    else:
        echo(flowchart(book, beside), nl=False)


def _table(book: StoryBook) -> str:
    rows = [
        f"{book.change} ({book.source}): {book.complete} of {count_of(book.total, 'task')} done"
    ]
    width = max((len(story.id) for story in book.stories), default=0)
    rows += [_row(story, width) for story in book.stories]
    if book.records:
        count = count_of(len(book.records), "record")
        rows.append(f"  not stories: {count} that the tracker keeps for itself")
    for remark in book.ignored:
        where = f"{remark.path}, line" if remark.path else "line"
        rows.append(f"  not counted, {where} {remark.line}: {remark.why}")
    return "\n".join(rows)


def _row(story: Story, width: int) -> str:
    about = [f"priority {story.priority}"] if story.priority is not None else []
    about += ["parallel"] if story.parallel else []
    about += [f"after {', '.join(story.depends_on)}"] if story.depends_on else []
    about += _by(story)
    if story.held and not story.done:
        about.append(f"waits for your answer: {plain(story.held)}")
    note = f"  ({'; '.join(about)})" if about else ""
    mark = "✓" if story.done else "○"
    counts = f"{story.complete}/{len(story.tasks)}"
    return f"{mark} {story.id:<{width}}  {counts}  {plain(story.title)}{note}"


def _by(story: Story) -> list[str]:
    if story.agent:
        return [f"by {label(story.agent, story.model)}"]
    return [f"model {story.model}"] if story.model else []
