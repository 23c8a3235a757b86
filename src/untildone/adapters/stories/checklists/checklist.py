"""A Markdown checklist as a StoryBook: bytes in, stories with remarks out."""

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.stories.checklists import grouping, headings, naming, task_lines
from untildone.adapters.stories.checklists.task_lines import TaskLine
from untildone.domain.regex import regex
from untildone.domain.stories.story import Remark, Story, StoryBook, Task

_HIDDEN = "A box inside a code block or a comment is not counted."
_BEHIND_RETURN = "A task behind a bare carriage return is not counted; end the line."
_PLAIN_MARKS = ("", "x", "X")
_LIST_ITEM = regex(r"\s*(?:[-*+]|[0-9]{1,9}[.)])\s+\S")

Stories = tuple[Story, ...]
Select = Callable[[Sequence[str], Sequence[TaskLine]], tuple[list[TaskLine], list[Remark]]]
Annotate = Callable[[Sequence[str], Stories, Stories], tuple[Stories, list[Remark]]]


class Rules(Struct, frozen=True):
    """How a format of checklist differs from the others; the defaults are OpenSpec's.

    `hidden` marks lines in which no box counts, `select` keeps the boxes that are tasks and says
    why the others are none, `group` makes stories of the tasks, `annotate` gets the lines, these
    groups and the stories in the size that was asked for, and adds what the format says about each.
    `plain_ticks`: a tick changes its own task and nothing else that is said about any story.
    """

    hidden: Callable[[Sequence[str]], Sequence[bool]] | None = None
    select: Select | None = None
    group: Callable[[Sequence[str], Sequence[TaskLine]], tuple[Story, ...]] = grouping.stories
    annotate: Annotate | None = None
    plain_ticks: bool = False


DEFAULT_RULES = Rules(plain_ticks=True)


class _Reading(Struct):
    """A file as it was read last; `owners` are the places of the stories by the lines of tasks."""

    data: bytes
    book: StoryBook
    owners: dict[int, int] | None = None


_READINGS_KEPT = 8
_readings: dict[tuple[object, ...], _Reading] = {}


def parse(
    data: bytes,
    *,
    change: str,
    source: str,
    path: str,
    rules: Rules = DEFAULT_RULES,
    granularity: str = "group",
) -> StoryBook:
    """All stories of the file; whatever the bytes are, this never fails.

    A story's file is read several times, and between two readings mostly some boxes are ticked:
    stories that are the same are then the very same objects, whatever the length of the list.
    """
    key = (change, source, path, rules, granularity)
    last = _readings.get(key)
    if last and last.data == data:
        return last.book
    reading = _reread(last, data) if last and rules.plain_ticks else None
    if reading is None:
        reading = _Reading(data, _parsed(data, change, source, path, rules, granularity))
    _readings.pop(key, None)
    if len(_readings) >= _READINGS_KEPT:
        del _readings[next(iter(_readings))]
    _readings[key] = reading
    return reading.book


def forget() -> None:
    """Read every file anew."""
    _readings.clear()


def _reread(last: _Reading, data: bytes) -> _Reading | None:
    """The file after boxes were ticked or unticked; None if anything else was changed in it."""
    book = last.book
    changed = _changed_lines(last.data, data)
    if not changed or book.problems or book.schedule.dependent:
        return None
    if last.owners is None:
        each = enumerate(book.stories)
        last.owners = {task.line: at for at, story in each for task in story.tasks}
    stories: dict[int, Story] = {}
    for line, before, after in changed:
        at = last.owners.get(line)
        if at is None or not _is_tick(before, after):
            return None
        stories[at] = _flipped(stories.get(at, book.stories[at]), line)
    return _Reading(data, book.with_states(stories), last.owners)


def _flipped(story: Story, line: int) -> Story:
    tasks = [replace(t, done=not t.done) if t.line == line else t for t in story.tasks]
    return replace(story, tasks=tuple(tasks))


def _is_tick(before: str, after: str) -> bool:
    """A task was ticked or unticked; what other marks mean is for the format to say."""
    was, now = task_lines.read(before, 0), task_lines.read(after, 0)
    if was is None or now is None or was.done is now.done:
        return False
    marks = was.mark in _PLAIN_MARKS and now.mark in _PLAIN_MARKS
    return marks and was.text == now.text and was.indent == now.indent


def _changed_lines(old: bytes, new: bytes) -> list[tuple[int, str, str]]:
    """The lines that differ with their numbers, before and after; none if there are more or fewer.

    In the end all bytes are compared, but by the C library: a list of 1,000 stories is compared in
    the time in which Python looks at a hundred of its lines.
    """
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        same = old[low:middle] == new[low:middle]
        low, high = (middle, high) if same else (low, middle - 1)
    start = old.rfind(b"\n", 0, low) + 1
    low, high = 0, min(len(old), len(new)) - start
    while low < high:
        middle = (low + high + 1) // 2
        same = old[len(old) - middle : len(old) - low] == new[len(new) - middle : len(new) - low]
        low, high = (middle, high) if same else (low, middle - 1)
    end = old.find(b"\n", len(old) - low)
    after = len(old) - end if end >= 0 else 0
    before = task_lines.split(old[start : len(old) - after])
    now = task_lines.split(new[start : len(new) - after])
    if len(before) != len(now):
        return []
    first = old.count(b"\n", 0, start) + 1
    pairs = enumerate(zip(before, now, strict=True), start=first)
    return [(line, a, b) for line, (a, b) in pairs if a != b]


def _parsed(
    data: bytes, change: str, source: str, path: str, rules: Rules, granularity: str
) -> StoryBook:
    lines = task_lines.split(data)
    tasks, ignored = _scanned(lines, rules)
    stories = groups = rules.group(lines, tasks)
    problems = [*([] if tasks else [_no_tasks(lines, path, ignored)]), *_equal_tasks(groups)]
    if granularity != "group":
        stories = grouping.by_granularity(groups, tasks, granularity, change)
    if rules.annotate:
        stories, remarks = rules.annotate(lines, groups, stories)
        ignored += remarks
    own = {task.line for story in stories for task in story.tasks} if stories is not groups else ()
    parents = [task for group in groups for task in group.tasks if own and task.line not in own]
    found = (change, source, path, stories, tuple(ignored), tuple(problems))
    return StoryBook(*found, parents=tuple(parents))


def _scanned(lines: Sequence[str], rules: Rules) -> tuple[list[TaskLine], list[Remark]]:
    """The tasks, and the lines that look like one and are none."""
    tasks, ignored = _visible(lines, rules.hidden(lines) if rules.hidden else ())
    ignored = _with_work(lines, ignored)
    if rules.select is None:
        return tasks, ignored
    tasks, refused = rules.select(lines, tasks)
    return tasks, sorted([*ignored, *refused], key=attrgetter("line"))


def _with_work(lines: Sequence[str], ignored: list[Remark]) -> list[Remark]:
    """The remarks; those about what is clearly to be done, and no example, as `unfinished`."""
    work = {r.line for r in ignored if task_lines.is_open_work(lines[r.line - 1])}
    if not work:
        return ignored
    hidden = headings.hidden(lines)
    return [
        replace(r, unfinished=True) if r.line in work and not hidden[r.line - 1] else r
        for r in ignored
    ]


def _visible(lines: Sequence[str], hidden: Sequence[bool]) -> tuple[list[TaskLine], list[Remark]]:
    tasks: list[TaskLine] = []
    ignored: list[Remark] = []
    likely = [(n, x) for n, x in enumerate(lines, start=1) if "[" in x or not x.isascii()]
    for number, line in likely:
        task = task_lines.read(line, number)
        if task and not (hidden and hidden[number - 1]):
            tasks.append(task)
        elif why := _HIDDEN if task else task_lines.why_not_counted(line):
            ignored.append(Remark(number, why))
        if "\r" in line and task_lines.second_task(line):
            ignored.append(Remark(number, _BEHIND_RETURN, unfinished=True))
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
