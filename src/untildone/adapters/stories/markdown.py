"""Stories of a Markdown file with boxes: a plan, a to-do list, any file that is named."""

import os
from collections.abc import Sequence
from pathlib import Path

from untildone.adapters.stories.checklists import grouping, headings
from untildone.adapters.stories.checklists.checklist import Rules, Stories
from untildone.adapters.stories.checklists.checklist_source import ChecklistFile, ChecklistSource
from untildone.adapters.stories.checklists.task_lines import TaskLine
from untildone.adapters.stories.source_kind import NO_OPTIONS, Found, Kind, Options, counted
from untildone.domain.errors import StoriesError
from untildone.domain.stories.story import Remark

NAME = "markdown"
_NAMES = {
    "PRD.md": "prd",
    "TODO.md": "todo",
    "fix_plan.md": "fix_plan",
    "@fix_plan.md": "fix_plan",
    "IMPLEMENTATION_PLAN.md": "implementation_plan",
}
# Looked for in this order; the name of the change is that of the file.
FILES = {f"{at}{file}": name for at in ("", ".ralph/") for file, name in _NAMES.items()}


def _group(lines: Sequence[str], tasks: Sequence[TaskLine]) -> Stories:
    """Numbered headings say which of them are stories; otherwise each is one that has tasks.

    A lone number is that of a chapter (`## 7. Plan`), with all the work in it.
    """
    found_headings = headings.headings(lines)
    numbers = {heading.line for heading in found_headings if heading.number}
    found = grouping.stories(lines, tasks)
    if sum(story.line in numbers for story in found) > 1:
        # The same number twice is for the person to tell apart.
        return grouping.with_unique_ids(found, found_headings, but=numbers)
    return grouping.by_nearest_heading(lines, tasks)


def _annotate(
    lines: Sequence[str], groups: Stories, stories: Stories
) -> tuple[Stories, list[Remark]]:
    """What a sign means in a file of this kind, only its author knows; so it is told."""
    del lines, groups
    marked = [task for story in stories for task in story.tasks if task.mark and not task.asks]
    return stories, [Remark(task.line, f"`[{task.mark}]` counts as open.") for task in marked]


# Such files are documents for people: a box in an example is no work to do.
RULES = Rules(hidden=headings.hidden, group=_group, annotate=_annotate, plain_ticks=True)


def _path(root: Path, change: str) -> str:
    """The first file of this name that has a box in it."""
    paths = [path for path, name in FILES.items() if name == change]
    return next((path for path in paths if _has_boxes(root, path, change)), "")


def _without_boxes(root: Path, change: str) -> str:
    """The first file of this name, so that somebody who asks for it is told what it lacks."""
    return next((p for p, name in FILES.items() if name == change and (root / p).is_file()), "")


def _has_boxes(root: Path, path: str, change: str) -> bool:
    if not os.path.lexists(root / path):
        return False
    try:
        return bool(_file(root, path, change, "group").load().total)
    except StoriesError:
        return True  # one that cannot be read is told when it is opened


def recognises(root: Path, change: str) -> bool:
    """One of the usual files has this name, and boxes."""
    return bool(_path(root, change))


def find(root: Path) -> tuple[Found, ...]:
    """The usual files that have boxes."""
    names = dict.fromkeys(FILES.values())
    return tuple(
        counted(name, lambda name=name: Markdown(root, name))  # type: ignore[misc]
        for name in names
        if recognises(root, name)
    )


def _file(root: Path, path: str, change: str, granularity: str) -> ChecklistFile:
    return ChecklistFile(root, path, change, NAME, RULES, granularity)


class Markdown(ChecklistSource):
    """The story source for one Markdown file."""

    def __init__(self, root: Path, change: str, options: Options = NO_OPTIONS) -> None:
        path = options.file or _path(root, change) or _without_boxes(root, change)
        if not path:
            raise StoriesError(
                f"No Markdown file with boxes goes by this name: {change}",
                hint=f"Name the file with `--source-file`; known are {', '.join(_NAMES)}.",
            )
        super().__init__(_file(root, path, change, options.granularity))


SOURCE = Kind(
    name=NAME,
    title="Markdown checklists",
    make=Markdown,
    find=find,
    recognises=recognises,
    guessed=True,
    suffixes=(".md", ".markdown", ".mdx", ".txt"),
)
