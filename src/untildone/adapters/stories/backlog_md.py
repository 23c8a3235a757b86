"""Stories of Backlog.md: one Markdown file per task, its state in the front matter."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from math import inf
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.stories.documents import fields
from untildone.adapters.stories.documents.json_text import Edit, Json, NotJson, Place
from untildone.adapters.stories.documents.stateful_source import NewState, StatefulSource
from untildone.adapters.stories.documents.yaml_text import YamlText
from untildone.adapters.stories.source_kind import Found, Kind, counted
from untildone.adapters.stories.story_file import StoryFile
from untildone.domain.errors import StoriesError
from untildone.domain.regex import regex
from untildone.domain.stories.story import Remark, Story, StoryBook, Task
from untildone.plain_files import read_bytes

NAME = "backlog-md"
CHANGE = "backlog"
HOMES = ("backlog", ".backlog")
PREFIX = "task"
STATUSES = ("To Do", "In Progress", "Done")
_TASKS, _COMPLETED = "/tasks/", "/completed/"
_OPENING = regex("\ufeff?---[ \t]*\r?\n")
_CLOSING = regex(r"^---[ \t]*\r?$", re.MULTILINE)
_CRITERIA = regex(r"<!-- AC:BEGIN -->(.*?)<!-- AC:END -->", re.DOTALL)
# Older versions wrote no marks around them.
_UNMARKED = regex(
    r"^## Acceptance Criteria[ \t]*\r?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL | re.IGNORECASE
)
_BOX = regex(r"^[ \t]*[-*+] \[(?P<mark>[ xX])\][ \t]+(?P<text>[^\n]*)", re.MULTILINE)
_MARKER = regex(r"<!-- (?:SECTION:)?[A-Z_:]+:(?:BEGIN|END) -->\r?\n?")


class TaskFile(Struct, frozen=True):
    """One task: its story, the text it stands in, and the places that can be written."""

    file: StoryFile
    text: YamlText
    story: Story
    status: Place | None
    head: Place
    boxes: Mapping[str, int]

    def edited(self, states: Iterable[NewState], done_word: str) -> bytes:
        """The file with these states and every other byte as it was."""
        return self.text.edited(self._edits(states, done_word))

    def _edits(self, states: Iterable[NewState], done_word: str) -> Iterator[Edit]:
        for new in states:
            if new.task.id in self.boxes:
                at = self.boxes[new.task.id]
                if (self.text.text[at] != " ") is not new.done:
                    yield Edit(at, at + 1, "x" if new.done else " ")
                continue
            word = new.mark or (done_word if new.done else STATUSES[0])
            if self.status is None:
                yield self.text.inserted(self.head, "status", word)
            elif self.status.value != word:
                yield self.text.replaced(self.status, word)


class BacklogMd(StatefulSource):
    """The story source for all tasks of a backlog."""

    NAME = NAME

    def __init__(self, root: Path, change: str) -> None:
        self._root = root
        self._change = change

    def open(self) -> "Backlog":
        return Backlog(self._root, self._change)


class Backlog:
    """All tasks as they were read."""

    def __init__(self, root: Path, change: str) -> None:
        home = home_of(root)
        if not home:
            raise StoriesError(
                f"There is no backlog here: no folder `tasks` in {' or '.join(HOMES)}",
                hint=f"Make one with `backlog init`, then `untildone stories {change}`.",
            )
        config = _config(root, home)
        self._done_word = _done_word(config)
        self._prefix = fields.first(config, ("task_prefix", "taskPrefix")) or PREFIX
        self._ignored: list[Remark] = []
        self._problems: list[Remark] = []
        found = [
            task
            for folder in ("tasks", "completed")
            for file in _files(root, f"{home}/{folder}", change)
            if (task := self._read(file, completed=folder == "completed"))
        ]
        found = list(_as_called(found, self._prefix, _archived(root, home, self._prefix)))
        if any(task.story.rank is not None for task in found):
            found.sort(key=_rank)
        self._tasks = {task.story.key: task for task in found}
        if not any(task.file.path.startswith(f"{home}/tasks/") for task in found):
            self._problems.append(Remark(1, "No task was found in this folder."))
        self.book = StoryBook(
            change=change,
            source=NAME,
            path=f"{home}/tasks",
            stories=tuple(task.story for task in found),
            ignored=tuple(self._ignored),
            problems=tuple(self._problems),
            boxes=False,
        )

    def write(self, states: Sequence[NewState]) -> None:
        """Write these states, file by file, and nothing else."""
        for key in dict.fromkeys(new.story.key for new in states):
            task = self._tasks[key]
            mine = [new for new in states if new.story.key == key]
            task.file.write(task.edited(mine, self._done_word))
            if _COMPLETED in task.file.path and not all(new.done for new in mine):
                task.file.move(task.file.path.replace(_COMPLETED, _TASKS, 1))

    def _read(self, file: StoryFile, *, completed: bool) -> TaskFile | None:
        try:
            task = read(file, file.read(), self._done_word, completed=completed)
            if not task.story.id.casefold().startswith(f"{self._prefix.casefold()}-"):
                raise NoTask(f"Its id does not begin with `{self._prefix}-`, so it is no task.")
            return task
        except NotJson as error:
            self._problems.append(Remark(error.line, error.why, file.path))
        except NoTask as error:
            self._ignored.append(Remark(1, error.message, file.path))
        except StoriesError as error:
            self._problems.append(Remark(1, error.message, file.path))
        return None


class NoTask(StoriesError):
    """The file is no task; the message says why."""


def read(file: StoryFile, data: bytes, done_word: str, *, completed: bool = False) -> TaskFile:
    whole = data.decode("utf-8", "surrogateescape")
    start, end, behind = _front_matter(whole)
    text = YamlText(data, start, end)
    head = text.root()
    if not isinstance(head.value, dict) or not fields.text(head.value.get("id")):
        raise NoTask("Its front matter has no `id`, so it is no task.")
    members = text.members(head)
    status = members.get("status")
    word = fields.text(status.value) if status else ""
    done = completed or is_done(word, done_word)
    boxes = dict(_boxes(whole, behind))
    ordinal = head.value.get("ordinal")
    name = fields.story_id(fields.text(head.value["id"]))
    title = fields.title(fields.text(head.value.get("title"))) or name
    line = text.line(members["id"].start)
    own = Task(name, title, done, line, mark=word)
    criteria = [
        Task(number, f"{number} {what}", done or whole[at] != " ", text.line(at))
        for number, (at, what) in boxes.items()
    ]
    story = Story(
        id=name,
        title=title,
        tasks=(own, *criteria),
        depends_on=tuple(map(fields.story_id, fields.ids(head.value.get("dependencies")))),
        line=line,
        body=_body(whole[behind:]),
        acceptance=tuple(what for _, what in boxes.values()),
        priority=fields.priority(head.value.get("priority")),
        path=file.path,
        rank=ordinal if isinstance(ordinal, int | float) else None,
    )
    places = {number: at for number, (at, _) in boxes.items()}
    return TaskFile(file, text, story, status, head, places)


def _front_matter(whole: str) -> tuple[int, int, int]:
    """Where it begins and ends, and where the text behind it begins."""
    opening = _OPENING.match(whole)
    closing = _CLOSING.search(whole, opening.end()) if opening else None
    if opening is None or closing is None:
        raise NoTask("It has no front matter between two lines of `---`, so it is no task.")
    return opening.end(), closing.start(), closing.end()


def _as_called(found: Sequence[TaskFile], prefix: str, archived: Set[str]) -> Iterator[TaskFile]:
    """The tasks, depending on others by the ids these have; on what is archived, none can."""
    ids: dict[str, str] = {}
    for task in found:
        ids.setdefault(_bare(task.story.id, prefix), task.story.id)
    ids |= {task.story.id.casefold(): task.story.id for task in found}
    for task in found:
        names = dict.fromkeys(
            ids.get(name.casefold()) or ids.get(_bare(name, prefix)) or name
            for name in task.story.depends_on
        )
        gone = [
            name for name in names if name not in ids.values() and _bare(name, prefix) in archived
        ]
        held = f"It depends on what is archived: {', '.join(gone)}" if gone else ""
        yield replace(task, story=replace(task.story, depends_on=tuple(names), held=held))


def _bare(name: str, prefix: str) -> str:
    """The number alone: `TASK-1`, `task-001` and `1` are the same task."""
    number = name.casefold().removeprefix(f"{prefix.casefold()}-")
    return ".".join(part.lstrip("0") or "0" for part in number.split("."))


def _rank(task: TaskFile) -> tuple[float, float]:
    """The place on the board, where those that have none are behind all others; the priority."""
    story = task.story
    return (
        inf if story.rank is None else story.rank,
        inf if story.priority is None else story.priority,
    )


def is_done(word: str, done_word: str) -> bool:
    """The last status of the project, or a word that says so itself."""
    lower = word.casefold()
    return lower == done_word.casefold() or lower in ("done", "complete", "completed")


def home_of(root: Path) -> str:
    """The folder that the backlog is in."""
    return next((home for home in HOMES if (root / home / "tasks").is_dir()), "")


def find(root: Path) -> tuple[Found, ...]:
    """The backlog, if there is one."""
    there = bool(home_of(root))
    return (counted(CHANGE, lambda: BacklogMd(root, CHANGE)),) if there else ()


def _files(root: Path, folder: str, change: str) -> Iterator[StoryFile]:
    for path in sorted((root / folder).glob("*.md"), key=lambda path: _natural(path.name)):
        yield StoryFile(root, f"{folder}/{path.name}", change)


def _archived(root: Path, home: str, prefix: str) -> set[str]:
    """The numbers of tasks that were put away, from the names of their files."""
    paths = (root / home / "archive/tasks").glob("*.md")
    return {_bare(path.stem.partition(" - ")[0], prefix) for path in paths}


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(n or 0), text) for n, text in re.findall(r"([0-9]{0,9})([^0-9]*)", name)]


def _config(root: Path, home: str) -> Mapping[str, Json]:
    """What the project has set, as far as it can be read."""
    for name in ("config.yml", "config.yaml"):
        try:
            value = YamlText(read_bytes(root / home / name)).root().value
        except (OSError, StoriesError):
            continue
        return value if isinstance(value, dict) else {}
    return {"statuses": list(STATUSES)}


def _done_word(config: Mapping[str, Json]) -> str:
    """The status for finished tasks: the project's own word for it, by default its last one."""
    words = fields.texts(config.get("statuses"))
    said = [word for word in words if is_done(word, "")]
    return (said or list(words) or [STATUSES[-1]])[-1]


def _sections(whole: str, start: int) -> list[re.Match[str]]:
    """Where the acceptance criteria stand."""
    marked = list(_CRITERIA.finditer(whole, start))
    return marked or list(_UNMARKED.finditer(whole, start))[:1]


def _boxes(whole: str, start: int) -> Iterator[tuple[str, tuple[int, str]]]:
    """The acceptance criteria by number: where the mark stands, and the text."""
    count = 0
    for section in _sections(whole, start):
        for box in _BOX.finditer(whole, section.start(1), section.end(1)):
            count += 1
            text = fields.text(box["text"])
            number = re.match(r"#[0-9]{1,6}(?=\s|$)", text)
            name = number[0] if number else f"#{count}"
            yield name, (box.start("mark"), text[len(number[0]) if number else 0 :].strip())


def _body(text: str) -> str:
    for section in reversed(_sections(text, 0)):
        text = text[: section.start()] + text[section.end() :]
    kept = _MARKER.sub("", text)
    return fields.bounded(re.sub(r"(\r?\n){3,}", "\n\n", fields.text(kept)))


SOURCE = Kind(
    name=NAME,
    title="The tasks of Backlog.md",
    make=lambda root, change, options: BacklogMd(root, change),
    find=find,
    recognises=lambda root, change: change == CHANGE and bool(home_of(root)),
)
