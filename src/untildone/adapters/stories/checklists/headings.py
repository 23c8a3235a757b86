"""The headings of a Markdown file, and which of them make stories."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from untildone.adapters.stories.checklists import naming
from untildone.adapters.stories.checklists.task_lines import BLANKS, TaskLine
from untildone.domain.regex import regex

_HEADING = regex(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_USUAL = regex(r"(#{1,6}) ([0-9]{1,9})\. ([A-Za-z](?:[\w ,.:()/-]*[\w.)])?)")
_QUOTE = r"[ \t>]*"
_ITEM = r"(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+(?:\[.?\][ \t]+)?)"
_FENCE = regex(rf"{_QUOTE}(?P<item>{_ITEM}*)(?P<mark>`{{3,}}(?=[^`]*$)|~{{3,}})(?P<rest>.*)$")
_FIRST_GROUP_LEVEL = 2
NO_LEVEL = 0  # of which there is no heading, so that every task belongs to the nearest one


class Heading(Struct, frozen=True, gc=False):
    """A heading outside code fences; `number` is empty when its text starts with none."""

    line: int
    level: int
    text: str
    number: str
    title: str


Item = Heading | TaskLine


def headings(lines: Sequence[str]) -> list[Heading]:
    """All headings that are not inside a code fence."""
    likely = [number for number, line in enumerate(lines, start=1) if "#" in line]
    inside = fenced(lines) if likely else []
    found = []
    for number in likely:
        if inside[number - 1]:
            continue
        line = lines[number - 1]
        usual = _USUAL.fullmatch(line)
        if usual:  # what most numbered headings look like, found without the long way round
            signs, label, title = usual.groups()
            found.append(Heading(number, len(signs), line[len(signs) + 1 :], label, title))
        elif heading := _read(line.strip("\ufeff").rstrip(BLANKS), number):
            found.append(heading)
    return found


def fenced(lines: Sequence[str]) -> list[bool]:
    """Whether each line is inside a code fence or is one of its two edges.

    A fence that never closes encloses nothing: a stray ``` must not merge all stories into one.
    """
    inside = [False] * len(lines)
    fence = ""
    start = 0
    likely = [at for at, line in enumerate(lines) if "```" in line or "~~~" in line]
    for at in likely:
        after = _fence_after(lines[at].strip("\ufeff").rstrip(BLANKS), fence)
        if after and not fence:
            start = at
        elif fence and not after:
            inside[start : at + 1] = [True] * (at + 1 - start)
        fence = after
    return inside


def hidden(lines: Sequence[str]) -> list[bool]:
    """Whether each line is inside a code fence or an HTML comment that ends."""
    inside = fenced(lines)
    start = -1
    for at, line in enumerate(lines):
        if start < 0 and "<!--" in line and not inside[at]:
            start = at if "-->" not in line.rpartition("<!--")[2] else -1
        elif start >= 0 and "-->" in line:
            # What stands on the first line before the comment is no part of it.
            first = start + bool(lines[start].partition("<!--")[0].strip(BLANKS))
            inside[first : at + 1] = [True] * (at + 1 - first)
            start = -1
    return inside


def _read(line: str, number: int) -> Heading | None:
    match = _HEADING.match(line)
    if match is None:
        return None
    text = without_closing(match[2] or "")
    if text.startswith("**") and text.endswith("**") and text.count("**") == 2:
        text = text.strip("*").strip(BLANKS)
    label, title = naming.split_number(text, letters=False)
    return Heading(number, len(match[1]), text, label, title or text)


def without_closing(text: str) -> str:
    """The text of a heading without the `#` signs that may close it; `C#` keeps its sign."""
    if "#" not in text:
        return text.strip(BLANKS)
    rest = text.rstrip(BLANKS).rstrip("#")
    closes = not rest or rest[-1] in " \t"
    return (rest if closes else text).strip(BLANKS)


def _fence_after(line: str, fence: str) -> str:
    """The fence that is open after this line, given the one that is open before it."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    mark = match["mark"]
    if not fence:
        return mark
    bare = not match["item"] and not match["rest"].strip(BLANKS)
    closes = bare and mark[0] == fence[0] and len(mark) >= len(fence)
    return "" if closes else fence


def group_level(items: Sequence[Item]) -> int | None:
    """The level whose headings make stories; None when no heading below the title has tasks."""
    found = _with_tasks(items)
    numbered = [heading.level for heading in found if heading.number]
    return min(numbered or [heading.level for heading in found], default=None)


def _with_tasks(items: Sequence[Item]) -> list[Heading]:
    """The headings below the title that have tasks, also in headings below them."""
    inside: list[Heading] = []
    with_tasks: dict[int, Heading] = {}
    told = True
    for item in items:
        if isinstance(item, Heading):
            while inside and inside[-1].level >= item.level:
                inside.pop()
            inside.append(item)
            told = False
        elif not told:
            for heading in reversed(inside):
                if heading.level < _FIRST_GROUP_LEVEL or heading.line in with_tasks:
                    break  # and so are all above it
                with_tasks[heading.line] = heading
            told = True
    return list(with_tasks.values())


def parents(items: Sequence[Item]) -> dict[int, Heading]:
    """The heading right above each heading, by the line of the lower one; the title is none."""
    inside: list[Heading] = []
    found = {}
    for item in items:
        if not isinstance(item, Heading):
            continue
        while inside and inside[-1].level >= item.level:
            inside.pop()
        if inside and inside[-1].level >= _FIRST_GROUP_LEVEL:
            found[item.line] = inside[-1]
        inside.append(item)
    return found


def groups(items: Sequence[Item], level: int) -> Iterator[tuple[Heading | None, list[TaskLine]]]:
    """The tasks by the heading that owns them, in file order.

    Inside a group the owner has `level`; a task outside every group belongs to the heading just
    above it, or to None at the top of the file.
    """
    group: Heading | None = None
    nearest: Heading | None = None
    owned: dict[int, tuple[Heading | None, list[TaskLine]]] = {}
    own: list[TaskLine] | None = None
    for item in items:
        if isinstance(item, TaskLine):
            if own is None:
                owner = group or nearest
                own = owned.setdefault(owner.line if owner else 0, (owner, []))[1]
            own.append(item)
        else:
            own = None
            nearest = item
            if item.level <= level:
                group = item if item.level == level else None
    yield from owned.values()
