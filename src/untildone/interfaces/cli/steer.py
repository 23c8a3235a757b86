"""`guide`, `skip`, `retry` and `reorder`: what the person decides about stories, at any time."""

import sys
from collections.abc import Iterable

import click

from untildone.commands import control
from untildone.commands.control import Early, Heard, Said
from untildone.commands.start.early_guidance import is_early, waiting
from untildone.domain.errors import UserError
from untildone.domain.run.fact import Guided
from untildone.domain.run.run import Run
from untildone.interfaces.cli.completion import change_names, changes_and_stories, open_story_ids
from untildone.interfaces.output import echo, echo_json
from untildone.interfaces.render import first_line
from untildone.wiring.repository import Repository, here
from untildone.wiring.worktrees import changes_with_runs, here_for, the_change

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Machine-readable.")


@click.command()
@click.argument("words", nargs=-1, metavar="[CHANGE] TEXT", shell_complete=change_names)
@click.option(
    *("--story", "story_ids"),
    multiple=True,
    metavar="ID",
    shell_complete=open_story_ids,
    help="Only for this story; repeatable.",
)
@click.option("--list", "listed", is_flag=True, help="Only show the guidance that is in force.")
@click.option("--clear", is_flag=True, help="Take it back: all of it, or that of --story.")
@AS_JSON
def guide(
    words: tuple[str, ...],
    story_ids: tuple[str, ...],
    listed: bool,  # noqa: FBT001 - click
    clear: bool,  # noqa: FBT001 - click
    as_json: bool,  # noqa: FBT001 - click
) -> int:
    """Tell the agent TEXT in its next prompts ("-": from standard input).

    Guidance for a story stays until the story is finished, guidance for all until the run ends.
    Given before the first run of CHANGE, it is kept for that run. A story that was parked with a
    question is retried after guidance for it, or after guidance for all if only one question is
    open, whoever asks it. Works while the loop runs and while it does not. CHANGE can be left out
    if only one run could be meant.
    """
    change, text = _change_and_text(words, takes_text=not (listed or clear))
    repository = here_for(change)
    if listed:
        _list(change, _in_force(repository, change), as_json=as_json)
        return 0
    if clear:
        cleared = control.clear(repository, change, story_ids)
        return tell(cleared, "The guidance was taken back.", as_json=as_json)
    if not text:
        raise UserError("There is no text", hint=f'untildone guide {change} "what to know"')
    said = sys.stdin.read() if text == "-" else text
    heard = control.guide(repository, change, Said(said, story_ids))
    whom = f"story {', '.join(story_ids)}" if story_ids else "every story"
    return tell(heard, f"The next prompt of {whom} will say it.", as_json=as_json)


def _change_and_text(words: tuple[str, ...], *, takes_text: bool) -> tuple[str, str]:
    """One word alone is the text, unless it is the name of a change that has a run."""
    if len(words) > 2:
        raise click.UsageError("The text is one argument: put it in quotes.")
    named = len(words) == 2 or (words and (not takes_text or words[0] in changes_with_runs(here())))
    change = words[0] if named else the_change(here())
    return change, "".join(words[1:] if named else words)


@click.command()
@click.argument("words", nargs=-1, metavar="[CHANGE] STORY", shell_complete=changes_and_stories)
@click.option("--why", default="", metavar="TEXT", help="The reason, for the record.")
@AS_JSON
def skip(words: tuple[str, ...], why: str, as_json: bool) -> int:  # noqa: FBT001 - click
    """Skip STORY; it stays open, and what depends on it is not started.

    If the agent is at work on it, that call is ended, its work is saved and put back. CHANGE can
    be left out if only one run could be meant.
    """
    change, (story,) = _change_and_stories(words, most=1)
    heard = control.skip(here_for(change), change, story, why)
    text = f"Story {story} is skipped. `untildone retry {change} {story}` retries it."
    return tell(heard, text, as_json=as_json, goes_on=False)


@click.command()
@click.argument("words", nargs=-1, metavar="[CHANGE] STORY", shell_complete=changes_and_stories)
@AS_JSON
def retry(words: tuple[str, ...], as_json: bool) -> int:  # noqa: FBT001 - click
    """Retry STORY, with all its retries: parked, skipped or failed.

    CHANGE can be left out if only one run could be meant.
    """
    change, (story,) = _change_and_stories(words, most=1)
    heard = control.retry(here_for(change), change, story)
    return tell(heard, f"Story {story} will be tried with all its retries.", as_json=as_json)


@click.command()
@click.argument("words", nargs=-1, metavar="[CHANGE] STORY...", shell_complete=changes_and_stories)
@AS_JSON
def reorder(words: tuple[str, ...], as_json: bool) -> int:  # noqa: FBT001 - click
    """Let these stories come first, in this order; dependencies still count.

    CHANGE can be left out if only one run could be meant.
    """
    change, stories = _change_and_stories(words)
    heard = control.reorder(here_for(change), change, stories)
    return tell(heard, f"To come first: {', '.join(stories)}.", as_json=as_json)


def _change_and_stories(words: tuple[str, ...], most: int = 0) -> tuple[str, tuple[str, ...]]:
    """The first word is a change if one of that name has a run; all others are stories."""
    named = bool(words) and words[0] in changes_with_runs(here())
    if most and len(words) == most + 1:
        named = True  # an unknown change is told as such
    stories = words[1:] if named else words
    if not stories:
        of = f" {words[0]}" if named else ""
        raise click.UsageError(f"The story is missing: `untildone stories{of}` lists them.")
    if most and len(stories) > most:
        raise click.UsageError(f"One story at a time, not {len(stories)}.")
    return words[0] if named else the_change(here()), stories


def tell(heard: Heard | Early, text: str, *, as_json: bool, goes_on: bool = True) -> int:
    """Where the words went, and what to type next."""
    if isinstance(heard, Early):
        return _tell_early(heard, text, as_json=as_json)
    if as_json:
        data = {
            "change_id": heard.change,
            "run_id": heard.after.plan.run_id,
            "live": heard.live,
            "released": heard.released,
            "ask_the_same": heard.ask_the_same,
            "parked": [key[0] for key in heard.after.parked],
            "order": [key[0] for key in heard.after.order],
            "guidance": _guidance(heard.after),
        }
        echo_json(data)
        return 0
    for sentence in heard.sentences(text, goes_on=goes_on):
        echo(sentence)
    return 0


def _tell_early(early: Early, text: str, *, as_json: bool) -> int:
    if as_json:
        about = {"change_id": early.change, "run_id": None, "live": False}
        echo_json(about | {"guidance": _early(early.guidance)})
        return 0
    for sentence in early.sentences(text):
        echo(sentence)
    return 0


def _in_force(repository: Repository, change: str) -> list[dict[str, object]]:
    """What the prompts of a run say, or what those of the next one will."""
    run = repository.latest(change)
    if is_early(run):
        return _early(waiting(repository, change))
    return _guidance(repository.needed(change))


def _list(change: str, rows: list[dict[str, object]], *, as_json: bool) -> None:
    if as_json:
        echo_json({"change_id": change, "guidance": rows})
        return
    for row in rows:
        about = f"story {row['story_id']}" if row["story_id"] else "every story"
        echo(f"{about}: {first_line(row['text'], 400)}")
    if not rows:
        echo("No guidance is in force.")


def _early(pieces: Iterable[Guided]) -> list[dict[str, object]]:
    return [{"story_id": piece.key[0] if piece.key else "", "text": piece.text} for piece in pieces]


def _guidance(run: Run) -> list[dict[str, object]]:
    return [
        {
            "story_id": piece.key[0] if piece.key else "",
            "text": piece.text,
            "question": piece.question,
            "since": piece.since.isoformat(timespec="milliseconds"),
        }
        for piece in run.guidance
    ]
