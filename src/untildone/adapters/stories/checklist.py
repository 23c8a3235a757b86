"""A Markdown checklist as a StoryBook: bytes in, stories with remarks out."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from untildone.adapters.stories import grouping, labels, passed_over, task_lines
from untildone.domain.story import Remark, Story, StoryBook, Task

_LIST_ITEM = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])\s+\S")

TaskKey = tuple[str, int]


@lru_cache(maxsize=1)  # a story's file is read several times and rarely changed in between
def parse(data: bytes, *, change: str, source: str, path: str) -> StoryBook:
    """All stories of the file; whatever the bytes are, this never fails."""
    lines = task_lines.split(data)
    tasks: list[task_lines.TaskLine] = []
    ignored: list[Remark] = []
    for number, line in enumerate(lines, start=1):
        task = task_lines.read(line, number)
        if task is not None:
            tasks.append(task)
        elif why := passed_over.reason(line):
            ignored.append(Remark(number, why))
        if "\r" in line and task_lines.second_task(line):
            ignored.append(
                Remark(number, "A task behind a bare carriage return is not counted; end the line.")
            )
    stories = grouping.stories(lines, tasks)
    problems = [
        *([] if tasks else [_no_tasks(lines, path)]),
        *_equal_tasks(stories),
    ]
    return StoryBook(
        change=change,
        source=source,
        path=path,
        stories=stories,
        ignored=tuple(ignored),
        problems=tuple(problems),
    )


def by_text(story: Story) -> dict[TaskKey, Task]:
    """The tasks by text and occurrence: how a task is found again after the file was edited.

    An explicit number is part of the text; the ordinal of an unnumbered task is not, because it
    changes with every line that is put in above it.
    """
    found: dict[TaskKey, Task] = {}
    seen: dict[str, int] = {}
    for task in story.tasks:
        text = labels.normal(task.text)
        seen[text] = seen.get(text, 0) + 1
        found[text, seen[text]] = task
    return found


def has_number(task: Task) -> bool:
    """The task's id is written in its text, not counted."""
    return bool(labels.split_number(task.text, letters=True)[0])


def _no_tasks(lines: Sequence[str], path: str) -> Remark:
    line = next((n for n, text in enumerate(lines, start=1) if _LIST_ITEM.match(text)), 1)
    return Remark(line, f"No `- [ ]` line was found, so there is nothing to do in: {path}")


def _equal_tasks(stories: Sequence[Story]) -> Iterator[Remark]:
    for story in stories:
        if len(story.tasks) == 1:
            continue
        first: dict[str, Task] = {}
        for task in filter(has_number, story.tasks):
            other = first.setdefault(labels.normal(task.text), task)
            if other is not task:
                yield Remark(
                    task.line,
                    f"Lines {other.line} and {task.line} of story {story.id} hold the same task: "
                    f"{task.id}",
                )
