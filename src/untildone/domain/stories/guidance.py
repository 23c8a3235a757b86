"""Guidance: what the person tells the agent on the way, until it has served its purpose."""

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from untildone.domain.stories.story import StoryKey


class Guidance(Struct, frozen=True):
    """One piece of it: for a story, or for all when `key` is None; maybe an answer."""

    text: str
    key: StoryKey | None
    since: datetime
    id: str = ""
    question: str = ""


def words(guidance: Iterable[Guidance], key: StoryKey | None) -> str:
    """What the prompt of this story says, oldest first; empty if nothing was given for it."""
    return "\n\n".join(_said(piece) for piece in guidance if piece.key in (None, key))


def _said(piece: Guidance) -> str:
    text = piece.text.strip()
    if not piece.question:
        return text
    return f"An earlier attempt asked: {piece.question.strip()}\nThe answer: {text}"
