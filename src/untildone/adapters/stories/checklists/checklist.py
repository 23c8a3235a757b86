"""A Markdown checklist as a StoryBook: bytes in, stories with remarks out."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from untildone.adapters.stories.checklists import fast_reader, grouping, naming, task_lines
from untildone.adapters.stories.checklists.bulk import unhurried
from untildone.adapters.stories.checklists.task_lines import TaskLine
from untildone.domain.stories.story import Remark, Story, StoryBook, Task

_HIDDEN = "A box inside a code block or a comment is not counted."
_LIST_ITEM = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])\s+\S")

Stories = tuple[Story, ...]
Select = Callable[[Sequence[str], Sequence[TaskLine]], tuple[list[TaskLine], list[Remark]]]
Annotate = Callable[[Sequence[str], Stories, Stories], tuple[Stories, list[Remark]]]


class Rules(Struct, frozen=True):
    """How a format of checklist differs from the others; the defaults are OpenSpec's.

    `hidden` marks lines in which no box counts, `select` keeps the boxes that are tasks and says
    why the others are none, `group` makes stories of the tasks, `annotate` gets the lines, these
    groups and the stories in the size that was asked for, and adds what the format says about each.
    """

    hidden: Callable[[Sequence[str]], Sequence[bool]] | None = None
    select: Select | None = None
    group: Callable[[Sequence[str], Sequence[TaskLine]], tuple[Story, ...]] = grouping.stories
    annotate: Annotate | None = None


DEFAULT_RULES = Rules()


@lru_cache(maxsize=1)  # a story's file is read several times and rarely changed in between
def parse(
    data: bytes,
    *,
    change: str,
    source: str,
    path: str,
    rules: Rules = DEFAULT_RULES,
    granularity: str = "group",
) -> StoryBook:
    """All stories of the file; whatever the bytes are, this never fails."""
    with unhurried():
        return _parsed(data, change, source, path, rules, granularity)


def _parsed(
    data: bytes, change: str, source: str, path: str, rules: Rules, granularity: str
) -> StoryBook:
    if rules is DEFAULT_RULES and granularity == "group" and (found := fast_reader.stories(data)):
        return StoryBook(change, source, path, found)
    lines = task_lines.split(data)
    tasks, ignored = _scanned(lines, rules)
    stories = groups = rules.group(lines, tasks)
    problems = [*([] if tasks else [_no_tasks(lines, path, ignored)]), *_equal_tasks(groups)]
    if granularity != "group":
        stories = grouping.by_granularity(groups, tasks, granularity, change)
    if rules.annotate:
        stories, remarks = rules.annotate(lines, groups, stories)
        ignored += remarks
    return StoryBook(change, source, path, stories, tuple(ignored), tuple(problems))


def _scanned(lines: Sequence[str], rules: Rules) -> tuple[list[TaskLine], list[Remark]]:
    """The tasks, and the lines that look like one and are none."""
    hidden = rules.hidden(lines) if rules.hidden else ()
    tasks: list[TaskLine] = []
    ignored: list[Remark] = []
    for number, line in enumerate(lines, start=1):
        if "[" not in line and line.isascii():
            continue
        task = task_lines.read(line, number)
        if task is None:
            why = task_lines.why_not_counted(line)
        else:
            why = _HIDDEN if hidden and hidden[number - 1] else ""
            if not why:
                tasks.append(task)
        if why:
            ignored.append(Remark(number, why))
        if "\r" in line and task_lines.second_task(line):
            ignored.append(
                Remark(number, "A task behind a bare carriage return is not counted; end the line.")
            )
    if rules.select:
        tasks, refused = rules.select(lines, tasks)
        ignored = sorted([*ignored, *refused], key=lambda remark: remark.line)
    return tasks, ignored


def _no_tasks(lines: Sequence[str], path: str, ignored: Sequence[Remark]) -> Remark:
    boxes = [remark for remark in ignored if task_lines.read(lines[remark.line - 1], remark.line)]
    if boxes:
        return Remark(boxes[0].line, f"None of its boxes counts. {boxes[0].why} In: {path}")
    line = next((n for n, text in enumerate(lines, start=1) if _LIST_ITEM.match(text)), 1)
    return Remark(line, f"No `- [ ]` line was found, so there is nothing to do in: {path}")


def _equal_tasks(stories: Sequence[Story]) -> Iterator[Remark]:
    for story in stories:
        if len(story.tasks) == 1:
            continue
        if len({task.id for task in story.tasks}) == len(story.tasks):
            continue  # equal texts have equal numbers
        first: dict[str, Task] = {}
        for task in story.tasks:
            if not naming.number(task.text):
                continue
            other = first.setdefault(naming.normal(task.text), task)
            if other is not task:
                yield Remark(
                    task.line,
                    f"Lines {other.line} and {task.line} of story {story.id} hold the same task: "
                    f"{task.id}",
                )
