"""Stories of a BMAD sprint: `sprint-status.yaml` and one Markdown file per story."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from untildone.adapters.stories import fields, labels, task_lines
from untildone.adapters.stories.json_text import NotJson, Place
from untildone.adapters.stories.kind import Found, Kind, Options, counted
from untildone.adapters.stories.marked import Flip, MarkedSource
from untildone.adapters.stories.story_file import StoryFile
from untildone.adapters.stories.yaml_text import YamlText
from untildone.domain.errors import StoriesError
from untildone.domain.story import Remark, Story, StoryBook, StoryContext, Task
from untildone.domain.value import dataclass

NAME = "bmad"
CHANGE = "sprint"
TRACKING = "sprint-status.yaml"
HOMES = ("_bmad-output/implementation-artifacts", "docs/sprint-artifacts", "docs/stories")
# What the loop leaves behind is for a review, as the format has it: only that makes it done.
FINISHED = "review"
_DONE = frozenset({"review", "ready-for-review", "done"})
_NOT_YET = frozenset({"", "backlog", "draft", "drafted"})
_KEY = re.compile(r"([0-9]+)[-.]([0-9]+[a-z]?)(?:[-.]\S*)?$")
_FILE_NAME = re.compile(r"[^/\x00\ud800-\udfff]{1,200}")
_EPIC = re.compile(r"epic-([0-9]+)$")
_TITLE = re.compile(r"#[ \t]+(?:Story[ \t]+[0-9]+[.-][0-9]+[a-z]?[ \t]*[:.-][ \t]*)?(.+)")
_STATUS = re.compile(
    r"^(?P<head>(?:\*\*)?Status(?::(?:\*\*)?|\*\*:)[ \t]*)(?P<word>[\w -]*\w)", re.MULTILINE
)
_SECTION = re.compile(r"^##[ \t]+(.+?)[ \t]*$")
_CRITERION = re.compile(r"(?:[0-9]+[.)]|[-*])[ \t]+(.+)")


@dataclass(frozen=True, slots=True)
class StoryPage:
    """One story file: its bytes and what it says."""

    file: StoryFile
    data: bytes
    title: str
    status: str
    boxes: tuple[Task, ...]
    acceptance: tuple[str, ...]
    body: str

    def written(self, flips: Sequence[Flip], word: str) -> None:
        """Tick, untick and set the status, and nothing else."""
        mine = {task.line for task in self.boxes}
        boxes = [flip for flip in flips if flip.task.path and flip.task.line in mine]
        new = task_lines.tick(self.data, [f.task.line for f in boxes if f.done])
        new = task_lines.untick(new, [f.task.line for f in boxes if not f.done])
        if word and self.status:
            text = new.decode("utf-8", "surrogateescape")
            new = _STATUS.sub(lambda m: m["head"] + word, text, count=1).encode(
                "utf-8", "surrogateescape"
            )
        if new != self.data:
            self.file.write(new)


def read(file: StoryFile, data: bytes, name: str) -> StoryPage:
    """What the file says; whatever the bytes are, this never fails."""
    text = data.decode("utf-8", "replace")
    parts: dict[str, list[tuple[int, str]]] = {"": []}
    section = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if heading := _SECTION.match(line.rstrip("\r")):
            section = heading[1].casefold()
        parts.setdefault(section, []).append((number, line))
    title = next((m[1].strip() for _, line in parts[""] if (m := _TITLE.match(line))), "")
    status = _STATUS.search(text)
    works = next((rows for key, rows in parts.items() if key.startswith("tasks")), [])
    lines = [t for number, line in works if (t := task_lines.read(line, number))]
    criteria = (_CRITERION.match(line.strip()) for _, line in parts.get("acceptance criteria", ()))
    return StoryPage(
        file=file,
        data=data,
        title=fields.title(title) or name,
        status=status["word"].strip() if status else "",
        boxes=tuple(
            Task(
                id=labels.split_number(t.text, letters=False)[0] or str(n),
                text=t.text,
                done=t.done,
                line=t.line,
                path=file.path,
                asks=t.mark == "?",
            )
            for n, t in enumerate(lines, start=1)
        ),
        acceptance=tuple(found[1].strip() for found in criteria if found),
        body=fields.bounded("\n".join(line for _, line in parts.get("story", ())[1:]).strip()),
    )


class Bmad(MarkedSource):
    """The story source for a sprint, or for one epic of it."""

    NAME = NAME

    def __init__(self, root: Path, change: str, options: Options | None = None) -> None:
        del options
        self._root = root
        self._change = change

    def open(self) -> "Sprint":
        """Read the files as they are now."""
        return Sprint(self._root, self._change)

    def context(self, story: Story) -> StoryContext:
        """The story's own file: it says much more than its tasks."""
        return StoryContext(pointers=(story.path,) if story.path else ())


class Sprint:
    """The stories as they were read."""

    def __init__(self, root: Path, change: str) -> None:
        self._root, self._change = root, change
        self._home = home_of(root) or HOMES[0]
        self._tracking = StoryFile(root, f"{self._home}/{TRACKING}", change)
        self._text: YamlText | None = None
        self._pages: dict[str, StoryPage] = {}
        self._places: dict[str, Place] = {}
        self._ignored: list[Remark] = []
        self._problems: list[Remark] = []
        stories = tuple(self._stories())
        if not stories and not self._problems:
            self._problems.append(Remark(1, "No story of this sprint has a file and can be run."))
        tracked = self._tracking.path if self._places else self._home
        self.book = StoryBook(
            *(change, NAME, tracked, stories, tuple(self._ignored), tuple(self._problems))
        )

    def write(self, flips: Sequence[Flip]) -> None:
        """Write states into the story files, then into the tracking file, and nothing else."""
        edits = []
        for name in dict.fromkeys(flip.story.id for flip in flips):
            mine = [flip for flip in flips if flip.story.id == name]
            own = next((flip for flip in mine if not flip.task.path), None)
            tracked, said = _words(own)
            self._pages[name].written(mine, said)
            if self._text and own and self._places[name].value != tracked:
                edits.append(self._text.replaced(self._places[name], tracked))
        if self._text and edits:
            self._tracking.write(self._text.edited(edits))

    def _stories(self) -> Iterator[Story]:
        wanted = _EPIC.match(self._change)
        for name, word, line in self._entries():
            key = _KEY.match(name)
            if key is None or not _FILE_NAME.fullmatch(name) or (wanted and key[1] != wanted[1]):
                continue
            if (self._root / self._home / f"{name}.md").is_file():
                yield from self._story(name, word, line)
            elif _plain(word) not in _DONE:
                why = f"Story {name} ({word or 'no status'}) has no file yet and cannot be run."
                self._ignored.append(Remark(line, why))

    def _entries(self) -> Iterator[tuple[str, str, int]]:
        """Each key of the tracking file with its status; without that file the story files."""
        if not (self._root / self._tracking.path).exists():
            for path in sorted((self._root / self._home).glob("*.md"), key=_natural):
                yield path.stem, "", 1
            return
        try:
            self._text = YamlText(self._tracking.read())
            root = self._text.root()
        except NotJson as error:
            self._problems.append(Remark(error.line, error.why, self._tracking.path))
            return
        table = self._text.members(root).get("development_status")
        for name, place in (self._text.members(table) if table else {}).items():
            self._places[fields.story_id(name)] = place
            yield name, fields.text(place.value), self._text.line(place.start)

    def _story(self, name: str, word: str, line: int) -> Iterator[Story]:
        file = StoryFile(self._root, f"{self._home}/{name}.md", self._change)
        try:
            page = read(file, file.read(), name)
        except StoriesError as error:
            self._problems.append(Remark(1, error.message, file.path))
            return
        state = _plain(word if self._text else page.status)
        if state in _NOT_YET:
            why = f"Story {name} is not ready: its status is `{state or 'missing'}`."
            self._ignored.append(Remark(line, why))
            return
        self._pages[fields.story_id(name)] = page
        done = state in _DONE
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


def _words(own: Flip | None) -> tuple[str, str]:
    """The words for the tracking file and for the story file; nothing where none is to change."""
    if own is None:
        return "", ""
    tracked, said = json.loads(own.mark or own.task.mark)
    if own.done:
        capital = said[:1].isupper()
        return FINISHED, "Ready for Review" if capital else FINISHED
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
