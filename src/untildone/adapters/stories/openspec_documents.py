"""What stands beside the tasks of an OpenSpec change: the schema that says where tasks are kept,
and the requirements of its specs.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from untildone.adapters.stories.checklists import headings
from untildone.domain.regex import regex
from untildone.domain.stories.story import Story
from untildone.plain_files import read_bytes

TASKS = "tasks.md"
_DEFAULT_SCHEMA = "spec-driven"
_SCHEMA = regex(rb"^schema[ \t]*:[ \t]*[\"']?([\w.-]+)[\"']?[ \t]*(?:#.*)?\r?$", re.MULTILINE)
_BRACES = regex(r"\{([^{},]*(?:,[^{},]*)+)\}")
SCENARIOS_LIMIT = 6000
_SECTION = regex(r"##\s+(.+)$")
_OPERATION = regex(r"(ADDED|MODIFIED|REMOVED|RENAMED) Requirements", re.IGNORECASE)
_REQUIREMENT = regex(r"###\s*Requirement:\s*(.+)$", re.IGNORECASE)
_BULLET = regex(r"\s*[-*+]\s*`?###\s*Requirement:\s*(.+)$")
_RENAME = regex(r"\s*+[-*+]?\s*+(FROM|TO):\s*`?###\s*Requirement:\s*(.+)$")
_WORD = regex(r"[^\W_]+")
_SHORTEST_WORD = 3
_CUT = "\n(The rest of this requirement is left out.)"


def _task_pattern(root: Path, home: str) -> str:
    """What the tracked files of this change are called; without a schema of its own `tasks.md`.

    Schemas that come with the program or are kept in the person's own folder are not looked at:
    those of the program track `tasks.md`.
    """
    name = _schema_name(root / home / ".openspec.yaml")
    if not name:
        configs = (root / "openspec" / file for file in ("config.yaml", "config.yml"))
        name = _schema_name(next((path for path in configs if path.is_file()), Path(os.devnull)))
    if not name or name == _DEFAULT_SCHEMA:
        return TASKS
    return _tracked(root / "openspec/schemas" / name / "schema.yaml") or TASKS


def has_several_task_files(root: Path, home: str) -> bool:
    return any(sign in _task_pattern(root, home) for sign in "*?[{")


def task_files(root: Path, home: str) -> Sequence[str]:
    """The tracked files that exist, sorted; `tasks.md` when the schema's pattern fits none."""
    wanted = _task_pattern(root, home)
    if wanted == TASKS:
        return [f"{home}/{TASKS}"]
    top = (root / home).resolve()
    found: set[str] = set()
    for one in _expanded(wanted):
        for path in (root / home).glob(one):
            hidden = any(part.startswith(".") for part in path.relative_to(root / home).parts)
            if path.is_file() and not hidden and path.resolve().is_relative_to(top):
                found.add(path.relative_to(root).as_posix())
    return sorted(found) or [f"{home}/{TASKS}"]


def _schema_name(path: Path) -> str:
    try:
        match = _SCHEMA.search(read_bytes(path))
    except OSError:
        return ""
    return match[1].decode(errors="replace") if match else ""


def _tracked(path: Path) -> str:
    """What the apply phase tracks; if it does not say, what the artifact called `tasks` makes."""
    from untildone.adapters.stories.documents.json_text import NotJson  # noqa: PLC0415 - few projects
    from untildone.adapters.stories.documents.yaml_text import YamlText  # noqa: PLC0415 - have a schema

    try:
        schema = YamlText(read_bytes(path)).root().value
    except (OSError, NotJson):
        return ""
    if not isinstance(schema, dict):
        return ""
    apply = schema.get("apply")
    tracks = apply.get("tracks") if isinstance(apply, dict) else None
    found = _made_tasks(schema.get("artifacts")) if tracks is None else tracks
    inside = isinstance(found, str) and not found.startswith("/") and ".." not in found.split("/")
    return str(found) if inside else ""


def _made_tasks(artifacts: object) -> object:
    listed = artifacts if isinstance(artifacts, list) else []
    dicts = [artifact for artifact in listed if isinstance(artifact, dict)]
    return next((each.get("generates") for each in dicts if each.get("id") == "tasks"), "")


def _expanded(wanted: str) -> list[str]:
    """The pattern with each `{a,b}` written out, which Python's patterns do not know."""
    match = _BRACES.search(wanted)
    if match is None:
        return [wanted]
    before, after = wanted[: match.start()], wanted[match.end() :]
    return [p for word in match[1].split(",") for p in _expanded(f"{before}{word}{after}")]


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


def requirements_of(data: bytes, path: str) -> tuple[Requirement, ...]:
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
