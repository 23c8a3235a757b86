"""The requirements of an OpenSpec change, and those that fit one story."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from untildone.adapters.stories.checklists import headings
from untildone.domain.stories.story import Story

SCENARIOS_LIMIT = 6000
_SECTION = re.compile(r"##\s+(.+)$")
_OPERATION = re.compile(r"(ADDED|MODIFIED|REMOVED|RENAMED) Requirements", re.IGNORECASE)
_REQUIREMENT = re.compile(r"###\s*Requirement:\s*(.+)$", re.IGNORECASE)
_BULLET = re.compile(r"\s*[-*+]\s*`?###\s*Requirement:\s*(.+)$")
_RENAME = re.compile(r"\s*+[-*+]?\s*+(FROM|TO):\s*`?###\s*Requirement:\s*(.+)$")
_WORD = re.compile(r"[^\W_]+")
_SHORTEST_WORD = 3
_CUT = "\n(The rest of this requirement is left out.)"


class Requirement(Struct, frozen=True):
    """One requirement of a delta spec with its scenarios, as written."""

    operation: str
    name: str
    path: str
    text: str

    @property
    def entry(self) -> str:
        """The requirement for a reader: what happens to it, where it stands, its text."""
        return f"{self.operation} in {self.path}\n{self.text}"


def parse(data: bytes, path: str) -> tuple[Requirement, ...]:
    """All requirements in the four delta sections; what stands elsewhere is not a delta."""
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    found: list[Requirement] = []
    for operation, lines in _sections(text.split("\n")):
        if operation == "RENAMED":
            found.extend(_renamed(lines, path))
        else:
            found.extend(_blocks(operation, lines, path))
    return tuple(found)


def _sections(lines: Sequence[str]) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
    """Each delta section: its operation, and its lines with whether a fence encloses them."""
    operation = ""
    body: list[tuple[str, bool]] = []
    for line, fenced in zip(lines, headings.fenced(lines), strict=True):
        match = None if fenced else _SECTION.match(line)
        if match is None:
            body.append((line, fenced))
            continue
        if operation:
            yield operation, body
        title = _OPERATION.fullmatch(match[1].strip())
        operation = title[1].upper() if title else ""
        body = []
    if operation:
        yield operation, body


def _blocks(operation: str, lines: Sequence[tuple[str, bool]], path: str) -> Iterator[Requirement]:
    name = ""
    block: list[str] = []
    for line, fenced in lines:
        match = None if fenced else _REQUIREMENT.match(line) or _removed(operation, line)
        if match is not None:
            if name:
                yield Requirement(operation, name, path, "\n".join(block).rstrip())
            name, block = _name(match[1]), []
        block.append(line)
    if name:
        yield Requirement(operation, name, path, "\n".join(block).rstrip())


def _removed(operation: str, line: str) -> re.Match[str] | None:
    """Removals may be written as a bullet that holds the heading."""
    return _BULLET.match(line) if operation == "REMOVED" else None


def _renamed(lines: Sequence[tuple[str, bool]], path: str) -> Iterator[Requirement]:
    old = ""
    for line, fenced in lines:
        match = None if fenced else _RENAME.match(line)
        if match is None:
            continue
        name = _name(match[2])
        if match[1] == "FROM":
            old = name
        elif old:
            yield Requirement("RENAMED", name, path, f"From: {old}\nTo: {name}")
            old = ""


def _name(text: str) -> str:
    return headings.without_closing(text.rstrip().removesuffix("`"))


def fitting(requirements: Sequence[Requirement], story: Story) -> tuple[str, ...]:
    """All requirements when they are short together, otherwise those nearest to the story.

    Nothing in the format links a task to a requirement, so shared words decide, and the order
    of the files breaks ties: the same story always gets the same text.
    """
    entries = [requirement.entry for requirement in requirements]
    if sum(map(len, entries)) <= SCENARIOS_LIMIT:
        return tuple(entries)
    wanted = _words(" ".join([story.title, *(task.text for task in story.tasks)]))
    overlap = [len(wanted & _words(entry)) for entry in entries]
    ranked = sorted(range(len(entries)), key=lambda index: (-overlap[index], index))
    taken: list[int] = []
    room = SCENARIOS_LIMIT
    for index in ranked:
        if len(entries[index]) <= room:
            taken.append(index)
            room -= len(entries[index])
    if not taken:
        taken = ranked[:1]
        entries[taken[0]] = entries[taken[0]][:SCENARIOS_LIMIT] + _CUT
    left_out = [requirements[index] for index in sorted(set(ranked) - set(taken))]
    return (*(entries[index] for index in taken), *_left_out(left_out))


def _left_out(requirements: Sequence[Requirement]) -> tuple[str, ...]:
    if not requirements:
        return ()
    count = len(requirements)
    subject = "1 more requirement is" if count == 1 else f"{count} more requirements are"
    paths = ", ".join(dict.fromkeys(requirement.path for requirement in requirements))
    return (f"{subject} left out here; read the rest in: {paths}",)


def _words(text: str) -> frozenset[str]:
    """Words worth comparing; scripts without blanks between words are compared by pairs."""
    found: set[str] = set()
    for word in _WORD.findall(text.lower()):
        if not word.isascii():
            found.update(word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif len(word) >= _SHORTEST_WORD:
            found.add(word)
    return frozenset(found)
