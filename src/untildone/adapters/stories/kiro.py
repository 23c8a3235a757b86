"""Stories of a Kiro spec: the top-level tasks of `.kiro/specs/NAME/tasks.md`.

Newer files end with a task graph in JSON: waves of tasks, or for single tasks what comes first.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.stories.checklists import grouping, naming, spec_folders, task_lines
from untildone.adapters.stories.checklists.checklist import Rules, Stories
from untildone.adapters.stories.checklists.checklist_source import ChecklistFile, ChecklistSource
from untildone.adapters.stories.checklists.task_lines import TaskLine, indent_of
from untildone.adapters.stories.documents.json_text import plain
from untildone.adapters.stories.source_kind import NO_OPTIONS, Found, Kind, Options
from untildone.domain.regex import regex
from untildone.domain.stories.schedule import wrong
from untildone.domain.stories.story import Remark, Story, StoryContext, Task
from untildone.plain_files import read_text

NAME = "kiro"
HOME = ".kiro/specs"
STEERING = ".kiro/steering"
# The star stands at the box, maybe with the sign that formatters put before it; `**1.** ` is bold.
_OPTIONAL = regex(r"\\?\*(?:\s+|(?=[0-9][^*]*$))")
_DEEPER = 2
_DOCUMENTS = ("requirements.md", "bugfix.md", "design.md")
_NUMBERS = regex(r"[0-9]+(?:\.[0-9]+)*")
_DEPENDS_ON = regex(r"_Depends(?: on)?:\s*([^_\n]+)_", re.IGNORECASE)
_REQUIREMENTS = regex(r"_Requirements?:\s*([^_\n]+)_", re.IGNORECASE)
_REQUIREMENT = regex(r"#+\s*Requirement\s+([0-9]+)\b", re.IGNORECASE)
_RANGE = regex(r"([0-9]{1,4})\.([0-9]{1,3})\s*[-\u2013]\s*(?:\1\.)?([0-9]{1,3})(?![.0-9])")
_CRITERION = regex(r"\s*([0-9]+)[.)]\s+(.+)")
_FENCED = regex(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_WAVES = '"waves"'
_NEEDS = "depends_on"
_UNKNOWN_NAMED = 10
_UNKNOWN_LENGTH = 40


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
    deeper = 0
    for box in boxes:
        if box.indent <= top or top < 0:
            name = naming.number(_OPTIONAL.sub("", box.text))
            if number and name.startswith(f"{number}."):
                deeper = _DEEPER
            else:
                top, number, deeper = box.indent, name, 0
        yield replace(box, indent=box.indent + deeper) if deeper else box


def _group(lines: Sequence[str], tasks: Sequence[TaskLine]) -> Stories:
    """Each top-level task with those below it; a parent is as done as what is below it.

    Where no task has a number, people have put the tasks into headings.
    """
    numbered = any(naming.number(task.text) for task in tasks)
    group = grouping.by_top_task if numbered else grouping.by_nearest_heading
    indents = {task.line: task.indent for task in tasks}
    return tuple(
        replace(story, tasks=tuple(_effective(story.tasks, indents)))
        for story in group(lines, tasks)
    )


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


def _annotate(
    lines: Sequence[str], groups: Stories, stories: Stories
) -> tuple[Stories, list[Remark]]:
    if stories is not groups:
        stories = tuple(map(_piece, stories))
    owners = list(_owners(groups, stories))
    graph = TaskGraph("\n".join(lines), owners, lambda: _all_numbers(lines))
    waits = _waits(stories, graph)
    told = [
        replace(
            story,
            depends_on=tuple(n for n in dict.fromkeys(waits[story.id]) if n != story.id),
            parallel=story.id in graph.abreast or all("(P)" in task.text for task in story.tasks),
        )
        for story in stories
    ]
    circle = next((why for _, why in wrong(told) if "wait for each other" in why), "")
    if circle and len(stories) < sum(len(story.tasks) for story in stories):
        # Waves order single tasks; whole groups cannot always be put in such an order.
        why = f"The order between tasks does not hold for whole groups ({circle}); the file's does."
        return stories, [*graph.remarks, Remark(1, why)]
    return tuple(told), graph.remarks


def _waits(stories: Stories, graph: "TaskGraph") -> dict[str, list[str]]:
    """What each story waits for, by what the graph says and what its own text says."""
    waits: dict[str, list[str]] = {story.id: [] for story in stories}
    for name, others in graph.edges:
        waits[name] += others
    for story in stories:
        named = (
            n for match in _DEPENDS_ON.finditer(_text(story)) for n in _NUMBERS.findall(match[1])
        )
        waits[story.id] += (name for n in named for name in graph.below.get(n, [n]))
    if graph.placed:
        _put_behind(stories, waits, graph.placed)
    return waits


def _text(story: Story) -> str:
    return "\n".join(f"{task.text}\n{task.detail}" for task in story.tasks)


def _owners(groups: Stories, stories: Stories) -> Iterator[tuple[str, str]]:
    """The numbers of tasks with their stories; a task without one has that of the first above."""
    numbers: dict[int, str] = {}
    for group in groups:
        first = naming.number(group.tasks[0].text)
        numbers.update((task.line, naming.number(task.text) or first) for task in group.tasks)
    for story in stories:
        for task in story.tasks:
            if numbers[task.line]:
                yield numbers[task.line], story.id


def _all_numbers(lines: Sequence[str]) -> set[str]:
    """The numbers of all boxes, also of those that are optional."""
    boxes = (task_lines.read(line, 0) for line in lines if "[" in line)
    return {naming.number(_OPTIONAL.sub("", box.text, count=1)) for box in boxes if box}


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
    """A single task without the boxes above it: waves may finish another one below those later."""
    *above, own = story.tasks
    if own.line != story.line:  # the whole change
        return story
    said = filter(None, (story.body, *(task.detail for task in above)))
    return replace(story, tasks=(own,), body="\n\n".join(said))


def _numbers(text: str) -> list[str]:
    """The numbers in a list, with those that `1.2-1.4` leaves out."""
    whole = _RANGE.sub(
        lambda m: " ".join(f"{m[1]}.{n}" for n in range(int(m[2]), int(m[3]) + 1)), text
    )
    return _NUMBERS.findall(whole)


class GraphRow(Struct, frozen=True):
    """Tasks and what they wait for; None is the row before."""

    tasks: tuple[str, ...]
    needs: tuple[str, ...] | None = None


class TaskGraph:
    """What a file's graph says about stories.

    `owners` are the numbers of tasks, each with the story that it belongs to; a number stands for
    all below it as well. `placed` are the stories that the graph speaks of, `abreast` those that
    are in a wave with others. `not_counted` gives the numbers of tasks that are no part of any
    story.
    """

    def __init__(
        self,
        text: str,
        owners: Sequence[tuple[str, str]],
        not_counted: Callable[[], Collection[str]],
    ) -> None:
        self._owners = owners
        self._not_counted = not_counted
        self.below: dict[str, list[str]] = {}
        for number, story in owners:
            for name in _upwards(number):
                self.below.setdefault(name, []).append(story)
        self.edges: list[tuple[str, list[str]]] = []
        self.placed: set[str] = set()
        self.abreast: set[str] = set()
        self.remarks: list[Remark] = []
        if _WAVES in text or _NEEDS in text:
            for block in _FENCED.finditer(text):
                self._read(block[1], text.count("\n", 0, block.start(1)) + 1)

    def _read(self, block: str, line: int) -> None:
        import json  # noqa: PLC0415 - few files have it

        meant = _WAVES in block
        try:
            rows = list(_graph_rows(json.loads(block, parse_float=str)))  # 1.10 is not 1.1
        except json.JSONDecodeError as error:
            if meant:
                why = f"The task graph is not JSON, so it orders nothing: {error.msg}."
                self.remarks.append(Remark(line + error.lineno - 1, why))
            return
        except (ValueError, RecursionError):
            return
        known = len(self.placed)
        self._follow(rows)
        if meant and len(self.placed) == known:
            why = "The task graph orders nothing: there is no task of this file in its `waves`."
            self.remarks.append(Remark(line, why))
        elif unknown := list(self._unknown(rows)) if len(self.placed) > known else []:
            left = len(unknown) - _UNKNOWN_NAMED
            more = f" and {left} more" if left > 0 else ""
            named = plain(", ".join(name[:_UNKNOWN_LENGTH] for name in unknown[:_UNKNOWN_NAMED]))
            why = f"The task graph names what is no task of this file: {named}{more}"
            self.remarks.append(Remark(line, why))

    def _follow(self, rows: Sequence[GraphRow]) -> None:
        members = self._members({name for row in rows for name in row.tasks})
        before: list[str] = []
        for row in rows:
            found = [story for name in row.tasks for story in members.get(name, ())]
            if row.needs is None:
                needs, before = before, found or before
                self.abreast.update(found if len(set(found)) > 1 else ())
            else:
                needs = [story for name in row.needs for story in self.below.get(name, ())]
            self.edges += [(story, needs) for story in found]
            self.placed.update(found)

    def _members(self, named: Set[str]) -> dict[str, list[str]]:
        """The stories that each name of the graph stands for."""
        found: dict[str, list[str]] = {}
        for number, story in self._owners:
            # What is named by its own number is not moved by that of the task above it.
            name = next((name for name in _upwards(number) if name in named), "")
            found.setdefault(name, []).append(story)
        return found

    def _unknown(self, rows: Sequence[GraphRow]) -> Iterator[str]:
        names = dict.fromkeys(name for row in rows for name in (*row.tasks, *(row.needs or ())))
        unknown = [name for name in names if name not in self.below]
        others = {up for n in self._not_counted() for up in _upwards(n)} if unknown else set()
        yield from (name for name in unknown if name not in others)


def _upwards(number: str) -> Iterator[str]:
    """The number itself, then those above it: 1.2.3, 1.2, 1."""
    while number:
        yield number
        number = number.rpartition(".")[0]


def _graph_rows(graph: object) -> Iterator[GraphRow]:
    for wave in _waves(graph):
        single = isinstance(wave, dict) and "tasks" not in wave
        needs = tuple(_task_numbers(wave.get(_NEEDS) or [])) if single else None
        yield GraphRow(tuple(_task_numbers(wave)), needs)
    pairs = graph.get("dependencies") if isinstance(graph, dict) else None
    for name, first in pairs.items() if isinstance(pairs, dict) else ():
        needs = tuple(_task_numbers(first if isinstance(first, list) else [first]))
        yield GraphRow(tuple(_task_numbers([name])), needs)


def _waves(graph: object) -> list[Any]:
    """In their order: by number where each has one."""
    listed = graph.get("waves", graph.get("tasks")) if isinstance(graph, dict) else graph
    waves = listed if isinstance(listed, list) else []
    return sorted(waves, key=_wave_number) if all(map(_has_number, waves)) else waves


def _has_number(wave: object) -> bool:
    return isinstance(wave, dict) and "tasks" in wave and isinstance(_wave_number(wave), int)


def _wave_number(wave: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever the file has there
    """The number of a wave, which says when its turn is."""
    return wave.get("id", wave.get("wave"))


def _task_numbers(wave: object) -> Iterator[str]:
    """The numbers of tasks in one wave, whatever its shape; what is none, in quotes."""
    if isinstance(wave, dict):
        wave = wave.get("tasks", [wave.get("id", wave.get("task"))])
    for item in wave if isinstance(wave, list) else [None]:
        found = item.get("id", item.get("task")) if isinstance(item, dict) else item
        if isinstance(found, str | int) and not isinstance(found, bool):
            yield str(found).strip().rstrip(".*")
        else:
            yield f"`{item}`"


RULES = Rules(select=_select, group=_group, annotate=_annotate)


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
        wanted = [n for match in _REQUIREMENTS.finditer(_text(story)) for n in _numbers(match[1])]
        return StoryContext(tuple(pointers), tuple(self._criteria(dict.fromkeys(wanted))))

    def _criteria(self, wanted: Iterable[str]) -> Iterator[str]:
        path = self._root / self._home / "requirements.md"
        try:
            text = read_text(path, errors="replace") if path.is_file() else ""
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
