"""Which story comes next, and what is wrong with the dependencies between stories."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from copy import copy
from typing import Generic, Protocol, TypeVar

_NEAREST_FOR = 10  # the nearest name among thousands takes long, and nobody reads more of them

Key = tuple[str, str]


class Unit(Protocol):
    """What has to be known of a story to put it in order."""

    @property
    def id(self) -> str: ...
    @property
    def key(self) -> Key: ...
    @property
    def tasks(self) -> Sequence[object]: ...
    @property
    def complete(self) -> int: ...
    @property
    def done(self) -> bool: ...
    @property
    def depends_on(self) -> tuple[str, ...]: ...
    @property
    def priority(self) -> float | None: ...
    @property
    def rank(self) -> float | None: ...
    @property
    def path(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def question(self) -> str: ...


U = TypeVar("U", bound=Unit)


class Schedule(Generic[U]):
    """The order of a book's stories, worked out once: each question is then answered at once.

    Lower ranks come first, then lower priorities, stories without one last, equal ones in file
    order.
    """

    __slots__ = (
        *("_asking", "_last", "_open", "_ready"),
        *("by_key", "complete", "dependent", "todo", "total"),
    )

    def __init__(self, stories: Sequence[U]) -> None:
        self.by_key: dict[Key, U] = {}
        self.total = self.complete = 0
        todo: list[U] = []
        keys: list[Key] = []
        for story in stories:
            key, total, complete = story.key, len(story.tasks), story.complete
            self.by_key.setdefault(key, story)
            self.total += total
            self.complete += complete
            if not 0 < total == complete:
                todo.append(story)
                keys.append(key)
        self.dependent = any(story.depends_on for story in stories)
        self.todo = tuple(ordered(todo))
        self._open = frozenset(keys)
        waiting = {story.id for story in self.todo} if self.dependent else set()
        self._ready = tuple([s for s in self.todo if waiting.isdisjoint(s.depends_on)])
        self._asking = tuple([s for s in self.todo if s.question])
        self._last: tuple[Set[Key], Collection[Key], U | None] | None = None

    def with_finished(self, changed: Sequence[tuple[U, U]]) -> "Schedule[U]":
        """The schedule after some tasks were done: pairs of a story before and after, equal else.

        What a loop does most; to work it out anew takes the longer the more stories there are. Only
        for stories that do not depend on each other, and none of them was opened again.
        """
        new: Schedule[U] = copy(self)
        new.by_key = self.by_key.copy()
        todo = list(self.todo)
        for old, story in changed:
            new.complete += story.complete - old.complete
            if new.by_key.get(story.key) is old:
                new.by_key[story.key] = story
            if not old.done:
                at = todo.index(old)
                todo[at : at + 1] = () if story.done else (story,)
        new.todo = new._ready = tuple(todo)
        new._open = self._open.difference([story.key for _, story in changed if story.done])
        if self._asking or any(story.question for _, story in changed):
            new._asking = tuple([s for s in todo if s.question])
        new._last = None
        return new

    def open_stories(self, finished: Set[Key]) -> tuple[U, ...]:
        """Stories that are neither done nor `finished`, in the order of work."""
        if self._open.isdisjoint(finished):
            return self.todo
        return tuple([story for story in self.todo if story.key not in finished])

    def is_open(self, key: Key, finished: Set[Key]) -> bool:
        """Whether there is such a story, neither done nor `finished`."""
        return key in self._open and key not in finished

    def asking(self, finished: Set[Key]) -> tuple[U, ...]:
        """Open stories that the person has a question about, in the order of work."""
        return tuple([story for story in self._asking if story.key not in finished])

    def next(self, finished: Set[Key], aside: Collection[Key] = ()) -> U | None:
        """The first open story whose dependencies are complete; one put `aside` is none."""
        last = self._last
        if last and last[0] is finished and last[1] is aside:
            return last[2]
        found = next((story for story in self.ready(finished) if story.key not in aside), None)
        self._last = (finished, aside, found)
        return found

    def ready(self, finished: Set[Key]) -> Iterable[U]:
        """Open stories whose dependencies are complete, in the order of work."""
        # What is finished is ticked too, unless somebody took the tick away again.
        return self._ready if self._open.isdisjoint(finished) else self._ready_after(finished)

    def _ready_after(self, finished: Set[Key]) -> Iterator[U]:
        todo = self.open_stories(finished)
        waiting = {story.id for story in todo}
        return (story for story in todo if waiting.isdisjoint(story.depends_on))

    def held_up(self, finished: Set[Key], aside: Collection[Key]) -> dict[Key, tuple[str, ...]]:
        """Open stories that cannot start, by key, with the ids of the stories they wait for.

        Only what is waited for because a story was put `aside` counts, directly or through others.
        """
        todo = self.open_stories(finished)
        waiting = _by_dependency([story for story in todo if story.key not in aside])
        held: dict[Key, tuple[str, ...]] = {}
        causes = deque(story.id for story in todo if story.key in aside)
        while causes:
            cause = causes.popleft()
            for story in waiting.get(cause, ()):
                if story.key not in held:
                    causes.append(story.id)
                held[story.key] = (*held.get(story.key, ()), cause)
        return {story.key: held[story.key] for story in todo if story.key in held}


def _by_dependency(stories: Iterable[U]) -> dict[str, list[U]]:
    """The stories that wait for each id."""
    found: dict[str, list[U]] = {}
    for story in stories:
        for name in story.depends_on:
            found.setdefault(name, []).append(story)
    return found


def ordered(stories: Sequence[U]) -> Sequence[U]:
    """By rank and by priority, where a story has them, then as they stand."""
    if any(story.priority is not None for story in stories):
        stories = sorted(stories, key=lambda s: (s.priority is None, s.priority or 0))
    if any(story.rank is not None for story in stories):
        stories = sorted(stories, key=lambda s: (s.rank is None, s.rank or 0))
    return stories


def wrong(stories: Sequence[U]) -> Iterator[tuple[U, str]]:
    """Equal ids, and stories that wait for each other in a circle.

    What a finished story depended on does not matter any more.
    """
    yield from doubled(stories)
    yield from circles(stories)


def doubled(stories: Sequence[U]) -> Iterator[tuple[U, str]]:
    """Stories whose id another one has, too."""
    first = {story.id: story for story in reversed(stories)}
    for story in stories if len(first) < len(stories) else ():
        other = first[story.id]
        if other is not story:
            here = f"{other.path}:{other.line}" if other.path != story.path else str(other.line)
            text = f"Lines {here} and {story.line} start stories with the same id: {story.id}"
            yield story, text


def circles(stories: Sequence[U]) -> Iterator[tuple[U, str]]:
    """Stories that wait for each other."""
    dependent = [story for story in stories if story.depends_on and not story.done]
    if dependent:
        yield from _circles(dependent)


def missing(stories: Sequence[U]) -> dict[int, str]:
    """The places of open stories that depend on what is not there, with what that is.

    One such story is held back and not the whole book: programs that have dependencies do so too.
    """
    known = {story.id for story in stories}
    lacking = {
        at: unknown
        for at, story in enumerate(stories)
        if story.depends_on
        and (unknown := [n for n in dict.fromkeys(story.depends_on) if n not in known])
        and not story.done
    }
    found: dict[int, str] = {}
    for at, names in lacking.items():
        own = stories[at].id
        near = [_nearest(n, own, known) for n in names] if len(found) < _NEAREST_FOR else names
        found[at] = f"It depends on what is not in this change: {', '.join(near)}"
    return found


def _nearest(name: str, own: str, known: Collection[str]) -> str:
    """The name, with the one that was most likely meant."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    others = sorted(other for other in known if other != own)
    close = get_close_matches(name, others, n=1, cutoff=0.3)
    return f"{name} (did you mean `{close[0]}`?)" if close else name


def _unordered(dependent: Sequence[U]) -> dict[str, U]:
    """What remains when everything that can be put in order is taken away, by id."""
    left = {story.id: story for story in dependent}
    above: dict[str, list[str]] = {}
    missing = dict.fromkeys(left, 0)
    for story in left.values():
        for name in set(story.depends_on) & left.keys():
            above.setdefault(name, []).append(story.id)
            missing[story.id] += 1
    free = [name for name, count in missing.items() if count == 0]
    while free:
        name = free.pop()
        del left[name]
        for other in above.get(name, ()):
            missing[other] -= 1
            if missing[other] == 0:
                free.append(other)
    return left


def _circles(dependent: Sequence[U]) -> Iterator[tuple[U, str]]:
    """Each circle once."""
    left = _unordered(dependent)
    seen: set[str] = set()
    for start in left:
        path: dict[str, None] = {}
        name = start
        while name not in seen:
            seen.add(name)
            path[name] = None
            name = next(n for n in left[name].depends_on if n in left)
        if name in path:
            circle = [*path][[*path].index(name) :]
            yield left[name], f"Stories wait for each other: {' → '.join([*circle, name])}"
