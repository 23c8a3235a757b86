"""From task lines and headings to stories: a group of tasks, a single task, or the whole change."""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from functools import partial
from operator import attrgetter

from msgspec.structs import replace

from untildone.adapters.stories.checklists import headings, naming
from untildone.adapters.stories.checklists.headings import Heading, Item
from untildone.adapters.stories.checklists.task_lines import BLANKS, TaskLine, indent_of
from untildone.domain.checks import checks
from untildone.domain.stories import story_text
from untildone.domain.stories.story import Story, Task

BODY_LIMIT = 4000
DETAIL_LIMIT = 4000
_CHILD_INDENT = 2


def stories(lines: Sequence[str], tasks: Sequence[TaskLine]) -> tuple[Story, ...]:
    """Every task in exactly one story, in file order."""
    items = _items(lines, tasks)
    level = headings.group_level(items)
    if level is None:
        return _of_families(lines, items)
    texts = _Texts(lines, items)
    return _distinct_slugs(
        [
            _of_heading(texts, owner, owned, number=_number(owner, level))
            for owner, owned in headings.groups(items, level)
        ]
    )


def by_nearest_heading(lines: Sequence[str], tasks: Sequence[TaskLine]) -> tuple[Story, ...]:
    """Every heading that has tasks right below it; without any, every top-level task.

    Equal ones (`Tests` in every phase) are told apart by the heading above, then by occurrence.
    """
    items = _items(lines, tasks)
    if headings.group_level(items) is None:
        return _of_families(lines, items)
    texts = _Texts(lines, items)
    found = _distinct_slugs(
        [
            _of_heading(texts, owner, owned, number=owner.number if owner else "")
            for owner, owned in headings.groups(items, headings.NO_LEVEL)
        ]
    )
    return with_unique_ids(found, items)


def with_unique_ids(
    found: Sequence[Story], items: Sequence[Item], but: Set[int] = frozenset()
) -> tuple[Story, ...]:
    """Equal stories get other names, by the heading above; all `but` those on these lines."""
    uses = Counter(story.id for story in found)
    if len(uses) == len(found):
        return tuple(found)
    parents = headings.parents(items)
    seen: Counter[str] = Counter()
    result = []
    for story in found:
        if story.line in but:
            result.append(story)
            continue
        if uses[story.id] > 1 and story.line in parents:
            above = parents[story.line].text
            name, title = naming.slug(f"{above} {story.title}"), f"{above}: {story.title}"
            story = replace(story, id=name, title=title)
        seen[story.id] += 1
        many = seen[story.id]
        result.append(replace(story, id=f"{story.id}.{many}") if many > 1 else story)
    return tuple(result)


def by_top_task(lines: Sequence[str], tasks: Sequence[TaskLine]) -> tuple[Story, ...]:
    """Every top-level task with the tasks below it, whatever headings there are."""
    return _of_families(lines, _items(lines, tasks))


def by_granularity(
    groups: tuple[Story, ...], lines: Sequence[TaskLine], granularity: str, change: str
) -> tuple[Story, ...]:
    """Other stories than the groups of a file: each `task`, or the whole `change`."""
    if granularity == "change":
        return whole_change(groups, change)
    indents = {line.line: line.indent for line in lines}
    seen: Counter[str] = Counter()
    found = [single for group in groups for single in _single_tasks(group, indents, seen)]
    return _depending_on_tasks(groups, found, list(_with_group_ids(found, seen)))


def _depending_on_tasks(
    groups: Sequence[Story], found: Sequence[tuple[Story, Story, bool]], singles: Sequence[Story]
) -> tuple[Story, ...]:
    """What waits for a group waits for all its tasks, where each of them is a story."""
    if not any("Depends" in group.body for group in groups):
        return tuple(singles)
    members: dict[str, list[str]] = {group.id: [] for group in groups}
    for (_, group, _), single in zip(found, singles, strict=True):
        members[group.id].append(single.id)
    named = partial(story_text.with_dependencies, members=members)
    return tuple(replace(single, body=named(single.body)) for single in singles)


def whole_change(groups: Sequence[Story], change: str) -> tuple[Story, ...]:
    """One story with all tasks of all groups."""
    if not groups:
        return ()
    sections = "\n".join(f"- {group.id}: {group.title}" for group in groups)
    return (
        Story(
            id=naming.slug(change),
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


def _single_tasks(
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
        name, title, numbered = task_name(task.text, seen)
        part = f"Part of: {group.title}" if group.title != title else ""
        story = Story(
            id=name,
            title=title,
            tasks=tuple(own),
            line=task.line,
            body="\n\n".join(filter(None, (part, group.body))),
        )
        yield story, group, numbered


def _with_group_ids(
    found: Sequence[tuple[Story, Story, bool]], seen: Counter[str]
) -> Iterator[Story]:
    """A number that several groups use is told apart by the group."""
    for story, group, numbered in found:
        twice = numbered and seen[story.id] > 1 and group.id != story.id
        yield replace(story, id=f"{group.id}.{story.id}") if twice else story


def _items(lines: Sequence[str], tasks: Sequence[TaskLine]) -> list[Item]:
    return sorted([*headings.headings(lines), *tasks], key=attrgetter("line"))


def _of_families(lines: Sequence[str], items: Sequence[Item]) -> tuple[Story, ...]:
    details = _details(lines, items)
    seen: Counter[str] = Counter()
    return tuple(_of_task(family, details, seen) for family in _families(items))


def _number(owner: Heading | None, level: int) -> str:
    """The number that names the story; only groups are named by theirs."""
    return owner.number if owner is not None and owner.level == level else ""


class _Texts:
    """The lines of a file, with what does not stand on the line of a heading or a task.

    `settings` are the lines (`Verify:` and its like) that count wherever in a story they stand.
    """

    def __init__(self, lines: Sequence[str], items: Sequence[Item]) -> None:
        self.lines = lines
        self.details = _details(lines, items)
        self.settings = {
            number
            for number, line in enumerate(lines, start=1)
            if ":" in line and line[:1].strip(BLANKS) and checks.is_setting(line.rstrip(BLANKS))
        }


def _of_heading(
    texts: _Texts, heading: Heading | None, owned: list[TaskLine], *, number: str
) -> tuple[Story, bool]:
    """The story, and whether a number names it."""
    tasks = _tasks(owned, texts.details)
    if heading is None:
        return Story(id="general", title="General", tasks=tasks, line=owned[0].line), False
    story = Story(
        id=number or naming.slug(heading.text),
        title=heading.title if number else heading.text,
        tasks=tasks,
        line=heading.line,
        body=_body(texts, heading, owned),
    )
    return story, bool(number)


def _body(texts: _Texts, heading: Heading, owned: list[TaskLine]) -> str:
    """The text between the heading and its first task, and the settings below the last one."""
    between = texts.lines[heading.line : owned[0].line - 1]
    above = _bounded(between, BODY_LIMIT) if between else ""
    settings = _settings(texts, owned[-1].line) if texts.settings else ""
    return f"{above}\n\n{settings}".strip("\n") if settings else above


def _settings(texts: _Texts, last: int) -> str:
    """Those behind the last task, up to a heading or a code block: no check is passed over."""
    found = []
    for at in range(last, len(texts.lines)):
        line = texts.lines[at]
        if line.startswith(("#", "```", "~~~")):
            break
        if line and at + 1 in texts.settings:
            found.append(line.rstrip(BLANKS))
    return "\n".join(found)


def _of_task(family: list[TaskLine], details: dict[int, str], seen: Counter[str]) -> Story:
    name, title, _ = task_name(family[0].text, seen)
    return Story(id=name, title=title, tasks=_tasks(family, details), line=family[0].line)


def task_name(text: str, seen: Counter[str]) -> tuple[str, str, bool]:
    """The id and the title of a story that is one task, and whether a number names it.

    Unnumbered ones with the same slug are told apart by occurrence.
    """
    number, rest = naming.split_number(text, letters=True)
    title = rest or text or "(no text)"
    name = number or naming.slug(title)
    seen[name] += 1
    if seen[name] > 1 and not number:
        name = f"{name}.{seen[name]}"
    return name, title, bool(number)


def _tasks(owned: Sequence[TaskLine], details: dict[int, str]) -> tuple[Task, ...]:
    number = naming.number
    return tuple(
        [
            Task(
                number(task.text) or str(ordinal),
                task.text,
                task.done,
                task.line,
                details.get(task.line, ""),
                "",
                "" if task.done else task.mark,
                task.mark == "?",
            )
            for ordinal, task in enumerate(owned, start=1)
        ]
    )


def _families(items: Sequence[Item]) -> Iterator[list[TaskLine]]:
    """Each top-level task with the tasks that are indented below it."""
    family: list[TaskLine] = []
    for item in items:
        nested = (
            isinstance(item, TaskLine)
            and family
            and item.indent >= family[0].indent + _CHILD_INDENT
        )
        if not nested:
            if family:
                yield family
            family = []
        if isinstance(item, TaskLine):
            family.append(item)
    if family:
        yield family


def _distinct_slugs(found: list[tuple[Story, bool]]) -> tuple[Story, ...]:
    """Different headings that make the same slug (`C`, `C++`) get different names.

    Equal headings and equal numbers stay equal: those are for the person to tell apart.
    """
    first: dict[str, str] = {}
    result = []
    for story, numbered in found:
        if story.id not in first:
            first[story.id] = story.title
        elif not numbered:
            title = naming.normal(story.title)
            if naming.normal(first[story.id]) != title:
                story = replace(story, id=f"{story.id}-{naming.digest(title)}")
        result.append(story)
    return tuple(result)


def _details(lines: Sequence[str], items: Sequence[Item]) -> dict[int, str]:
    """The indented lines below each task, by the task's line."""
    below: dict[int, list[str]] = {}
    parents: list[TaskLine] = []
    ends = [*(item.line - 1 for item in items[1:]), len(lines)]
    for item, end in zip(items, ends, strict=False):
        if isinstance(item, Heading):
            parents.clear()
            continue
        while parents and parents[-1].column >= item.column:
            parents.pop()
        parents.append(item)
        if end > item.line and (end > item.line + 1 or lines[item.line]):
            _attach(lines[item.line : end], parents, below)
    return {line: _bounded(text, DETAIL_LIMIT) for line, text in below.items()}


def _attach(region: Sequence[str], parents: list[TaskLine], below: dict[int, list[str]]) -> None:
    for line in region:
        if line.strip(BLANKS):
            column = indent_of(line)
            while parents and parents[-1].column >= column:
                parents.pop()
            if not parents:
                return
        below.setdefault(parents[-1].line, []).append(line)


def _bounded(lines: Sequence[str], limit: int) -> str:
    """The text without blank edges, cut at a line end when it is too long."""
    return bounded("\n".join(line.rstrip(BLANKS) for line in lines).strip("\n"), limit)


def bounded(text: str, limit: int) -> str:
    """The text, cut at a line end when it is too long; a setting behind the cut comes first."""
    if len(text) <= limit:
        return text
    kept = text[:limit].rpartition("\n")[0] or text[:limit]
    told = set(kept.split("\n"))
    rows = (row for row in story_text.rows([text]) if row not in told)
    settings = "".join(f"{row}\n" for row in rows if checks.is_setting(row))
    return f"{settings}{kept}\n(The rest is left out here; it is in the file.)"
