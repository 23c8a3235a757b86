"""What decides about a story, as the person wrote it before the run: no attempt changes that."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypedDict

from msgspec import Struct
from msgspec.structs import replace

from untildone.domain.checks import checks
from untildone.domain.stories.story import Story, StoryBook, StoryKey


class Fields(TypedDict):
    """What a story and its terms call the same."""

    depends_on: tuple[str, ...]
    acceptance: tuple[str, ...]
    touches: tuple[str, ...]
    agent: str
    model: str


class Terms(Struct, frozen=True, omit_defaults=True):
    """The terms of one story, and `at` which place they are written.

    `not_run` are checks from text that nobody has committed to this repository.
    """

    id: str
    title: str
    checks: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()
    may_be_empty: bool = False
    tests_may_shrink: bool = False
    depends_on: tuple[str, ...] = ()
    acceptance: tuple[str, ...] = ()
    touches: tuple[str, ...] = ()
    agent: str = ""
    model: str = ""
    at: str = ""

    @property
    def key(self) -> StoryKey:
        """The story's."""
        return self.id, self.title


def written(story: Story, book: StoryBook) -> Terms:
    """What the story says now."""
    return Terms(
        *story.key,
        checks=checks.written_checks(story),
        may_be_empty=checks.may_be_empty(story),
        tests_may_shrink=checks.may_shrink(story),
        at=f"{book.place(story)}:{story.line}",
        **_fields(story),
    )


def all_written(book: StoryBook) -> tuple[Terms, ...]:
    """Of every open story that says anything."""
    read = (written(story, book) for story in book.stories if not story.done)
    return tuple(terms for terms in read if _says(terms))


def in_force(story: Story, known: Sequence[Terms] | None) -> Terms:
    """The terms that hold for a story: the person's.

    Without `known` ones (a run that an earlier release began) those of its text. Of a story that
    was renamed the checks and its agent hold, what it is allowed does not; one that came later has
    none of them.
    """
    if known is None:
        return written(story, StoryBook("", "", "", ()))
    like = _like(story.key, known)
    if like and like.key == story.key:
        return like
    kept = like or Terms(*story.key)
    fields = _fields(story) | {"agent": kept.agent, "model": kept.model}
    return Terms(*story.key, checks=kept.checks, not_run=kept.not_run, **fields)


def named_agent(key: StoryKey, known: Sequence[Terms] | None) -> tuple[str, str]:
    """The agent and the model that the person wants for a story; empty where nothing is said.

    A story that came later names nobody: it was not there when the agents were looked at.
    """
    kept = _like(key, known or ())
    return (kept.agent, kept.model) if kept else ("", "")


def _like(key: StoryKey, known: Sequence[Terms]) -> Terms | None:
    """The terms of the story, or of one with its number or its text: it was renamed."""
    exact = next((terms for terms in known if terms.key == key), None)
    return exact or next((t for t in known if t.id == key[0] or t.title == key[1]), None)


def own_checks(
    story: Story | None, known: Sequence[Terms] | None, configured: Iterable[str]
) -> tuple[str, ...]:
    """A story's own checks: from its text, then those of the configuration."""
    if story is None:
        return ()
    return (*in_force(story, known).checks, *checks.configured_checks(story.id, configured))


def as_written(book: StoryBook, known: Sequence[Terms] | None) -> StoryBook:
    """The book with what the person wrote in the fields of its stories."""
    mended: dict[StoryKey, Story] = {}
    for terms in known or ():
        kept = _fields(terms)
        story = book.find(terms.key) if any(kept.values()) else None
        if story and _fields(story) != kept:
            mended[story.key] = replace(story, **kept)
    if not mended:
        return book
    return book.restated(tuple(mended.get(story.key, story) for story in book.stories))


def differing(before: StoryBook | None, now: StoryBook) -> Iterator[Story]:
    """The open stories of the book that are not the very same objects as before."""
    known = {id(story) for story in before.stories} if before else set()
    return (story for story in now.stories if id(story) not in known and not story.done)


def changes(was: Terms, now: Terms) -> tuple[str, ...]:
    """What is another than it was, in words."""
    told = (
        ("Verify:", _commands((*was.checks, *was.not_run)), _commands(now.checks)),
        ("Allow empty:", _yes(said=was.may_be_empty), _yes(said=now.may_be_empty)),
        ("Tests: may shrink", _yes(said=was.tests_may_shrink), _yes(said=now.tests_may_shrink)),
        ("dependencies", ", ".join(was.depends_on), ", ".join(now.depends_on)),
        ("acceptance", "; ".join(was.acceptance), "; ".join(now.acceptance)),
        ("Touches:", ", ".join(was.touches), ", ".join(now.touches)),
        ("Agent:", was.agent, now.agent),
        ("Model:", was.model, now.model),
    )
    rows = ((name, old or "nothing", new or "nothing") for name, old, new in told if old != new)
    return tuple(f"{name} {new}, was {old}" for name, old, new in rows)


def _commands(commands: Iterable[str]) -> str:
    return ", ".join(f"`{command}`" for command in sorted(commands))


def _yes(*, said: bool) -> str:
    return "yes" if said else ""


def _says(terms: Terms) -> bool:
    allowed = terms.may_be_empty or terms.tests_may_shrink
    return bool(terms.checks or allowed or any(_fields(terms).values()))


def _fields(of: Story | Terms) -> Fields:
    return {
        "depends_on": of.depends_on,
        "acceptance": of.acceptance,
        "touches": of.touches,
        "agent": of.agent,
        "model": of.model,
    }
