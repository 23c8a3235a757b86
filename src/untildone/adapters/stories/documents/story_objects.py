"""Stories that are objects of a JSON or YAML document: the dialects of `prd.json` and its kin."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.stories.checklists import naming
from untildone.adapters.stories.documents import fields
from untildone.adapters.stories.documents.json_text import Edit, Json, JsonText, Place
from untildone.adapters.stories.documents.stateful_source import NewState
from untildone.domain.stories.story import Remark, Story, StoryKey, Task

PHASES = ("phases", "epics")
LISTS = (
    *("userStories", "user_stories", "stories", "units", "features", "tasks", "items"),
    *PHASES,
)
IDS = ("id", "storyId", "story_id", "key")
TITLES = ("title", "name", "story", "summary", "task", "feature", "description")
ACCEPTANCE = ("acceptanceCriteria", "acceptance_criteria", "acceptance", "criteria")
DEPENDENCIES = ("dependsOn", "depends_on", "dependencies", "blockedBy", "blocked_by")
GROUP = "parallel_group"
FLAGS = ("passes", "completed", "complete", "done")
STATUS = "status"
# Asked only where nothing else says it: in other objects the word means other things.
STATE = "state"
STATE_FIELDS = (*FLAGS, STATUS, STATE)
_DONE = {"done", "complete", "completed", "closed", "passed", "passes", "passing", "finished"}
_DONE |= {"verified", "merged", "shipped", "resolved"}
_DROPPED = {"cancelled", "canceled", "skipped", "wontfix", "wont_do", "dropped", "obsolete"}
_OPEN = {
    *("open", "todo", "to_do", "pending", "in_progress", "inprogress", "not_started", "new"),
    *("ready", "backlog", "planned", "queued", "next", "active", "started", "doing", "wip"),
    *("draft", "review", "in_review", "testing", "failed", "failing", "incomplete", "reopened"),
}
# Of these, a story that nobody has begun may be.
_FRESH = {"open", "todo", "to_do", "pending", "not_started", "new", "ready", "backlog", "planned"}
# Somebody has to say that these may start.
_HELD = {"blocked", "deferred", "on_hold", "waiting", "needs_human"}
_USED = {
    *(*STATE_FIELDS, *IDS, *ACCEPTANCE, *DEPENDENCIES, GROUP),
    *("priority", "inProgress", "completionNotes", "createdAt", "updatedAt", "parallel", "blocked"),
}


class Tree(Protocol):
    """A document whose values are known with their places."""

    def elements(self, array: Place) -> Iterable[Place]: ...
    def members(self, thing: Place) -> dict[str, Place]: ...
    def replaced(self, found: Place, value: Json) -> Edit: ...
    def inserted(self, thing: Place, key: str, value: Json) -> Edit: ...
    def line(self, at: int) -> int: ...


class Entry(Struct, frozen=True, gc=False):
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


class State(Struct, frozen=True, gc=False):
    """What an object's own fields say about it being done, as they were written."""

    done: bool
    raw: dict[str, Json]
    mark: str
    asks: bool = False
    remarks: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def state_of(value: Mapping[str, Json]) -> State:
    said = tuple([(key, value[key]) for key in STATE_FIELDS if key in value])
    try:
        return _state_from(said, tuple([type(word) for _, word in said]))
    except TypeError:  # a list or an object, where a word belongs
        return _state_from.__wrapped__(said, ())


@lru_cache(maxsize=64)  # ten thousand stories have a handful of states
def _state_from(said: tuple[tuple[str, Json], ...], _types: tuple[type, ...]) -> State:
    """The types tell `true` from `1`, which are the same to a cache."""
    value = dict(said)
    found = _Said()
    for key in FLAGS:
        if key in value and (key != "done" or isinstance(value[key], bool)):
            found.flag(key, value[key])
    named = STATUS in value or found.says or not isinstance(value.get(STATE), str)
    name = STATUS if named else STATE
    if name in value:
        found.word(name, value[name])
    return found.state(name)


class _Said:
    """What the fields say, one after the other."""

    def __init__(self) -> None:
        self.says: dict[str, bool] = {}
        self._raw: dict[str, Json] = {}
        self._remarks: list[str] = []
        self._problems: list[str] = []

    def flag(self, key: str, value: Json) -> None:
        self._raw[key], self.says[key] = value, value is True
        if not isinstance(value, bool | None):
            self._problems.append(f"`{key}` has to be true or false, without quotes.")

    def word(self, key: str, value: Json) -> None:
        word = _bare(value) if isinstance(value, str) else ""
        self._raw[key], self.says[key] = value, word in _DONE
        if word in _DROPPED:
            self.says = dict.fromkeys(self.says, True)
            self._remarks.append(f"It counts as done, because its status is: {fields.text(value)}")
        elif not isinstance(value, str | None):
            self._problems.append("`status` has to be a word.")
        elif value and word not in (_DONE | _OPEN | _HELD):
            self._remarks.append(
                f"It counts as open; its status is not known: {fields.text(value)}"
            )

    def state(self, name: str) -> State:
        says = self.says
        if len(set(says.values())) > 1:
            told = ", ".join(f"`{key}`" for key, yes in says.items() if yes)
            self._remarks.append(f"It counts as open: only {told} says that it is done.")
        done = bool(says) and all(says.values())
        asks = not done and _bare(str(self._raw.get(name))) in _HELD
        remarks, problems = tuple(self._remarks), tuple(self._problems)
        return State(done, self._raw, json.dumps(self._raw), asks, remarks, problems)


def _bare(word: str) -> str:
    return word.strip().lower().replace("-", "_").replace(" ", "_").replace("'", "")


class States(Struct, frozen=True):
    """The states of a document's stories; `flag` is the field for one where none has any."""

    all: Sequence[State]
    flag: str

    def done(self, state: State, mark: str) -> dict[str, Json]:
        """The fields of a story that is done, or was so before with this mark."""
        if mark:
            before: dict[str, Json] = json.loads(mark)
            return before
        wanted: dict[str, Json] = {}
        for key in state.raw or self._usual():
            wanted[key] = True if key in FLAGS else self._word(state.raw.get(key), done=True)
        return wanted

    def open(self, state: State, mark: str) -> dict[str, Json]:
        """The fields of a story that is open, as it was before with this mark."""
        before: dict[str, Json] = json.loads(mark) if mark else {}
        wanted: dict[str, Json] = {}
        for key in state.raw:
            word = False if key in FLAGS else self._word(state.raw.get(key), done=False)
            wanted[key] = before.get(key, word)
        return wanted

    def fresh(self) -> dict[str, Json]:
        """The fields of a story that is new."""
        words = [str(w) for s in self.all for k, w in s.raw.items() if k not in FLAGS and w]
        usual = next((word for word in words if _bare(word) in _FRESH), "")
        word = usual or _written_like((words or [""])[0], "open")
        return {key: False if key in FLAGS else word for key in self._usual()}

    def _usual(self) -> list[str]:
        """The fields in which this document's other stories have their state."""
        return next((list(state.raw) for state in self.all if state.raw), [self.flag])

    def _word(self, now: Json, *, done: bool) -> str:
        """The word that this document uses for the state, written as its other words are."""
        words = [str(w) for s in self.all for k, w in s.raw.items() if k not in FLAGS and w]
        usual = (w for w in words if _bare(w) not in _DROPPED and (_bare(w) in _DONE) is done)
        if known := next(usual, ""):
            return known
        return _written_like(str(now or (words or [""])[0]), "done" if done else "open")


def _written_like(other: str, word: str) -> str:
    """The word in capitals, or with one, as the other is."""
    if other.isupper():
        return word.upper()
    return word.title() if other[:1].isupper() else word


class StoryObjects:
    """All stories of a document, and the edits that change their states."""

    def __init__(self, tree: Tree, root: Place, *, flag: str, unique_titles: bool = False) -> None:
        self._tree = tree
        self._unique_titles = unique_titles
        self.ignored: list[Remark] = []
        self.problems: list[Remark] = []
        entries = list(self._entries(root))
        self.entries = entries
        self.states = States([state_of(entry.value) for entry in entries], flag)
        self._index: dict[StoryKey, int] = {}
        # What was written since, in turn: where, and by how much the text behind it has moved.
        self._writes: tuple[tuple[tuple[int, int], ...], ...] = ()
        self.stories = self._stories(entries)
        if not entries:
            line = tree.line(root.start)
            names = ", ".join(f"`{name}`" for name in LISTS)
            self.problems.append(
                Remark(line, f"No story was found: there is no filled list called {names}.")
            )

    def edits(self, states: Sequence[NewState]) -> Iterator[Edit]:
        for new in states:
            at = self._index[new.story.key]
            state = self.states.all[at]
            write = self.states.done if new.done else self.states.open
            wanted = write(state, new.mark)
            place = self._place(at)
            here = self._tree.members(place)
            for key, value in wanted.items():
                if key not in here:
                    yield self._tree.inserted(place, key, value)
                elif here[key].value != value:
                    yield self._tree.replaced(here[key], value)

    def after(
        self, tree: JsonText, edits: Sequence[Edit], keys: Iterable[StoryKey]
    ) -> tuple["StoryObjects", dict[int, State]] | None:
        """The same in the text after these edits of these stories, and their states.

        A long list is not read again for each of its stories. None where more than a state may be
        different: a line has moved, or a state is worth a remark.
        """
        other = copy(self)
        other._tree = tree
        moves = tuple((e.start, len(e.text) - (e.end - e.start)) for e in edits)
        other._writes = (*self._writes, moves)
        other.entries, states = [*self.entries], [*self.states.all]
        changed: dict[int, State] = {}
        for at in {self._index[key] for key in keys}:
            was = states[at]
            found = tree.value_at(other._start(at))
            if not isinstance(found.value, dict):
                return None
            states[at] = changed[at] = state = state_of(found.value)
            if was.remarks or was.problems or state.remarks or state.problems:
                return None
            other.entries[at] = replace(self.entries[at], value=found.value)
        other.states = States(states, self.states.flag)
        return other, changed

    # -----------------------------------------------------------------------------------------

    def _start(self, at: int) -> int:
        """Where an entry begins now: behind everything that was written before it."""
        start = self.entries[at].place.start
        for moves in self._writes:
            start += sum(more for position, more in moves if position < start)
        return start

    def _place(self, at: int) -> Place:
        return replace(self.entries[at].place, start=self._start(at))  # nobody asks for its end

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
            why = f"`{filled[0]}` holds the stories; not `{key}`."
            self.ignored.append(Remark(line, why, unfinished=_holds_open_work(members[key].value)))
        if filled and filled[0] in PHASES:
            yield from self._phased(members[filled[0]])
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
                self.ignored.append(Remark(line, why, unfinished=True))

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
            if self._unique_titles and first != entry.line:
                why = f"Lines {first} and {entry.line} start stories with the same title: {title}"
                self.problems.append(Remark(entry.line, why))
            named.append((name, title or name))
            for alias in (title, raw, name):
                aliases.setdefault(alias, [name])
            if entry.phase:
                phases.setdefault(entry.phase, []).append(name)
        known = Known(phases | aliases, aliases | phases)
        grouped = any(entry.value.get(GROUP) for entry in entries)
        found: list[Story] = []
        for entry, names, state in zip(entries, named, self.states.all, strict=True):
            story = self._story(entry, names, state, known, grouped=grouped)
            self._index.setdefault(story.key, len(found))
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
        asks = state.asks or (value.get("blocked") is True and not state.done)
        task = Task(name, title, state.done, entry.line, mark=state.mark, asks=asks)
        group = fields.priority(value.get(GROUP)) or 0
        return Story(
            id=name,
            title=title,
            tasks=(task,),
            depends_on=_needed(entry, known),
            line=entry.line,
            body=fields.body(value, _used_fields(value, title)),
            acceptance=next((a for key in ACCEPTANCE if (a := fields.texts(value.get(key)))), ()),
            priority=_priority(entry, group, grouped=grouped),
            parallel=group > 0 or value.get("parallel") is True,
            group=group,
            touches=fields.texts(value.get("touches")),
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


def _objects(value: Json) -> list[dict[str, Json]]:
    """The entries that can be stories."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [item for item in inside if isinstance(item, dict)]


def _holds_open_work(value: Json) -> bool:
    """Whether an entry says of itself that it is not done; lists of other things do not."""
    states = map(state_of, _objects(value))
    return any(state.raw and not state.done for state in states)


def _raw_id(entry: Entry) -> str:
    raw = fields.first(entry.value, IDS) or entry.name
    # A bare number is most likely counted anew in every phase.
    return f"{entry.phase}.{raw}" if entry.phase and raw.isdigit() else raw


def _id(raw: str, title: str, seen: dict[str, int]) -> str:
    if raw:
        return fields.story_id(raw)
    name = naming.slug(title or "story")
    seen[name] = seen.get(name, 0) + 1
    return name if seen[name] == 1 else f"{name}.{seen[name]}"


def _title(entry: Entry) -> str:
    return fields.title(fields.first(entry.value, TITLES))


def _used_fields(value: Mapping[str, Json], title: str) -> set[str]:
    """Fields that the body need not repeat; a title that was cut is told in full there."""
    whole = {key for key in ("title", "name") if fields.text(value.get(key)) == title}
    if naming.normal(fields.text(value.get("description"))) == title:
        whole.add("description")
    return _USED | whole


def _priority(entry: Entry, group: float, *, grouped: bool) -> float | None:
    if grouped:
        return group
    return None if entry.phase else fields.priority(entry.value.get("priority"))
