"""Stories that are objects of a JSON or YAML document: the dialects of `prd.json` and its kin."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from untildone.adapters.stories.checklists import labels
from untildone.adapters.stories.documents import fields
from untildone.adapters.stories.documents.json_text import Edit, Json, Place
from untildone.adapters.stories.documents.object_states import FIELDS, State, States, state_of
from untildone.adapters.stories.documents.stateful_source import Flip
from untildone.domain.stories.story import Remark, Story, Task

LISTS = ("userStories", "user_stories", "stories", "units", "features", "tasks", "items", "phases")
PHASES = "phases"
IDS = ("id", "storyId", "story_id", "key")
TITLES = ("title", "name", "story", "summary", "task", "feature", "description")
ACCEPTANCE = ("acceptanceCriteria", "acceptance_criteria", "acceptance", "criteria")
DEPENDENCIES = ("dependsOn", "depends_on", "dependencies", "blockedBy", "blocked_by")
GROUP = "parallel_group"
_USED = {
    *(*FIELDS, *IDS, *ACCEPTANCE, *DEPENDENCIES, GROUP),
    *("priority", "inProgress", "completionNotes", "createdAt", "updatedAt", "parallel"),
}


class Tree(Protocol):
    """A document whose values are known with their places."""

    def elements(self, array: Place) -> Iterable[Place]: ...
    def members(self, thing: Place) -> dict[str, Place]: ...
    def replaced(self, found: Place, value: Json) -> Edit: ...
    def inserted(self, thing: Place, key: str, value: Json) -> Edit: ...
    def line(self, at: int) -> int: ...


class Entry(Struct, frozen=True):
    """One object that is a story; `name` is its key where it has one instead of an id.

    `phase` is the id of the phase it stands in, and `after` what that phase waits for.
    """

    place: Place
    value: Mapping[str, Json]
    line: int
    phase: str = ""
    name: str = ""
    after: tuple[str, ...] = ()


class Known(Struct, frozen=True):
    """The stories that a name stands for: to a story that waits for it, and to a phase.

    Where a story and a phase have the same name, each means its own kind.
    """

    by_story: Mapping[str, list[str]]
    by_phase: Mapping[str, list[str]]


class Reading:
    """All stories of a document, and the edits that change their states."""

    def __init__(self, tree: Tree, root: Place, *, flag: str, titled: bool = False) -> None:
        self._tree = tree
        self._titled = titled
        self.ignored: list[Remark] = []
        self.problems: list[Remark] = []
        entries = list(self._entries(root))
        self._states = States([state_of(entry.value) for entry in entries], flag)
        self._entries_by_key: dict[tuple[str, str], tuple[Entry, State]] = {}
        self.stories = self._stories(entries)
        if not entries:
            line = tree.line(root.start)
            names = ", ".join(f"`{name}`" for name in LISTS)
            self.problems.append(
                Remark(line, f"No story was found: there is no filled list called {names}.")
            )

    def edits(self, flips: Sequence[Flip]) -> Iterator[Edit]:
        """What has to be written for these states."""
        for flip in flips:
            entry, state = self._entries_by_key[flip.story.key]
            write = self._states.done if flip.done else self._states.open
            wanted = write(state, flip.mark)
            here = self._tree.members(entry.place)
            for key, value in wanted.items():
                if key not in here:
                    yield self._tree.inserted(entry.place, key, value)
                elif here[key].value != value:
                    yield self._tree.replaced(here[key], value)

    # -----------------------------------------------------------------------------------------

    def _entries(self, root: Place) -> Iterator[Entry]:
        if isinstance(root.value, list):
            yield from self._listed(root)
            return
        if not isinstance(root.value, dict):
            return
        members = self._tree.members(root)
        filled = [key for key in LISTS if key in members and members[key].value]
        if not filled and isinstance(root.value.get("prd"), dict):
            yield from self._entries(members["prd"])
            return
        for key in filled[1:]:
            line = self._tree.line(members[key].start)
            self.ignored.append(Remark(line, f"`{filled[0]}` holds the stories; not `{key}`."))
        if filled[:1] == [PHASES]:
            yield from self._phased(members[PHASES])
        elif filled:
            yield from self._listed(members[filled[0]])

    def _phased(self, phases: Place) -> Iterator[Entry]:
        """The stories of each phase; a phase without any is a story itself."""
        for number, phase in enumerate(self._listed(phases), start=1):
            inner = self._tree.members(phase.place)
            name = fields.first(phase.value, IDS) or phase.name or str(number)
            key = next((k for k in LISTS if k in inner and _objects(inner[k].value)), "")
            if key:
                yield from self._listed(inner[key], name, _waits(phase.value))
            else:
                yield phase

    def _listed(
        self, place: Place, phase: str = "", after: tuple[str, ...] = ()
    ) -> Iterator[Entry]:
        items: Iterator[tuple[str, Place]]
        if isinstance(place.value, list):
            items = (("", item) for item in self._tree.elements(place))
        elif isinstance(place.value, dict):
            items = iter(self._named(place))
        else:
            items = iter(())
        for name, item in items:
            line = self._tree.line(item.start)
            if isinstance(item.value, dict):
                yield Entry(item, item.value, line, phase, name, after)
            else:
                why = "An entry that is no object cannot hold a state, so it is not a story."
                self.ignored.append(Remark(line, why))

    def _named(self, place: Place) -> Iterator[tuple[str, Place]]:
        """The members of an object; of each, its own are looked at for a key that is twice."""
        for name, item in self._tree.members(place).items():
            if isinstance(item.value, dict):
                self._tree.members(item)
            yield name, item

    def _stories(self, entries: Sequence[Entry]) -> tuple[Story, ...]:
        seen: dict[str, int] = {}
        named: list[tuple[str, str]] = []
        aliases: dict[str, list[str]] = {}
        phases: dict[str, list[str]] = {}
        titles: dict[str, int] = {}
        for entry in entries:
            raw, title = _raw_id(entry), _title(entry)
            name = _id(raw, title, seen)
            first = titles.setdefault(title, entry.line) if not raw else entry.line
            if self._titled and first != entry.line:
                why = f"Lines {first} and {entry.line} start stories with the same title: {title}"
                self.problems.append(Remark(entry.line, why))
            named.append((name, title or name))
            for alias in (title, raw, name):
                aliases.setdefault(alias, [name])
            if entry.phase:
                phases.setdefault(entry.phase, []).append(name)
        known = Known(phases | aliases, aliases | phases)
        grouped = any(entry.value.get(GROUP) for entry in entries)
        found = []
        for entry, names, state in zip(entries, named, self._states.all, strict=True):
            story = self._story(entry, names, state, known, grouped=grouped)
            self._entries_by_key.setdefault(story.key, (entry, state))
            found.append(story)
        return tuple(found)

    def _story(
        self,
        entry: Entry,
        names: tuple[str, str],
        state: State,
        known: Known,
        *,
        grouped: bool,
    ) -> Story:
        value = entry.value
        name, title = names
        if state.remarks or state.problems:
            self.ignored += [Remark(entry.line, f"Story {name}: {why}") for why in state.remarks]
            self.problems += [Remark(entry.line, f"Story {name}: {why}") for why in state.problems]
        task = Task(name, title, state.done, entry.line, mark=state.mark, asks=state.asks)
        group = fields.priority(value.get(GROUP)) or 0
        return Story(
            id=name,
            title=title,
            tasks=(task,),
            depends_on=_needed(entry, known),
            line=entry.line,
            body=fields.body(value, _told(value, title)),
            acceptance=next((a for key in ACCEPTANCE if (a := fields.texts(value.get(key)))), ()),
            priority=_priority(entry, group, grouped=grouped),
            parallel=group > 0 or value.get("parallel") is True,
        )


def _waits(value: Mapping[str, Json]) -> tuple[str, ...]:
    return next((fields.ids(value[key]) for key in DEPENDENCIES if value.get(key)), ())


def _needed(entry: Entry, known: Known) -> tuple[str, ...]:
    """The stories that it waits for; a phase stands for all of its own."""
    found: dict[str, None] = {}
    for each in entry.after:
        found.update(dict.fromkeys(known.by_phase.get(each) or [fields.story_id(each)]))
    for each in _waits(entry.value):
        beside = f"{entry.phase}.{each}" if entry.phase and each.isdigit() else each
        names = known.by_story.get(beside) or known.by_story.get(each) or [fields.story_id(each)]
        found.update(dict.fromkeys(names))
    return tuple(found)


def _objects(value: Json) -> bool:
    """There are entries that can be stories."""
    inside = value.values() if isinstance(value, dict) else value
    return isinstance(inside, Iterable) and any(isinstance(item, dict) for item in inside)


def _raw_id(entry: Entry) -> str:
    raw = fields.first(entry.value, IDS) or entry.name
    # A bare number is most likely counted anew in every phase.
    return f"{entry.phase}.{raw}" if entry.phase and raw.isdigit() else raw


def _id(raw: str, title: str, seen: dict[str, int]) -> str:
    if raw:
        return fields.story_id(raw)
    name = labels.slug(title or "story")
    seen[name] = seen.get(name, 0) + 1
    return name if seen[name] == 1 else f"{name}.{seen[name]}"


def _title(entry: Entry) -> str:
    return fields.title(fields.first(entry.value, TITLES))


def _told(value: Mapping[str, Json], title: str) -> set[str]:
    """Fields that the body need not repeat; a title that was cut is told in full there."""
    whole = {key for key in ("title", "name") if fields.text(value.get(key)) == title}
    if labels.normal(fields.text(value.get("description"))) == title:
        whole.add("description")
    return _USED | whole


def _priority(entry: Entry, group: float, *, grouped: bool) -> float | None:
    if grouped:
        return group
    return None if entry.phase else fields.priority(entry.value.get("priority"))
