"""Stories of a Kiro spec: the top-level tasks of `.kiro/specs/NAME/tasks.md`."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path

from untildone.adapters.stories import grouping, labels, spec_folders
from untildone.adapters.stories.checklist import Rules, Stories
from untildone.adapters.stories.checklist_file import ChecklistFile
from untildone.adapters.stories.checklist_source import ChecklistSource
from untildone.adapters.stories.kind import NO_OPTIONS, Found, Kind, Options
from untildone.adapters.stories.task_lines import TaskLine, indent_of
from untildone.domain.schedule import wrong
from untildone.domain.story import Remark, Story, StoryContext, Task

NAME = "kiro"
HOME = ".kiro/specs"
STEERING = ".kiro/steering"
# The star stands at the box, maybe with the sign that formatters put before it; `**1.** ` is bold.
_OPTIONAL = re.compile(r"\\?\*(?:\s+|(?=[0-9][^*]*$))")
_DEEPER = 2
_DOCUMENTS = ("requirements.md", "bugfix.md", "design.md")
_FENCED = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_DEPENDS = re.compile(r"_Depends(?: on)?:\s*([^_\n]+)_", re.IGNORECASE)
_REQUIREMENTS = re.compile(r"_Requirements?:\s*([^_\n]+)_", re.IGNORECASE)
_REQUIREMENT = re.compile(r"#+\s*Requirement\s+([0-9]+)\b", re.IGNORECASE)
_RANGE = re.compile(r"([0-9]{1,4})\.([0-9]{1,3})\s*[-\u2013]\s*(?:\1\.)?([0-9]{1,3})(?![.0-9])")
_CRITERION = re.compile(r"\s*([0-9]+)[.)]\s+(.+)")


def _select(lines: Sequence[str], boxes: Sequence[TaskLine]) -> tuple[list[TaskLine], list[Remark]]:
    """All but optional tasks and those below them, each where its number or its column puts it."""
    del lines
    tasks: list[TaskLine] = []
    refused: list[Remark] = []
    optional: TaskLine | None = None
    for box in _nested(boxes):
        if optional and box.indent > optional.indent:
            refused.append(Remark(box.line, "A task below an optional one is not counted."))
        elif _OPTIONAL.match(box.text):
            optional = box
            why = "An optional task (`[ ]*`) is not required and not counted."
            refused.append(Remark(box.line, why))
        else:
            optional = None
            tasks.append(box)
    return tasks, refused


def _nested(boxes: Sequence[TaskLine]) -> Iterator[TaskLine]:
    """Task 1.1 belongs to task 1 also where it stands at the same column, as in older files."""
    top, number = -1, ""
    moved = 0
    for box in boxes:
        if box.indent <= top or top < 0:
            name = labels.number(_OPTIONAL.sub("", box.text))
            if number and name.startswith(f"{number}."):
                moved = _DEEPER
            else:
                top, number, moved = box.indent, name, 0
        yield replace(box, indent=box.indent + moved, moved=moved) if moved else box


def _group(lines: Sequence[str], tasks: Sequence[TaskLine]) -> Stories:
    """Each top-level task with those below it; a parent is as done as what is below it.

    Where no task has a number, people have put the tasks into headings.
    """
    numbered = any(labels.number(task.text) for task in tasks)
    found = grouping.families(lines, tasks) if numbered else grouping.nearest(lines, tasks)
    indents = {task.line: task.indent for task in tasks}
    return tuple(replace(story, tasks=tuple(_effective(story.tasks, indents))) for story in found)


def _is_below(indent: int, indents: dict[int, int], task: Task) -> bool:
    return indents[task.line] > indent


def _effective(tasks: Sequence[Task], indents: dict[int, int]) -> list[Task]:
    """From the last to the first, so that what is below counts as it was found to be."""
    found = list(tasks)
    for at in reversed(range(len(found))):
        deeper = partial(_is_below, indents[found[at].line], indents)
        below = list(takewhile(deeper, found[at + 1 :]))
        if below:
            found[at] = replace(found[at], done=all(other.done for other in below))
    return found


def _tell(lines: Sequence[str], groups: Stories, stories: Stories) -> tuple[Stories, list[Remark]]:
    if stories is not groups:
        stories = tuple(map(_piece, stories))
    owner = {task.id: story.id for story in stories for task in story.tasks}
    waits: dict[str, list[str]] = {story.id: [] for story in stories}
    for name, others in _waves("\n".join(lines), owner):
        waits[name] += others
    told = []
    for story in stories:
        text = "\n".join(f"{task.text}\n{task.detail}" for task in story.tasks)
        named = [n for match in _DEPENDS.finditer(text) for n in _NUMBERS.findall(match[1])]
        names = dict.fromkeys([*waits[story.id], *(owner.get(name, name) for name in named)])
        parallel = all("(P)" in task.text for task in story.tasks)
        first = tuple(name for name in names if name != story.id)
        told.append(replace(story, depends_on=first, parallel=parallel))
    circle = next((why for _, why in wrong(told) if "wait for each other" in why), "")
    if circle and len(stories) < sum(len(story.tasks) for story in stories):
        # Waves order single tasks; whole groups cannot always be put in such an order.
        why = f"The order between tasks does not hold for whole groups ({circle}); the file's does."
        return stories, [Remark(1, why)]
    return tuple(told), []


def _piece(story: Story) -> Story:
    """A single task, with the boxes above it that are finished with it: it is as done as it says.

    What stands beside it may be finished later, as waves have it, and does not open it again.
    """
    own = story.tasks[-1]
    if own.line != story.line:  # the whole change
        return story
    return replace(story, tasks=tuple(replace(task, done=own.done) for task in story.tasks))


def _waves(text: str, owner: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """For each story what it waits for, by the task graph at the end of newer files."""
    if '"waves"' not in text and "depends_on" not in text:
        return
    import json  # noqa: PLC0415 - few files have it

    for block in _FENCED.findall(text):
        try:
            graph = json.loads(block)
        except (ValueError, RecursionError):
            continue
        waves = graph.get("waves", graph.get("tasks")) if isinstance(graph, dict) else graph
        before: list[str] = []
        for wave in waves if isinstance(waves, list) else []:
            names = [owner[name] for name in _ids(wave) if name in owner]
            named = wave.get("depends_on") if isinstance(wave, dict) else None
            single = isinstance(wave, dict) and "tasks" not in wave
            others = [owner[n] for n in _ids({"tasks": named}) if n in owner] if single else before
            yield from ((name, others) for name in names)
            before = names or before


def _ids(wave: object) -> Iterator[str]:
    """The numbers of tasks in one wave, whatever its shape."""
    if isinstance(wave, dict):
        wave = wave.get("tasks", [wave.get("id", wave.get("task"))])
    for item in wave if isinstance(wave, list) else []:
        found = item.get("id", item.get("task")) if isinstance(item, dict) else item
        if isinstance(found, str | int | float) and not isinstance(found, bool):
            yield str(found).strip().removesuffix(".")


def _numbers(text: str) -> list[str]:
    """The numbers in a list, with those that `1.2-1.4` leaves out."""
    whole = _RANGE.sub(
        lambda m: " ".join(f"{m[1]}.{n}" for n in range(int(m[2]), int(m[3]) + 1)), text
    )
    return _NUMBERS.findall(whole)


RULES = Rules(select=_select, group=_group, tell=_tell)


def recognises(root: Path, change: str) -> bool:
    """There is a spec of this name, with tasks."""
    return spec_folders.has_tasks(root, HOME, change)


def find(root: Path) -> tuple[Found, ...]:
    """The specs that have tasks."""
    return spec_folders.find(root, HOME, lambda name: Kiro(root, name))


class Kiro(ChecklistSource):
    """The story source for one spec."""

    def __init__(self, root: Path, change: str, options: Options = NO_OPTIONS) -> None:
        self._root = root
        self._home = f"{HOME}/{spec_folders.checked_name(change, HOME, 'Kiro spec')}"
        path = f"{self._home}/{spec_folders.TASKS}"
        super().__init__(ChecklistFile(root, path, change, NAME, RULES, options.granularity))

    def context(self, story: Story) -> StoryContext:
        """The documents of the spec, the steering files, and the criteria that the tasks name."""
        pointers = [*spec_folders.documents(self._root, self._home, _DOCUMENTS)]
        pointers += spec_folders.documents(self._root, STEERING, (".",))
        text = "\n".join(f"{task.text}\n{task.detail}" for task in story.tasks)
        wanted = [n for match in _REQUIREMENTS.finditer(text) for n in _numbers(match[1])]
        return StoryContext(tuple(pointers), tuple(self._criteria(dict.fromkeys(wanted))))

    def _criteria(self, wanted: Iterable[str]) -> Iterator[str]:
        path = self._root / self._home / "requirements.md"
        try:
            text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        except OSError:
            return
        known: dict[str, str] = {}
        requirement = ""
        for line in text.split("\n"):
            if heading := _REQUIREMENT.match(line):
                requirement = heading[1]
            elif requirement and indent_of(line) == 0 and (found := _CRITERION.match(line)):
                known.setdefault(f"{requirement}.{found[1]}", found[2].strip())
        yield from (f"{number}: {known[number]}" for number in wanted if number in known)


SOURCE = Kind(
    name=NAME,
    title="Kiro specs",
    make=Kiro,
    find=find,
    recognises=recognises,
)
