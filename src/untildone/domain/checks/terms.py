"""What decides about a story, as the person wrote it before the run: no attempt changes that."""

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import TypedDict

from msgspec import Struct
from msgspec.structs import replace

from untildone.domain.checks import checks
from untildone.domain.checks.protection import is_protected
from untildone.domain.stories.same_story import not_the_same
from untildone.domain.stories.story import Story, StoryBook, StoryKey

EMPTY, SHRINK, CHANGE = "Allow empty: yes", "Tests: may shrink", "Tests: may change"


class Fields(TypedDict):
    """What a story and its terms call the same."""

    depends_on: tuple[str, ...]
    acceptance: tuple[str, ...]
    touches: tuple[str, ...]
    agent: str
    model: str


class Terms(Struct, frozen=True, omit_defaults=True):
    """The terms of one story, `at` which place they are written, and its checks in which `lines`.

    Of text that nobody has committed to this repository, `not_run` are its checks, and `withheld`
    what it would allow.
    """

    id: str
    title: str
    checks: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    may_be_empty: bool = False
    tests_may_shrink: bool = False
    tests_may_change: bool = False
    depends_on: tuple[str, ...] = ()
    acceptance: tuple[str, ...] = ()
    touches: tuple[str, ...] = ()
    agent: str = ""
    model: str = ""
    at: str = ""
    lines: tuple[tuple[str, int], ...] = ()
    budget: tuple[str, ...] = ()

    def place_of(self, command: str) -> str:
        """Where a check is written, as far as that is known."""
        line = dict(self.lines).get(command)
        return f"{self.at.rpartition(':')[0]}:{line}" if line else self.at

    @property
    def frees_tests(self) -> bool:
        """Whether any test may be changed."""
        return self.tests_may_change or self.tests_may_shrink

    def frees(self, path: str) -> bool:
        """Whether the person names this file as one that the story changes."""
        return is_protected(path, tuple(t for t in self.touches if _touch(t) not in self.withheld))

    @property
    def allows(self) -> tuple[str, ...]:
        """What loosens the rules for this story, in the words of its text."""
        said = (
            (EMPTY, self.may_be_empty),
            (SHRINK, self.tests_may_shrink),
            (CHANGE, self.tests_may_change),
        )
        return (*map(_touch, self.touches), *(words for words, yes in said if yes))

    def allowing(self, granted: Iterable[str]) -> "Terms":
        """The same without what is not granted."""
        known = set(granted)
        withheld = tuple(words for words in self.allows if words not in known)
        return replace(
            self,
            withheld=withheld,
            may_be_empty=self.may_be_empty and EMPTY in known,
            tests_may_shrink=self.tests_may_shrink and SHRINK in known,
            tests_may_change=self.tests_may_change and CHANGE in known,
        )

    def without_budgets(self, names: Set[str]) -> "Terms":
        """The same, where budgets of these names are given by other means."""
        left = tuple(text for text in self.budget if text.partition("=")[0] not in names)
        return self if left == self.budget else replace(self, budget=left)

    @property
    def key(self) -> StoryKey:
        return self.id, self.title


def written(story: Story, book: StoryBook) -> Terms:
    """What the story says now."""
    return Terms(
        *story.key,
        checks=checks.written_checks(story),
        may_be_empty=checks.may_be_empty(story),
        tests_may_shrink=checks.may_shrink(story),
        tests_may_change=checks.may_change(story),
        budget=checks.written_budget(story),
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
    like = _kept(known).like(story.key)
    if like and like.key == story.key:
        return like
    kept = like or Terms(*story.key)
    fields = _fields(story) | {"agent": kept.agent, "model": kept.model}
    terms = Terms(*story.key, checks=kept.checks, not_run=kept.not_run, **fields)
    return replace(terms, budget=kept.budget).allowing(())


def left_out(story: Story, known: Sequence[Terms] | None) -> tuple[str, ...]:
    """Checks that the story's text names and that are not run."""
    run = in_force(story, known).checks
    return tuple(check for check in checks.written_checks(story) if check not in run)


def named_agent(key: StoryKey, known: Sequence[Terms] | None) -> tuple[str, str]:
    """The agent and the model that the person wants for a story; empty where nothing is said.

    A story that came later names nobody: it was not there when the agents were looked at.
    """
    kept = _kept(known).like(key) if known else None
    return (kept.agent, kept.model) if kept else ("", "")


def named_budget(key: StoryKey, known: Sequence[Terms] | None) -> tuple[str, ...]:
    """What the person wants the work on a story to cost at most."""
    kept = _kept(known).like(key) if known else None
    return kept.budget if kept else ()


def own_checks(
    story: Story | None, known: Sequence[Terms] | None, configured: Iterable[str]
) -> tuple[str, ...]:
    """A story's own checks: from its text, then those of the configuration."""
    if story is None:
        return ()
    return (*in_force(story, known).checks, *checks.configured_checks(story.id, configured))


def as_written(book: StoryBook, known: Sequence[Terms] | None) -> StoryBook:
    """The book with what the person wrote in the fields of its stories."""
    if not known:
        return book
    kept = _kept(known)
    mended: dict[StoryKey, Story] = {}
    for story in not_the_same(book.stories, kept.seen):
        terms = kept.by_key.get(story.key)
        fields = _fields(terms) if terms else None
        if fields and any(fields.values()) and _fields(story) != fields:
            mended[story.key] = replace(story, **fields)
    if not mended:
        kept.seen = book.stories
        return book
    return book.restated(tuple(mended.get(story.key, story) for story in book.stories))


class _Kept:
    """The terms of a run by the names of their stories: of a long list each is asked for."""

    def __init__(self, known: Sequence[Terms]) -> None:
        self.known = known
        self.by_key: dict[StoryKey, Terms] = {}
        self.seen: tuple[Story, ...] = ()  # stories of a book in which all was as it is kept
        self._ids: dict[str, int] = {}
        self._titles: dict[str, int] = {}
        for at, terms in enumerate(known):
            self.by_key.setdefault(terms.key, terms)
            self._ids.setdefault(terms.id, at)
            self._titles.setdefault(terms.title, at)

    def like(self, key: StoryKey) -> Terms | None:
        """The terms of the story, or of the first with its number or its text: it was renamed."""
        if exact := self.by_key.get(key):
            return exact
        places = (self._ids.get(key[0]), self._titles.get(key[1]))
        return next((self.known[at] for at in sorted(p for p in places if p is not None)), None)


_last: list[_Kept] = []  # a run keeps to the same terms all the time


def _kept(known: Sequence[Terms]) -> _Kept:
    if not (_last and _last[0].known is known):
        _last[:] = [_Kept(known)]
    return _last[0]


def differing(before: StoryBook | None, now: StoryBook) -> Iterator[Story]:
    """The open stories of the book that are not as they were before."""
    changed = not_the_same(now.stories, before.stories if before else ())
    return (story for story in changed if not story.done)


def changes(was: Terms, now: Terms) -> tuple[str, ...]:
    """What is another than it was, in words."""
    told = (
        ("Verify:", _commands((*was.checks, *was.not_run)), _commands(now.checks)),
        ("Allow empty:", _yes(was, EMPTY), _yes(now, EMPTY)),
        (SHRINK, _yes(was, SHRINK), _yes(now, SHRINK)),
        (CHANGE, _yes(was, CHANGE), _yes(now, CHANGE)),
        ("dependencies", ", ".join(was.depends_on), ", ".join(now.depends_on)),
        ("acceptance", "; ".join(was.acceptance), "; ".join(now.acceptance)),
        ("Touches:", ", ".join(was.touches), ", ".join(now.touches)),
        ("Agent:", was.agent, now.agent),
        ("Model:", was.model, now.model),
        ("Budget:", ", ".join(was.budget), ", ".join(now.budget)),
    )
    rows = ((name, old or "nothing", new or "nothing") for name, old, new in told if old != new)
    return tuple(f"{name} {new}, was {old}" for name, old, new in rows)


def _commands(commands: Iterable[str]) -> str:
    return ", ".join(f"`{command}`" for command in sorted(commands))


def _yes(terms: Terms, words: str) -> str:
    """Whether it says so, withheld or not."""
    return "yes" if words in (*terms.allows, *terms.withheld) else ""


def _touch(glob: str) -> str:
    return f"Touches: {glob}"


def _says(terms: Terms) -> bool:
    allowed = terms.may_be_empty or terms.tests_may_shrink or terms.tests_may_change
    return bool(terms.checks or terms.budget or allowed or any(_fields(terms).values()))


def _fields(of: Story | Terms) -> Fields:
    return {
        "depends_on": of.depends_on,
        "acceptance": of.acceptance,
        "touches": of.touches,
        "agent": of.agent,
        "model": of.model,
    }
