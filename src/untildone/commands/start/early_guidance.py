"""Guidance that is given before a run exists: kept for the change, and taken over by its run."""

import os
from pathlib import Path

from msgspec import json

from untildone.adapters.git.repository import home
from untildone.adapters.records.codec import decode, encode
from untildone.adapters.records.durable import replace_file
from untildone.app.run_driver import RunDriver
from untildone.commands.start.lint import change_book
from untildone.commands.start.start_checks import story_of
from untildone.domain.errors import UserError
from untildone.domain.reporting.event import warning
from untildone.domain.run.fact import Guided
from untildone.domain.run.run import Run
from untildone.domain.stories.story import StoryBook, StoryKey
from untildone.plain_files import read_bytes
from untildone.settings.load import load
from untildone.wiring.repository import Repository
from untildone.wiring.worktrees import has_ended, user_place

FOLDER = "guidance"


def is_early(run: Run | None) -> bool:
    """Whether the next run is the one to be told: there is none that could still hear it."""
    return run is None or has_ended(run) or run.restored


def waiting(repository: Repository, change: str) -> tuple[Guided, ...]:
    """What the next run of this change will be told."""
    try:
        rows = json.decode(read_bytes(_path(repository, change)))
    except FileNotFoundError:
        return ()
    return tuple(decode(Guided, row) for row in rows)


def store(repository: Repository, change: str, pieces: tuple[Guided, ...]) -> None:
    """Write down what the next run will be told, in the place of what was there."""
    path = _path(repository, change)
    if not pieces:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    data = json.encode([encode(piece) for piece in pieces])
    replace_file(path, [data], path.with_suffix(f".{os.getpid()}.draft"), 0o600)


def open_story(repository: Repository, change: str, story_id: str) -> StoryKey:
    """The story of a change that has no run yet; one that is done needs no words."""
    story = story_of(book_of(repository, change), story_id)
    if story.done:
        raise UserError(
            f"Story {story_id} is done already: all its boxes are ticked",
            state="Nothing was changed.",
            hint=f"untildone stories {change}",
        )
    return story.key


def book_of(repository: Repository, change: str) -> StoryBook:
    """The stories of a change as its next run would find them."""
    top = repository.place.top
    return change_book(top, change, load(top, os.environ, {}))


def take_over(repository: Repository, loop: RunDriver, book: StoryBook | None) -> None:
    """Tell the run what was given for it; a piece that is recorded already is not told twice."""
    change = loop.run.plan.change_id
    pieces = waiting(repository, change)
    for piece in pieces:
        if fact := as_now(piece, book):
            loop.record(fact)
        else:
            story_id = piece.key[0] if piece.key else ""
            text = f"Guidance was given for story {story_id}, which is not there: {piece.text}"
            loop.tell(warning(text))
    if pieces:
        store(repository, change, ())


def as_now(piece: Guided, book: StoryBook | None) -> Guided | None:
    """The words for the story as it is called now; None if it is gone."""
    if piece.key is None or book is None:
        return piece
    key = next((story.key for story in book.stories if story.id == piece.key[0]), None)
    return Guided(piece.text, key, piece.id) if key else None


def _path(repository: Repository, change: str) -> Path:
    place = user_place(repository.place) or repository.place
    return home(place) / FOLDER / f"{change.replace('/', '%')}.json"
