"""Stories of a BMAD sprint: `sprint-status.yaml` and one Markdown file per story."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from untildone.adapters.stories.checklists import naming, task_lines
from untildone.adapters.stories.documents import fields
from untildone.adapters.stories.documents.json_text import Json, NotJson, Place
from untildone.adapters.stories.documents.stateful_source import NewState, StatefulSource
from untildone.adapters.stories.documents.yaml_text import YamlText
from untildone.adapters.stories.source_kind import Found, Kind, Options, counted
from untildone.adapters.stories.story_file import StoryFile
from untildone.domain.checks import checks
from untildone.domain.errors import StoriesError
from untildone.domain.regex import regex
from untildone.domain.stories import story_text
from untildone.domain.stories.story import Remark, Story, StoryBook, StoryContext, Task

NAME = "bmad"
CHANGE = "sprint"
TRACKING = "sprint-status.yaml"
HOMES = ("_bmad-output/implementation-artifacts", "docs/sprint-artifacts", "docs/stories")
# What the loop leaves behind is for a review, as the format has it: only that makes it done.
FINISHED = "review"
READY = "ready-for-dev"
_DONE = frozenset({"review", "ready-for-review", "in-review", "done", "complete", "completed"})
_DROPPED = (
    *("deprecated", "skipped", "cancelled", "canceled", "superseded", "merged", "obsolete"),
    *("archived", "dropped", "removed", "replaced", "absorbed", "wont-do", "descoped"),
)
_OPTIONAL = "optional"
_NOT_YET = frozenset({"", "backlog", "draft", "drafted"})
_HELD = ("deferred", "blocked", "on-hold", "paused")
_OPEN = frozenset(
    {"ready-for-dev", "ready", "approved", "in-progress", "inprogress", "open", "todo", "to-do"}
)
_KEY = regex(r"([0-9]+[a-z]?)[-.]([0-9]+[a-z]?)(?:[-.]\S*)?$")
_FILE_NAME = regex(r"[^/\x00\ud800-\udfff]{1,200}")
_EPIC = regex(r"epic-([0-9]+(?:[.-]?[0-9a-z]{1,3})?)$")
_ANY_EPIC = regex(r"epic-([0-9]+[a-z]?)(?!.*-retrospective$)")
_NO_STORY = regex(r"(?:epic|sprint)-[0-9.a-z-]+$|.*-retrospective$")
_MOST_FILES = 5000
_PROJECT = regex(r"\{(?:project-root|project_root)\}/?")
_TITLE = regex(r"#[ \t]+(?:Story[ \t]+[0-9]+[.-][0-9]+[a-z]?[ \t]*[:.-][ \t]*)?(.+)")
# On a line of its own, or below a heading as version 4 has it.
_STATUS = regex(
    r"^(?P<head>(?:#{2,3}[ \t]+)?(?:\*\*)?Status(?::(?:\*\*)?|\*\*:)[^\w\r\n]{0,6}"
    r"|#{2,3}[ \t]+Status[ \t]*(?:\r?\n[ \t]*){1,4}[^\w\r\n#]{0,6})(?P<word>[\w -]*\w)",
    re.MULTILINE,
)
_SECTION = regex(r"##[ \t]++(.+)")
_WRITTEN = ("tasks", "acceptance", "dev notes", "testing", "description")
_CRITERION = regex(r"(?:[0-9]+[.)]|[-*])[ \t]+(.+)")


class Bmad(StatefulSource):
    """The story source for a sprint, or for one epic of it."""

    NAME = NAME

    def __init__(self, root: Path, change: str, options: Options | None = None) -> None:
        del options
        self._root = root
        self._change = change

    def open(self) -> "Sprint":
        return Sprint(self._root, self._change)

    def context(self, story: Story) -> StoryContext:
        """The story's own file: it says much more than its tasks."""
        return StoryContext(pointers=(story.path,) if story.path else ())


class Sprint:
    """The stories as they were read."""

    def __init__(self, root: Path, change: str) -> None:
        self._root, self._change = root, change
        self._home = home_of(root)
        if not self._home:
            raise StoriesError(
                f"There is no BMAD sprint here: no `{TRACKING}` and no story file in any of "
                f"{', '.join(HOMES)}",
                hint=f"Make one with BMAD, then `untildone stories {change}`.",
            )
        self._tracking = StoryFile(root, f"{self._home}/{TRACKING}", change)
        self._text: YamlText | None = None
        self._location = ""
        self._sorted: dict[str, Path] | None = None
        self._pages: dict[str, StoryPage] = {}
        self._places: dict[str, Place] = {}
        self._ignored: list[Remark] = []
        self._problems: list[Remark] = []
        self._left = self._over = False
        stories = tuple(self._stories())
        if not stories and not self._problems and (self._left or not self._over):
            self._problems.append(Remark(1, "No story of this sprint has a file and can be run."))
        tracked = self._tracking.path if self._places else self._home
        self.book = StoryBook(
            *(change, NAME, tracked, stories, tuple(self._ignored), tuple(self._problems))
        )

    def write(self, states: Sequence[NewState]) -> None:
        """Write states into the story files, then into the tracking file, and nothing else."""
        edits = []
        for name in dict.fromkeys(new.story.id for new in states):
            mine = [new for new in states if new.story.id == name]
            own = next((new for new in mine if not new.task.path), None)
            tracked, said = _words(own)
            self._pages[name].written(mine, said)
            if self._text and own and self._places[own.task.id].value != tracked:
                edits.append(self._text.replaced(self._places[own.task.id], tracked))
        if self._text and edits:
            self._tracking.write(self._text.edited(edits))

    def _stories(self) -> Iterator[Story]:
        for name, word, line in self._of_epic(list(self._entries())):
            if not _FILE_NAME.fullmatch(name):
                self._leave(line, "A key that cannot be the name of a file is no story.")
                continue
            path = self._file_of(name)
            if _plain(word) == _OPTIONAL:
                self._ignored.append(Remark(line, f"Story {name} is optional and not counted."))
            elif path:
                yield from self._story(name, path, word, line)
            elif _plain(word) in _DONE or _plain(word).startswith(_DROPPED):
                self._over = True
                why = f"Story {name} ({word}) has no file and counts as done."
                self._ignored.append(Remark(line, why))
            else:
                said = word or "no status"
                self._leave(
                    line, f"Story {name} ({said}) has no file; BMAD's create-story makes it."
                )

    def _leave(self, line: int, why: str) -> None:
        """What is not done and not a story of this run."""
        self._left = True
        self._ignored.append(Remark(line, why, unfinished=True))

    def _of_epic(self, entries: list[tuple[str, str, int]]) -> Iterator[tuple[str, str, int]]:
        """The stories of the epic that is wanted: by its place in the list, else by its number."""
        wanted = _EPIC.match(self._change)
        listed = wanted and any(name == self._change for name, _, _ in entries)
        self._tell_empty_epics(entries)
        epic = ""
        for entry in entries:
            if _EPIC.match(entry[0]):
                epic = entry[0]
            if _NO_STORY.match(entry[0]):
                continue
            key = _KEY.match(entry[0])
            mine = epic == self._change if listed else wanted and key and key[1] == wanted[1]
            if mine or not wanted:
                yield entry

    def _tell_empty_epics(self, entries: Sequence[tuple[str, str, int]]) -> None:
        """An epic that is open and has no entries yet is work that nobody has written down."""
        filled = set(_filled_epics(entries))
        for name, word, line in entries:
            found = _ANY_EPIC.match(name)
            if not found or {name, f"epic-{found[1]}"} & filled or _is_over(word):
                continue
            if self._change in (CHANGE, name):
                why = f"The epic {name} ({word or 'no status'}) has no stories yet."
                self._ignored.append(Remark(line, why, unfinished=True))

    def _file_of(self, name: str) -> str:
        """Where the file of a story is: the tracking file may say so, and people sort them."""
        for folder in dict.fromkeys((self._location, self._home, f"{self._home}/stories")):
            for file in (f"{name}.md", f"story-{name}.md"):
                if folder and (self._root / folder / file).is_file():
                    return f"{folder}/{file}"
        if self._sorted is None:
            found = islice((self._root / self._home).rglob("*.md"), _MOST_FILES)
            self._sorted = {_same(path.stem): path for path in found}
        path = self._sorted.get(_same(name))
        return path.relative_to(self._root).as_posix() if path else ""

    def _entries(self) -> Iterator[tuple[str, str, int]]:
        """Each key of the tracking file with its status; without that file the story files."""
        if not (self._root / self._tracking.path).exists():
            for path in sorted((self._root / self._home).glob("*.md"), key=_natural):
                if _KEY.match(path.stem.removeprefix("story-")):
                    yield path.stem, "", 1
            return
        try:
            self._text = YamlText(self._tracking.read())
            root = self._text.root()
        except NotJson as error:
            self._problems.append(Remark(error.line, error.why, self._tracking.path))
            return
        members = self._text.members(root)
        self._location = _inside(self._root, fields.text(_value(members.get("story_location"))))
        table = members.get("development_status")
        if table is None:
            why = "It has no `development_status`, which is where its stories have to be."
            self._problems.append(Remark(1, why, self._tracking.path))
        for name, place in (self._text.members(table) if table else {}).items():
            self._places[name] = place
            yield name, fields.text(place.value), self._text.line(place.start)

    def _story(self, name: str, path: str, word: str, line: int) -> Iterator[Story]:
        file = StoryFile(self._root, path, self._change)
        try:
            page = _story_page(file, file.read(), name)
        except StoriesError as error:
            self._problems.append(Remark(1, error.message, file.path))
            return
        state = _plain(word if self._text else page.status)
        if state in _NOT_YET or state.startswith(_HELD):
            said = state or "missing"
            self._leave(line, f"Story {name} is not ready to be run: its status is `{said}`.")
            return
        self._pages.setdefault(fields.story_id(name), page)
        dropped = state.startswith(_DROPPED)
        if dropped:
            why = f"Story {name} counts as done, because its status is: {state}"
            self._ignored.append(Remark(line, why))
        done = dropped or state in _DONE
        if not done and state not in _OPEN:
            why = f"Story {name} counts as open; its status is not known: {state}"
            self._ignored.append(Remark(line, why))
        mark = json.dumps([word, page.status])
        own = Task(name, page.title, done, line, mark=mark)
        boxes = [
            Task(t.id, t.text, done or t.done, t.line, path=t.path, asks=t.asks) for t in page.boxes
        ]
        yield Story(
            id=fields.story_id(name),
            title=page.title,
            tasks=(own, *boxes),
            line=line,
            body=page.body,
            acceptance=page.acceptance,
            path=file.path,
        )


class StoryPage(Struct, frozen=True):
    """One story file: its bytes and what it says."""

    file: StoryFile
    data: bytes
    title: str
    status: str
    boxes: tuple[Task, ...]
    acceptance: tuple[str, ...]
    body: str

    def written(self, states: Sequence[NewState], word: str) -> None:
        """Tick, untick and set the status, and nothing else."""
        mine = {task.line for task in self.boxes}
        boxes = [new for new in states if new.task.path and new.task.line in mine]
        new = task_lines.tick(self.data, [f.task.line for f in boxes if f.done])
        new = task_lines.untick(new, [f.task.line for f in boxes if not f.done])
        if word and self.status:
            text = new.decode("utf-8", "surrogateescape")
            new = _STATUS.sub(lambda m: m["head"] + word, text, count=1).encode(
                "utf-8", "surrogateescape"
            )
        if new != self.data:
            self.file.write(new)


def _story_page(file: StoryFile, data: bytes, name: str) -> StoryPage:
    """What the file says; whatever the bytes are, this never fails."""
    text = data.decode("utf-8", "replace")
    sections = _sections(text)
    title = next((m[1].strip() for _, line in sections[""] if (m := _TITLE.match(line))), "")
    status = _STATUS.search(text)
    work = next((rows for name, rows in sections.items() if name.startswith("tasks")), [])
    wanted = sections.get("acceptance criteria", ())
    criteria = (_CRITERION.match(line.strip()) for _, line in wanted)
    return StoryPage(
        file=file,
        data=data,
        title=fields.title(title) or name,
        status=status["word"].strip() if status else "",
        boxes=tuple(_boxes(work, file.path)),
        acceptance=tuple(found[1].strip() for found in criteria if found),
        body=fields.bounded("\n".join(_said(sections)).strip()),
    )


def _said(sections: Mapping[str, Sequence[tuple[int, str]]]) -> Iterator[str]:
    """The lines of the story itself, and settings in the sections that people write.

    What stands in the record of the agent or of a review (`Model: …`) tells of the past.
    """
    yield from (line for _, line in sections.get("story", ())[1:])
    others = [rows for name, rows in sections.items() if name.startswith(_WRITTEN) or not name]
    for rows in others:
        text = "\n".join(line.rstrip("\r") for _, line in rows)
        yield from ("", *filter(checks.is_setting, story_text.rows([text])))


def _sections(text: str) -> dict[str, list[tuple[int, str]]]:
    """The numbered lines by the heading they stand below; those above the first by an empty one."""
    found: dict[str, list[tuple[int, str]]] = {"": []}
    section = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if heading := _SECTION.match(line.rstrip(" \t\r")):
            section = heading[1].casefold()
        found.setdefault(section, []).append((number, line))
    return found


def _boxes(rows: Sequence[tuple[int, str]], path: str) -> Iterator[Task]:
    lines = [box for number, line in rows if (box := task_lines.read(line, number))]
    for n, box in enumerate(lines, start=1):
        yield Task(
            id=naming.split_number(box.text, letters=False)[0] or str(n),
            text=box.text,
            done=box.done,
            line=box.line,
            path=path,
            asks=box.mark == "?",
        )


def _value(place: Place | None) -> Json:
    return place.value if place else None


def _inside(root: Path, said: str) -> str:
    """A folder of this project that the tracking file names, also by its place elsewhere."""
    parts = [part for part in _PROJECT.sub("", said).replace("\\", "/").split("/") if part]
    if ".." in parts or "\0" in said:
        return ""
    for start in range(len(parts)):
        folder = "/".join(part for part in parts[start:] if part != ".")
        if folder and (root / folder).is_dir():
            return folder
    return ""


def _filled_epics(entries: Sequence[tuple[str, str, int]]) -> Iterator[str]:
    """The epics that have a story: below them in the list, or with their number."""
    epic = ""
    for name, _, _ in entries:
        if _ANY_EPIC.match(name):
            epic = name
        elif not _NO_STORY.match(name):
            yield epic
            key = _KEY.match(name)
            yield f"epic-{key[1]}" if key else epic


def _is_over(word: str) -> bool:
    """Whether an epic is done, or nobody wants it now."""
    said = _plain(word)
    return said in _DONE or said.startswith((_OPTIONAL, *_DROPPED, *_HELD))


def _same(stem: str) -> str:
    return stem.removeprefix("story-").replace(".", "-")


def _words(own: NewState | None) -> tuple[str, str]:
    """The words for the tracking file and for the story file; nothing where none is to change."""
    if own is None:
        return "", ""
    tracked, said = json.loads(own.mark or own.task.mark)
    capital = said[:1].isupper()
    if own.done and not own.mark:
        return FINISHED, "Ready for Review" if capital else FINISHED
    if own.task.done and not own.mark:  # which word it was before, nobody has written down
        return READY, "Approved" if capital else READY
    return tracked, said


def _plain(word: str) -> str:
    return re.sub(r"[\s_]+", "-", word.strip().casefold())


def _natural(path: Path) -> list[tuple[int, str]]:
    return [(int(n or 0), text) for n, text in re.findall(r"([0-9]{0,9})([^0-9]*)", path.name)]


def home_of(root: Path) -> str:
    """The folder that the stories are in."""
    tracked = next((home for home in HOMES if (root / home / TRACKING).is_file()), "")
    named = (home for home in HOMES if any(_KEY.match(p.stem) for p in (root / home).glob("*.md")))
    return tracked or next(named, "")


def recognises(root: Path, change: str) -> bool:
    """The sprint, or one of its epics."""
    return (change == CHANGE or bool(_EPIC.match(change))) and bool(home_of(root))


def find(root: Path) -> tuple[Found, ...]:
    """The sprint, if there is one."""
    return (counted(CHANGE, lambda: Bmad(root, CHANGE)),) if home_of(root) else ()


SOURCE = Kind(
    name=NAME,
    title="The BMAD sprint",
    make=Bmad,
    find=find,
    recognises=recognises,
)
