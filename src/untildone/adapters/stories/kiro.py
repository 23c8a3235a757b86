"""Stories of a Kiro spec: the top-level tasks of `.kiro/specs/NAME/tasks.md`."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from untildone.adapters.stories import grouping, spec_folders
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
_DOCUMENTS = ("requirements.md", "bugfix.md", "design.md")
_FENCED = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_DEPENDS = re.compile(r"_Depends(?: on)?:\s*([^_\n]+)_", re.IGNORECASE)
_REQUIREMENTS = re.compile(r"_Requirements?:\s*([^_\n]+)_", re.IGNORECASE)
_REQUIREMENT = re.compile(r"#+\s*Requirement\s+([0-9]+)\b", re.IGNORECASE)
_CRITERION = re.compile(r"\s*([0-9]+)[.)]\s+(.+)")


def _refuses(task: TaskLine) -> str:
    if task.text.startswith("*"):
        return "An optional task (`[ ]*`) is not required and not counted."
    return ""


def _group(lines: Sequence[str], tasks: Sequence[TaskLine]) -> Stories:
    """Each top-level task with those below it; a parent is as done as what is below it."""
    indents = {task.line: task.indent for task in tasks}
    return tuple(
        replace(story, tasks=tuple(_effective(story.tasks, indents)))
        for story in grouping.families(lines, tasks)
    )


def _effective(tasks: Sequence[Task], indents: dict[int, int]) -> Iterator[Task]:
    for at, task in enumerate(tasks):
        below = []
        for other in tasks[at + 1 :]:
            if indents[other.line] <= indents[task.line]:
                break
            below.append(other)
        yield replace(task, done=all(other.done for other in below)) if below else task


def _tell(lines: Sequence[str], groups: Stories, stories: Stories) -> tuple[Stories, list[Remark]]:
    del groups
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


RULES = Rules(refuses=_refuses, group=_group, tell=_tell)


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
        wanted = [n for match in _REQUIREMENTS.finditer(text) for n in _NUMBERS.findall(match[1])]
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
