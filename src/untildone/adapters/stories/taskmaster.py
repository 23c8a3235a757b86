"""Stories of Task Master: the tasks of one tag in its `tasks.json`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache, partial
from math import inf
from pathlib import Path

from msgspec.structs import replace

from untildone.adapters.stories.checklists import naming
from untildone.adapters.stories.documents import fields
from untildone.adapters.stories.documents.json_text import Edit, Json, JsonText, NotJson, Place
from untildone.adapters.stories.documents.stateful_source import NewState, StatefulSource
from untildone.adapters.stories.source_kind import Found, Kind, Options, counted
from untildone.adapters.stories.story_file import StoryFile
from untildone.domain.errors import StoriesError
from untildone.domain.stories.story import Remark, Story, StoryBook, Task
from untildone.plain_files import read_bytes

NAME = "taskmaster"
FILES = (".taskmaster/tasks/tasks.json", "tasks/tasks.json")
STATE = ".taskmaster/state.json"
DEFAULT_TAG = "master"
_DONE = ("done", "completed")
_OPEN = ("pending", "in-progress")
_HELD = ("blocked", "deferred", "review")
_DROPPED = "cancelled"
_MEDIUM = 2  # the priority of a task that has none
_LONG = 16
_USED = frozenset(
    ("id", "title", "status", "dependencies", "priority", "subtasks", "updatedAt", "parentId")
)


class TaskMaster(StatefulSource):
    """The story source for one tag."""

    NAME = NAME

    def __init__(self, root: Path, change: str, path: str) -> None:
        self._root = root
        self._file = StoryFile(root, path, change)

    def open(self) -> "TaskDocument":
        return read(self._file, self._file.read(), current_tag(self._root))


class TaskDocument:
    """The tasks of one tag as they were read."""

    def __init__(self, file: StoryFile, data: bytes, current: str) -> None:
        self._file = file
        self._text = JsonText(data)
        self._places: dict[tuple[tuple[str, str], str], Place] = {}
        self._ignored: list[Remark] = []
        self._problems: list[Remark] = []
        root = self._text.root()
        tag, tasks = self._tasks(root, current)
        self._over = _finished_parts(tasks.value) if tasks else frozenset()
        stories = tuple(self._stories(tasks)) if tasks else ()
        if tasks:
            stories = _in_order(stories, tasks.value, self._over)
        if not stories:
            line = self._text.line(tasks.start if tasks else root.start)
            self._problems.append(Remark(line, f"No task was found under the tag: {tag}"))
        self.book = StoryBook(
            change=file.change,
            source=NAME,
            path=file.path,
            stories=stories,
            ignored=tuple(self._ignored),
            problems=tuple(self._problems),
            boxes=False,
        )

    def edited(self, states: Iterable[NewState]) -> bytes:
        """The file with these states and every other byte as it was."""
        return self._text.edited(self._edits(states))

    def write(self, states: Sequence[NewState]) -> None:
        read.cache_clear()
        self._file.write(self.edited(states))

    def _edits(self, states: Iterable[NewState]) -> Iterator[Edit]:
        for new in states:
            place = self._places[new.story.key, new.task.id]
            word = new.mark or ("done" if new.done else "pending")
            status = self._text.members(place).get("status")
            if status is None:
                yield self._text.inserted(place, "status", word)
            elif status.value != word:
                yield self._text.replaced(status, word)

    def _tasks(self, root: Place, current: str) -> tuple[str, Place | None]:
        """The tag that is meant and its list: the change's, else the current one, else `master`."""
        if not isinstance(root.value, dict):
            return current, None
        tags = tags_of(root.value)
        if DEFAULT_TAG in tags and tags[DEFAULT_TAG] is root.value:
            return DEFAULT_TAG, self._text.members(root)["tasks"]
        names = {naming.slug(tag): tag for tag in tags}
        tag = names.get(self._file.change) or (current if current in tags else DEFAULT_TAG)
        if tag not in tags:
            return tag, None
        return tag, self._text.members(self._text.members(root)[tag])["tasks"]

    def _stories(self, tasks: Place) -> Iterator[Story]:
        for place in self._text.elements(tasks):
            line = self._text.line(place.start)
            if not isinstance(place.value, dict):
                why = "An entry that is no object is not a task."
                self._ignored.append(Remark(line, why, unfinished=True))
                continue
            yield self._story(place, place.value, line)

    def _story(self, place: Place, value: Mapping[str, Json], line: int) -> Story:
        raw = fields.text(value.get("id"))
        title = fields.title(fields.first(value, ("title", "description"))) or raw or "(no text)"
        name = fields.story_id(raw) if raw else naming.slug(title)
        own = self._task(name, title, value, line)
        tasks, needed = [own], list(_parents(value.get("dependencies"), self._over))
        inner = self._text.members(place)["subtasks"] if value.get("subtasks") else None
        key = (name, " ".join(title.split()))
        self._places.setdefault((key, name), place)
        for sub in self._text.elements(inner) if inner and isinstance(inner.value, list) else ():
            where = self._text.line(sub.start)
            if not isinstance(sub.value, dict):
                why = f"An entry of task {name} that is no object is not a subtask."
                self._ignored.append(Remark(where, why, unfinished=not own.done))
                continue
            number = _part(name, fields.text(sub.value.get("id")) or str(len(tasks)))
            heading = fields.title(fields.first(sub.value, ("title", "description")))
            self._places.setdefault((key, number), sub)
            tasks.append(self._task(number, f"{number} {heading}", sub.value, where, own))
            # A bare number is a sibling; a dotted one may belong to another task.
            needed += _parents(sub.value.get("dependencies"), self._over, dotted=True)
        return Story(
            id=name,
            title=title,
            tasks=tuple(tasks),
            depends_on=tuple(dict.fromkeys(each for each in needed if each != name)),
            line=line,
            body=fields.body(value, _USED),
            priority=fields.priority(value.get("priority")),
        )

    def _task(
        self, name: str, text: str, value: Mapping[str, Json], line: int, own: Task | None = None
    ) -> Task:
        """A task or subtask; with a finished task its subtasks are finished too."""
        said = value.get("status")
        word = fields.text(said) or "pending"
        if not isinstance(said, str | None):
            self._problems.append(Remark(line, f"Task {name}: `status` has to be a word."))
        elif word == _DROPPED:
            self._ignored.append(Remark(line, f"Task {name} counts as done: it is {word}."))
        elif word not in (*_DONE, *_OPEN, *_HELD):
            known = ", ".join((*_OPEN, _DONE[0], *_HELD, _DROPPED))
            why = f"Task {name} has a status that is none of {known}: {word}"
            self._problems.append(Remark(line, why))
        done = word in (*_DONE, _DROPPED) or (own is not None and own.done)
        detail = fields.body(value, _USED) if own else ""
        asks = word in _HELD and not done
        return Task(name, text, done, line, _indented(detail), mark=word, asks=asks)


@lru_cache(maxsize=1)  # the file is read several times and rarely changed in between
def read(file: StoryFile, data: bytes, current: str) -> TaskDocument:
    """The tasks of these bytes; what cannot be read is an error that names its line."""
    try:
        return TaskDocument(file, data, current)
    except NotJson as error:
        raise StoriesError(
            f"{file.path}:{error.line}: {error.why}",
            hint=f"Mend the file, then look at it with `untildone stories {file.change}`",
        ) from error


def tags_of(root: Mapping[str, Json]) -> dict[str, Mapping[str, Json]]:
    """The tags with their contents; the old layout, without tags, is the tag `master`."""
    if isinstance(root.get("tasks"), list):
        return {DEFAULT_TAG: root}
    return {
        tag: value
        for tag, value in root.items()
        if isinstance(value, dict) and isinstance(value.get("tasks"), list)
    }


def current_tag(root: Path) -> str:
    try:
        state = JsonText(read_bytes(root / STATE)).root().value
    except (OSError, StoriesError):
        return DEFAULT_TAG
    named = fields.text(state.get("currentTag")) if isinstance(state, dict) else ""
    return named or DEFAULT_TAG


def find(root: Path) -> tuple[Found, ...]:
    """Every tag that has tasks; a file that cannot be read is one row that says so."""
    path = _path(root)
    if not path:
        return ()
    try:
        content = JsonText(StoryFile(root, path, NAME).read()).root().value
    except StoriesError as error:
        return (Found(DEFAULT_TAG, why=f"{path}: {error.message}"),)
    tags = tags_of(content) if isinstance(content, dict) else {}
    filled = [naming.slug(tag) for tag, value in tags.items() if value["tasks"]]
    return tuple(
        counted(name, partial(TaskMaster, root, name, path)) for name in filled or [DEFAULT_TAG]
    )


def recognises(root: Path, change: str) -> bool:
    """Whether a tag is called like this."""
    return any(found.name == change for found in find(root))


def make(root: Path, change: str, options: Options) -> TaskMaster:
    """The tag that is called like the change, else the current one."""
    return TaskMaster(root, change, options.file or _path(root) or FILES[0])


def _path(root: Path) -> str:
    return next((path for path in FILES if (root / path).is_file()), "")


def _in_order(stories: Sequence[Story], tasks: Json, over: Set[str]) -> tuple[Story, ...]:
    """The stories with the rank that Task Master's own `next` gives them.

    A task that was begun comes first if one of its subtasks can be worked on; then it goes by
    priority, by the number of dependencies and by the id.
    """
    done = over | {story.id for story in stories if story.done}
    keys = [_turn(task, fields.text(task.get("id")), done) for task in _objects(tasks)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    rank = {at: float(n) for n, at in enumerate(order)}
    return tuple(replace(story, rank=rank[at]) for at, story in enumerate(stories))


def _turn(task: Mapping[str, Json], name: str, done: Set[str]) -> tuple[bool, float, int, float]:
    place = int(name) if name.isdecimal() and len(name) < _LONG else inf
    urgency = _urgency(task, _MEDIUM)
    begun = fields.text(task.get("status")) == _OPEN[1]
    ready = [
        (False, _urgency(part, urgency), len(fields.ids(part.get("dependencies"))), place)
        for part in (_objects(task.get("subtasks")) if begun else ())
        if (fields.text(part.get("status")) or _OPEN[0]) in _OPEN
        and all(other in done for other in _siblings(name, part))
    ]
    return min(ready, default=(True, urgency, len(fields.ids(task.get("dependencies"))), place))


def _urgency(value: Mapping[str, Json], usual: float) -> float:
    found = fields.priority(value.get("priority"))
    return usual if found is None else found


def _siblings(task: str, part: Mapping[str, Json]) -> Iterator[str]:
    """What a subtask waits for; a bare number is one of the same task."""
    for name in fields.ids(part.get("dependencies")):
        yield name if "." in name else _part(task, name)


def _parents(value: Json, over: Set[str], *, dotted: bool = False) -> Iterator[str]:
    """The tasks that are waited for; nobody waits for a subtask that is over."""
    for name in fields.ids(value):
        task, dot, _ = name.partition(".")
        if (dot or not dotted) and name not in over:
            yield fields.story_id(task)


def _part(task: str, own: str) -> str:
    """The number of a subtask, which is mostly written without that of its task."""
    return own if own.startswith(f"{task}.") else f"{task}.{own}"


def _finished_parts(tasks: Json) -> frozenset[str]:
    """The numbers of the subtasks that are done, such as `1.2`."""
    return frozenset(
        _part(fields.text(task.get("id")), fields.text(part.get("id")))
        for task in _objects(tasks)
        for part in _objects(task.get("subtasks"))
        if fields.text(part.get("status")) in (*_DONE, _DROPPED)
    )


def _objects(value: Json) -> list[dict[str, Json]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


SOURCE = Kind(
    name=NAME,
    title="Task Master's tags",
    make=make,
    find=find,
    recognises=recognises,
    suffixes=(".json",),
)
