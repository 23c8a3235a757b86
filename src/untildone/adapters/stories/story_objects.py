"""Stories that are objects of a JSON or YAML document: the dialects of `prd.json` and its kin."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from untildone.adapters.stories import fields, labels
from untildone.adapters.stories.json_text import Edit, Json, Place
from untildone.adapters.stories.marked import Flip
from untildone.domain.story import Remark, Story, Task
from untildone.domain.value import dataclass

LISTS = ("userStories", "user_stories", "stories", "units", "features", "tasks", "items", "phases")
PHASES = "phases"
FLAGS = ("passes", "completed", "complete", "done")
STATUS = "status"
IDS = ("id", "storyId", "story_id", "key")
TITLES = ("title", "name", "story", "summary", "task", "feature", "description")
ACCEPTANCE = ("acceptanceCriteria", "acceptance_criteria", "acceptance", "criteria")
DEPENDENCIES = ("dependsOn", "depends_on", "dependencies", "blockedBy", "blocked_by")
GROUP = "parallel_group"
_USED = {
    *(*FLAGS, STATUS, *IDS, *ACCEPTANCE, *DEPENDENCIES, GROUP),
    *("priority", "inProgress", "completionNotes", "createdAt", "updatedAt", "parallel"),
}
_DONE = {"done", "complete", "completed", "closed", "passed", "passes", "finished", "verified"}
_DROPPED = {"cancelled", "canceled", "skipped", "wontfix", "wont_do", "dropped", "obsolete"}
# Somebody has to say that these may start.
_HELD = {"blocked", "deferred", "on_hold", "waiting", "needs_human"}


class Tree(Protocol):
    """A document whose values are known with their places."""

    def elements(self, array: Place) -> Iterable[Place]: ...
    def members(self, thing: Place) -> dict[str, Place]: ...
    def replaced(self, found: Place, value: Json) -> Edit: ...
    def inserted(self, thing: Place, key: str, value: Json) -> Edit: ...
    def line(self, at: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One object that is a story; `name` is its key where it has one instead of an id."""

    place: Place
    value: Mapping[str, Json]
    line: int
    phase: str = ""
    name: str = ""


class Reading:
    """All stories of a document, and the edits that change their states."""

    def __init__(self, tree: Tree, root: Place, *, flag: str) -> None:
        self._tree = tree
        self._flag = flag
        self.ignored: list[Remark] = []
        self.problems: list[Remark] = []
        entries = list(self._entries(root))
        self._states = [_State.of(entry.value) for entry in entries]
        self._entries_by_key: dict[tuple[str, str], tuple[Entry, _State]] = {}
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
            wanted = self._done(state) if flip.done else self._open(state, flip.mark)
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
            key = next((k for k in LISTS if k in inner and inner[k].value), "")
            if key and isinstance(inner[key].value, list | dict):
                yield from self._listed(inner[key], name)
            else:
                yield phase

    def _listed(self, place: Place, phase: str = "") -> Iterator[Entry]:
        items: Iterator[tuple[str, Place]]
        if isinstance(place.value, list):
            items = (("", item) for item in self._tree.elements(place))
        elif isinstance(place.value, dict):
            items = iter(self._tree.members(place).items())
        else:
            items = iter(())
        for name, item in items:
            line = self._tree.line(item.start)
            if isinstance(item.value, dict):
                yield Entry(item, item.value, line, phase, name)
            else:
                why = "An entry that is no object cannot hold a state, so it is not a story."
                self.ignored.append(Remark(line, why))

    def _stories(self, entries: Sequence[Entry]) -> tuple[Story, ...]:
        seen: dict[str, int] = {}
        named: list[tuple[str, str]] = []
        aliases: dict[str, str] = {}
        for entry in entries:
            raw, title = _raw_id(entry), _title(entry)
            name = _id(raw, title, seen)
            named.append((name, title or name))
            for alias in (title, raw, name):
                aliases.setdefault(alias, name)
        grouped = any(entry.value.get(GROUP) for entry in entries)
        found = []
        for entry, names, state in zip(entries, named, self._states, strict=True):
            story = self._story(entry, names, state, aliases, grouped=grouped)
            self._entries_by_key.setdefault(story.key, (entry, state))
            found.append(story)
        return tuple(found)

    def _story(
        self,
        entry: Entry,
        names: tuple[str, str],
        state: "_State",
        aliases: dict[str, str],
        *,
        grouped: bool,
    ) -> Story:
        value = entry.value
        name, title = names
        if state.remarks or state.problems:
            self.ignored += [Remark(entry.line, f"Story {name}: {why}") for why in state.remarks]
            self.problems += [Remark(entry.line, f"Story {name}: {why}") for why in state.problems]
        asks = not state.done and _bare(str(state.raw.get(STATUS))) in _HELD
        task = Task(name, title, state.done, entry.line, mark=json.dumps(state.raw), asks=asks)
        wanted = next((fields.ids(value[key]) for key in DEPENDENCIES if value.get(key)), ())
        group = fields.priority(value.get(GROUP)) or 0
        return Story(
            id=name,
            title=title,
            tasks=(task,),
            depends_on=tuple(aliases.get(each, fields.story_id(each)) for each in wanted),
            line=entry.line,
            body=fields.body(value, _told(value, title)),
            acceptance=next((a for key in ACCEPTANCE if (a := fields.texts(value.get(key)))), ()),
            priority=_priority(entry, group, grouped=grouped),
            parallel=group > 0 or value.get("parallel") is True,
        )

    def _done(self, state: "_State") -> dict[str, Json]:
        wanted: dict[str, Json] = {}
        for key in state.raw or self._usual():
            wanted[key] = True if key in FLAGS else self._word(state.raw.get(key), done=True)
        return wanted

    def _open(self, state: "_State", mark: str) -> dict[str, Json]:
        before: dict[str, Json] = json.loads(mark) if mark else {}
        wanted: dict[str, Json] = {}
        for key in state.raw:
            word = False if key in FLAGS else self._word(state.raw.get(key), done=False)
            wanted[key] = before.get(key, word)
        return wanted

    def _usual(self) -> list[str]:
        """The fields in which this document's other stories have their state."""
        return next((list(state.raw) for state in self._states if state.raw), [self._flag])

    def _word(self, now: Json, *, done: bool) -> str:
        """The word that this document uses for the state, written as its other words are."""
        words = [str(s.raw[STATUS]) for s in self._states if s.raw.get(STATUS)]
        known = [word for word in words if (_bare(word) in _DONE) is done]
        plain = [word for word in known if _bare(word) not in _DROPPED]
        if plain:
            return plain[0]
        word = "done" if done else "open"
        like = str(now) if now else (words or [""])[0]
        return word.upper() if like.isupper() else word.title() if like[:1].isupper() else word


@dataclass(frozen=True, slots=True)
class _State:
    """What an object's own fields say about it being done, as they were written."""

    done: bool
    raw: dict[str, Json]
    remarks: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: Mapping[str, Json]) -> "_State":
        raw: dict[str, Json] = {}
        says: dict[str, bool] = {}
        remarks: list[str] = []
        problems: list[str] = []
        for key in FLAGS:
            if key in value and (key != "done" or isinstance(value[key], bool)):
                raw[key], says[key] = value[key], value[key] is True
                if not isinstance(value[key], bool | None):
                    problems.append(f"`{key}` has to be true or false, without quotes.")
        if STATUS in value:
            word = value[STATUS]
            raw[STATUS], says[STATUS] = word, isinstance(word, str) and _bare(word) in _DONE
            if isinstance(word, str) and _bare(word) in _DROPPED:
                says = dict.fromkeys(says, True)
                remarks.append(f"It counts as done, because its status is: {fields.text(word)}")
            elif not isinstance(word, str | None):
                problems.append("`status` has to be a word.")
        if len(set(says.values())) > 1:
            told = ", ".join(f"`{key}`" for key, yes in says.items() if yes)
            remarks.append(f"It counts as open: only {told} says that it is done.")
        return cls(bool(says) and all(says.values()), raw, tuple(remarks), tuple(problems))


def _bare(word: str) -> str:
    return word.strip().lower().replace("-", "_").replace(" ", "_").replace("'", "")


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


def _priority(entry: Entry, group: int, *, grouped: bool) -> int | None:
    if grouped:
        return group
    return None if entry.phase else fields.priority(entry.value.get("priority"))
