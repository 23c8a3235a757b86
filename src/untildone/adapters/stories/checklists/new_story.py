"""A new story in the text of a checklist, written as the stories around it are."""

import sys
from collections.abc import Iterable, Sequence

from untildone.adapters.stories.checklists import headings, naming, task_lines
from untildone.adapters.stories.checklists.headings import Heading
from untildone.adapters.stories.checklists.task_lines import indent_of
from untildone.domain.regex import regex
from untildone.domain.stories.story import NewStory, Story

# `Phase 3: `, `Story 2 - `: a number behind a word.
_LABEL = regex(r"(?P<word>[A-Za-z]+\s+)(?P<number>[0-9]{1,6})(?P<behind>\s*[^\w\s]*\s+)")
_LETTER = regex(r"T(?P<number>[0-9]{1,6})")
_ORDERED = regex(r"(?P<indent>\s*)[0-9]{1,9}(?P<sign>[.)]\s*)")
_RULE = regex(r" {0,3}(?:-{3,}|\*{3,}|_{3,})\s*")
_BETWEEN = ".):*_`~ "
_STEP = "  "


def with_story(data: bytes, stories: Sequence[Story], near: Story | None, new: NewStory) -> bytes:
    """The file with one story more: behind `near`, or the first one where there is none."""
    rows = [row.rstrip("\r") for row in task_lines.split(data)]
    known = headings.headings(rows)
    heading = next((h for h in known if near and h.line == near.line), None)
    if near is None:
        block, end = _first(new), len(rows)
    elif heading:
        block, end = (
            _section(rows, known, heading, stories, near, new),
            _section_end(known, heading),
        )
    else:
        block, end = _family(rows, stories, near, new), _end_of_family(rows, near)
    end = _before_blanks(rows, min(end, len(rows)))
    if heading or not near or _is_apart(rows, near, stories):
        block = [""] * bool(end) + block
        block += [""] * bool(end < len(rows) and rows[end].strip())
    return _inserted(data, end, block)


def _inserted(data: bytes, end: int, block: Sequence[str]) -> bytes:
    """The text with these lines behind its first `end` ones, with the line ends that it has."""
    raw = data.split(b"\n")
    sign = b"\r\n" if b"\r\n" in data else b"\n"
    if end == len(raw):  # a file ends with a line feed, and now this one does
        raw.append(b"")
    head = b"\n".join([*raw[:end], b""]) if end else b""
    if end and sign == b"\r\n" and not head.endswith(sign):
        head = head[:-1] + sign
    added = sign.join([row.encode("utf-8", "surrogateescape") for row in block])
    return head + added + sign + b"\n".join(raw[end:])


def _first(new: NewStory) -> list[str]:
    tasks = [f"- [ ] 1.{at} {text}" for at, text in enumerate(new.tasks or (new.title,), start=1)]
    return [f"## 1. {new.title}", "", *_depends(new), *tasks]


def _depends(new: NewStory, indent: str = "") -> list[str]:
    """What it waits for: a paragraph, or a line that belongs to a task."""
    row = f"{indent}Depends: {', '.join(new.depends)}"
    return ([row] if indent else [row, ""]) if new.depends else []


def _before_blanks(rows: Sequence[str], end: int) -> int:
    """Where the text before this line ends; a rule between two sections is no part of it."""
    while end and (not rows[end - 1].strip() or _is_rule(rows, end - 1)):
        end -= 1
    return end


def _is_rule(rows: Sequence[str], at: int) -> bool:
    """Right below a text the same signs make it a heading."""
    return bool(_RULE.fullmatch(rows[at])) and (at == 0 or not rows[at - 1].strip())


# -- stories that are headings --------------------------------------------------------------------


def _section(
    rows: Sequence[str],
    known: Sequence[Heading],
    heading: Heading,
    stories: Sequence[Story],
    near: Story,
    new: NewStory,
) -> list[str]:
    level = [h for h in known if h.level == heading.level]
    sign, number = _beginning(rows[heading.line - 1], heading, level)
    first = near.tasks[0]
    texts = _numbered(first.text, stories, number, new.tasks or (new.title,))
    tasks = [_task(rows[first.line - 1], at, text) for at, text in enumerate(texts, start=1)]
    blank = bool(new.depends) or not rows[heading.line].strip()
    return [f"{sign}{new.title}", *[""] * blank, *_depends(new), *tasks]


def _section_end(known: Sequence[Heading], heading: Heading) -> int:
    """Where the next one of its level begins; far behind the file if there is none."""
    behind = (h for h in known if h.line > heading.line and h.level <= heading.level)
    return next((h.line - 1 for h in behind), sys.maxsize)


def _beginning(row: str, heading: Heading, level: Sequence[Heading]) -> tuple[str, str]:
    """All of a new heading before its title, and the number in it that its tasks have, too."""
    sign = f"{'#' * heading.level} "
    if heading.number:
        above = heading.number.rpartition(".")[0]
        number = _next(h.number for h in level if h.number and h.number.rpartition(".")[0] == above)
        number = f"{above}.{number}" if above else number
        start = row.find(heading.title, len(sign))
        return sign + row[len(sign) : start].replace(heading.number, number, 1).lstrip(), number
    if label := _LABEL.match(heading.text):
        same = (m for h in level if (m := _LABEL.match(h.text)) and m["word"] == label["word"])
        sign += f"{label['word']}{_next(m['number'] for m in same)}{label['behind']}"
    return sign, ""


# -- stories that are tasks with others below them ------------------------------------------------


def _family(rows: Sequence[str], stories: Sequence[Story], near: Story, new: NewStory) -> list[str]:
    top = near.tasks[0]
    row = rows[top.line - 1]
    number = _next_of(stories)
    (title,) = _numbered(top.text, stories, "", (new.title,), single=number)
    indent = _blanks(row) + _STEP
    child = next((s.tasks[1] for s in (near, *stories) if len(s.tasks) > 1), None)
    like = rows[child.line - 1] if child else f"{indent}{row.lstrip()}"
    texts = new.tasks
    if naming.number(top.text) and (child is None or naming.number(child.text)):
        texts = tuple(f"{number}.{at} {text}" for at, text in enumerate(texts, start=1))
    tasks = [_task(like, at, text) for at, text in enumerate(texts, start=1)]
    below = max(_blanks(like), indent, key=len)
    return [_task(row, len(stories) + 1, title), *_depends(new, below), *tasks]


def _next_of(stories: Sequence[Story]) -> str:
    numbers = [naming.number(story.tasks[0].text) for story in stories if story.tasks]
    return _next(number for number in numbers if number and not _LETTER.match(number))


def _blanks(row: str) -> str:
    return row[: len(row) - len(row.lstrip())]


def _end_of_family(rows: Sequence[str], near: Story) -> int:
    """The first line that does not belong to the story's tasks."""
    own = {task.line for task in near.tasks}
    column = indent_of(rows[near.line - 1])
    number = naming.number(near.tasks[0].text)
    for at in range(near.line, len(rows)):
        if not rows[at].strip() or indent_of(rows[at]) > column or at + 1 in own:
            continue
        task = task_lines.read(rows[at], at + 1)
        if not (task and number and naming.number(task.text).startswith(f"{number}.")):
            return at
    return len(rows)


def _is_apart(rows: Sequence[str], near: Story, stories: Sequence[Story]) -> bool:
    """Whether stories have a blank line between them."""
    later = [story for story in stories[1:] if story.line > 1]
    other = near if near in later else next(iter(later), None)
    return other is not None and not rows[other.line - 2].strip()


# -- tasks ----------------------------------------------------------------------------------------


def _task(like: str, at: int, text: str) -> str:
    """An open task, written like another one; in a list with numbers it is the one `at` there."""
    bullet = like[: like.index("[")]
    if ordered := _ORDERED.fullmatch(bullet):
        bullet = f"{ordered['indent']}{at}{ordered['sign']}"
    return f"{bullet}[ ] {text}"


def _numbered(
    like: str, stories: Sequence[Story], above: str, texts: Sequence[str], *, single: str = ""
) -> list[str]:
    """The texts with numbers, if the other one has one: `2.1` below `2`, `T007` behind `T006`."""
    own = naming.number(like)
    if not own:
        return list(texts)
    rest = like[like.index(own) + len(own) :]
    between = rest[: len(rest) - len(rest.lstrip(_BETWEEN))] or " "
    if _LETTER.match(own):
        numbers = _lettered(own, stories, len(texts))
    else:
        above = above or own.rpartition(".")[0]
        dotted = f"{above}." if "." in own else ""
        numbers = [single or f"{dotted}{at}" for at in range(1, len(texts) + 1)]
    return [f"{number}{between}{text}" for number, text in zip(numbers, texts, strict=True)]


def _lettered(like: str, stories: Sequence[Story], count: int) -> list[str]:
    """Numbers such as T007, which are counted through the whole file."""
    texts = (naming.number(task.text) for story in stories for task in story.tasks)
    newest = int(_next(m["number"] for text in texts if (m := _LETTER.match(text))))
    found = _LETTER.match(like)
    width = len(found["number"]) if found else 0
    return [f"T{newest + at:0{width}}" for at in range(count)]


def _next(numbers: Iterable[str]) -> str:
    """One more than the highest last part of these numbers."""
    return str(max((int(number.rpartition(".")[2]) for number in numbers), default=0) + 1)
