"""Stories cut finer or coarser than the file has them: every task, or the whole change."""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from untildone.adapters.stories.checklists import labels
from untildone.adapters.stories.checklists.grouping import named
from untildone.adapters.stories.checklists.task_lines import TaskLine
from untildone.domain.stories.story import Story, Task

_CHILD_INDENT = 2


def stories(
    groups: tuple[Story, ...], lines: Sequence[TaskLine], granularity: str, change: str
) -> tuple[Story, ...]:
    """The groups of a file cut anew: `task` or `change`."""
    if granularity == "change":
        return whole(groups, change)
    indents = {line.line: line.indent for line in lines}
    seen: Counter[str] = Counter()
    found = [piece for group in groups for piece in _pieces(group, indents, seen)]
    return tuple(_qualified(found, seen))


def whole(groups: Sequence[Story], change: str) -> tuple[Story, ...]:
    """One story with all tasks of all groups."""
    if not groups:
        return ()
    sections = "\n".join(f"- {group.id}: {group.title}" for group in groups)
    return (
        Story(
            id=labels.slug(change),
            title=f"The whole change {change}",
            tasks=tuple(
                replace(task, path=task.path or group.path)
                for group in groups
                for task in group.tasks
            ),
            line=groups[0].line,
            body=f"Its parts:\n\n{sections}" if len(groups) > 1 else groups[0].body,
        ),
    )


def _placed(task: Task, path: str) -> Task:
    return replace(task, path=path) if path else task


def _pieces(
    group: Story, indents: dict[int, int], seen: Counter[str]
) -> Iterator[tuple[Story, Story, bool]]:
    """Each task that has no boxes below it, as a story, with its group and whether it is numbered.

    A box that has others below it is finished with the last of them.
    """
    above: list[Task] = []
    for at, task in enumerate(group.tasks):
        following = group.tasks[at + 1] if at + 1 < len(group.tasks) else None
        below = indents[following.line] if following else -1
        if below >= indents[task.line] + _CHILD_INDENT:
            above.append(task)
            continue
        own = [task]
        while above and below < indents[above[-1].line] + _CHILD_INDENT:
            own.insert(0, above.pop())
        name, title, numbered = named(task.text, seen)
        part = f"Part of: {group.title}" if group.title != title else ""
        story = Story(
            id=name,
            title=title,
            tasks=tuple(own),
            line=task.line,
            body="\n\n".join(filter(None, (part, group.body))),
        )
        yield story, group, numbered


def _qualified(found: Sequence[tuple[Story, Story, bool]], seen: Counter[str]) -> Iterator[Story]:
    """A number that several groups use is told apart by the group."""
    for story, group, numbered in found:
        twice = numbered and seen[story.id] > 1 and group.id != story.id
        yield replace(story, id=f"{group.id}.{story.id}") if twice else story
