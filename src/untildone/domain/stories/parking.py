"""Stories that are skipped until the person says more, and the guidance that the person gives."""

from collections.abc import Collection, Iterable, Mapping, Set
from datetime import datetime
from enum import StrEnum
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from untildone.domain.stories.story import StoryBook, StoryKey

# Of so many parked stories it is said who waits for them, and so many of those are named.
NAMED = 20


class Why(StrEnum):
    """Why a story is passed over."""

    QUESTION = "question"
    MARKED = "marked"
    FAILED = "failed"
    STUCK = "stuck"
    SKIPPED = "skipped"


class Parked(Struct, frozen=True):
    """A story that is passed over: `text` is its question, or the reason."""

    why: Why
    text: str
    since: datetime
    saved_ref: str = ""

    @property
    def asks(self) -> bool:
        return self.why in (Why.QUESTION, Why.MARKED)

    @property
    def tried(self) -> bool:
        """Whether the loop gave it up by itself: `resume` tries it again."""
        return self.why in (Why.FAILED, Why.STUCK)


def ordered(book: StoryBook, first: tuple[StoryKey, ...]) -> StoryBook:
    """The book with these stories before all others, in this order; dependencies still count."""
    if not first:
        return book
    known = [story.rank for story in book.stories if story.rank is not None]
    start = min([0, *known]) - len(first)
    rank = {key: start + k for k, key in enumerate(first)}
    stories = (
        replace(story, rank=rank[story.key]) if story.key in rank else story
        for story in book.stories
    )
    return replace(book, stories=tuple(stories))


ALL = "all"


def unasked(book: StoryBook | None, only: tuple[str, ...], *, deps: bool) -> frozenset[StoryKey]:
    """The stories that a run of some leaves alone; none if it is to run all."""
    if book is None or not only or ALL in only:
        return frozenset()
    needs = {story.id: story.depends_on for story in book.stories}
    asked, more = set[str](), list(only)
    while more:
        name = more.pop()
        if name not in asked:
            asked.add(name)
            more += needs.get(name, ()) if deps else ()
    return frozenset(story.key for story in book.stories if story.id not in asked)


class Aside(Struct, frozen=True):
    """Which stories a fresh look at them sets aside.

    `marked` have a question of the person, `settled` were parked and are open no more.
    """

    keys: frozenset[StoryKey]
    marked: tuple[tuple[StoryKey, str], ...]
    settled: tuple[StoryKey, ...]

    @classmethod
    def of(
        cls,
        book: StoryBook,
        finished: Set[StoryKey],
        parked: Mapping[StoryKey, Parked],
        answered: Collection[StoryKey],
    ) -> "Aside":
        """From what is open, those parked so far, and those let go on in spite of a mark."""
        asking = book.schedule.asking(finished)
        marked = tuple((s.key, s.question) for s in asking if s.key not in answered)
        kept = [key for key, entry in parked.items() if entry.why is not Why.MARKED]
        settled = tuple(key for key in kept if not book.schedule.is_open(key, finished))
        keys = frozenset(kept).difference(settled).union(key for key, _ in marked)
        return cls(keys, marked, settled)


def blocked(
    book: StoryBook | None, finished: Set[StoryKey], keys: Iterable[StoryKey]
) -> dict[StoryKey, tuple[str, ...]]:
    """For each of these stories the open ones that cannot start without it, so far as named."""
    if book is None:
        return {}
    held_up = book.schedule.held_up
    few = islice(keys, NAMED)
    return {key: tuple(k[0] for k in islice(held_up(finished, {key}), NAMED)) for key in few}


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
