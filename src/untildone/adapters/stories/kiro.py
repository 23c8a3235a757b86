"""Stories of a Kiro spec: the top-level tasks of `.kiro/specs/NAME/tasks.md`."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import takewhile
from pathlib import Path

from msgspec.structs import replace

from untildone.adapters.stories.checklists import grouping, labels, spec_folders, task_lines
from untildone.adapters.stories.checklists.checklist import Rules, Stories
from untildone.adapters.stories.checklists.checklist_file import ChecklistFile
from untildone.adapters.stories.checklists.checklist_source import ChecklistSource
from untildone.adapters.stories.checklists.task_lines import TaskLine, indent_of
from untildone.adapters.stories.kiro_graph import TaskGraph
from untildone.adapters.stories.source_kind import NO_OPTIONS, Found, Kind, Options
from untildone.domain.stories.schedule import wrong
from untildone.domain.stories.story import Remark, Story, StoryContext, Task

NAME = "kiro"
HOME = ".kiro/specs"
STEERING = ".kiro/steering"
# The star stands at the box, maybe with the sign that formatters put before it; `**1.** ` is bold.
_OPTIONAL = re.compile(r"\\?\*(?:\s+|(?=[0-9][^*]*$))")
_DEEPER = 2
_DOCUMENTS = ("requirements.md", "bugfix.md", "design.md")
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
    owners = list(_owners(groups, stories))
    graph = TaskGraph("\n".join(lines), owners, lambda: _all_numbers(lines))
    waits: dict[str, list[str]] = {story.id: [] for story in stories}
    for name, others in graph.edges:
        waits[name] += others
    for story in stories:
        text = "\n".join(f"{task.text}\n{task.detail}" for task in story.tasks)
        named = (n for match in _DEPENDS.finditer(text) for n in _NUMBERS.findall(match[1]))
        waits[story.id] += (name for n in named for name in graph.below.get(n, [n]))
    if graph.placed:
        _put_behind(stories, waits, graph.placed)
    told = [
        replace(
            story,
            depends_on=tuple(n for n in dict.fromkeys(waits[story.id]) if n != story.id),
            parallel=all("(P)" in task.text for task in story.tasks),
        )
        for story in stories
    ]
    circle = next((why for _, why in wrong(told) if "wait for each other" in why), "")
    if circle and len(stories) < sum(len(story.tasks) for story in stories):
        # Waves order single tasks; whole groups cannot always be put in such an order.
        why = f"The order between tasks does not hold for whole groups ({circle}); the file's does."
        return stories, [*graph.remarks, Remark(1, why)]
    return tuple(told), graph.remarks


def _owners(groups: Stories, stories: Stories) -> Iterator[tuple[str, str]]:
    """The numbers of tasks with their stories; a task without one has that of the first above."""
    numbers: dict[int, str] = {}
    for group in groups:
        first = labels.number(group.tasks[0].text)
        numbers.update((task.line, labels.number(task.text) or first) for task in group.tasks)
    for story in stories:
        # The boxes above a single task are finished with it, but are not what it is about.
        single = story.tasks[-1].line == story.line
        for task in story.tasks[-1:] if single else story.tasks:
            if numbers[task.line]:
                yield numbers[task.line], story.id


def _all_numbers(lines: Sequence[str]) -> set[str]:
    """The numbers of all boxes, also of those that are optional."""
    boxes = (task_lines.read(line, 0) for line in lines if "[" in line)
    return {labels.number(_OPTIONAL.sub("", box.text, count=1)) for box in boxes if box}


def _put_behind(stories: Stories, waits: dict[str, list[str]], placed: Set[str]) -> None:
    """What the graph leaves out, such as a checkpoint, waits for all that stands before it."""
    awaited = {name for names in waits.values() for name in names}
    ids = [story.id for story in stories]
    start = 0
    for at, story in enumerate(stories):
        if story.id in placed:
            continue
        later = _behind(story.id, waits) if story.id in awaited else set()
        before = ids[0 if ids[start] in later else start : at]
        first = [name for name in before if name not in later]
        waits[story.id] += first
        if len(first) == len(before) and not story.done:
            start = at  # who waits for this one waits for all before it


def _behind(name: str, waits: Mapping[str, Sequence[str]]) -> set[str]:
    """The stories that wait for this one, also through others."""
    found = {name}
    more = True
    while more:
        new = {n for n, names in waits.items() if n not in found and not found.isdisjoint(names)}
        found |= new
        more = bool(new)
    return found


def _piece(story: Story) -> Story:
    """A single task, with the boxes above it that are finished with it: it is as done as it says.

    What stands beside it may be finished later, as waves have it, and does not open it again.
    """
    own = story.tasks[-1]
    if own.line != story.line:  # the whole change
        return story
    return replace(story, tasks=tuple(replace(task, done=own.done) for task in story.tasks))


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
