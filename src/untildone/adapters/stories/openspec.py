"""Stories of an OpenSpec change: its `tasks.md`, its specs, and which changes there are."""

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from untildone.adapters.stories import openspec_documents
from untildone.adapters.stories.checklists.checklist_source import ChecklistFile, ChecklistSource
from untildone.adapters.stories.source_kind import NO_OPTIONS, Found, Kind, Options, counted
from untildone.domain.errors import StoriesError
from untildone.domain.regex import regex
from untildone.domain.stories.story import Story, StoryContext
from untildone.plain_files import read_bytes

NAME = "openspec"
CHANGES = "openspec/changes"
_ARCHIVE = "archive"
_NESTED_DEPTH = 3
_MARKERS = (".openspec.yaml", "proposal.md", "tasks.md", "design.md", "specs")
_CONTEXT_KEY = regex(rb"^context[ \t]*:", re.MULTILINE)


def exists(root: Path, change: str) -> bool:
    """The change has a directory, whatever is in it."""
    return _is_name(change) and (root / home_of(root, change)).is_dir()


def home_of(root: Path, change: str) -> str:
    """The directory of the change, also after it was archived."""
    home = f"{CHANGES}/{change}"
    return home if (root / home).is_dir() else archived(root, change) or home


def archived(root: Path, change: str) -> str:
    """Where a change that is no longer among the others was put away to, the last time."""
    if not _is_name(change) or (root / CHANGES / change).is_dir():
        return ""
    named = re.compile(rf"(?:[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}-)?{re.escape(change)}")
    found = [p.name for p in (root / CHANGES / _ARCHIVE).glob("*/") if named.fullmatch(p.name)]
    return f"{CHANGES}/{_ARCHIVE}/{max(found)}" if found else ""


def recognises(root: Path, change: str) -> bool:
    """The change has a file of tasks, also one that cannot be read: loading it says why."""
    if not exists(root, change):
        return False
    home = home_of(root, change)
    if os.path.lexists(root / home / openspec_documents.TASKS):
        return True
    return any(os.path.lexists(root / path) for path in openspec_documents.task_files(root, home))


def find(root: Path) -> tuple[Found, ...]:
    """The changes that are not archived, sorted by name; a broken one never hides the others."""
    try:
        with os.scandir(root / CHANGES) as entries:
            names = sorted(entry.name for entry in entries if _is_change(entry))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise StoriesError(
            f"The changes cannot be listed. {error.strerror}: {CHANGES}",
            hint=f"Look at it with `ls -ld {CHANGES}`.",
        ) from error
    return tuple(_count(root, name) for name in names)


def _is_name(change: str) -> bool:
    plain = not any(char in change for char in "/\\\0")
    return bool(change) and plain and not change.startswith(".") and change != _ARCHIVE


def _is_change(entry: os.DirEntry[str]) -> bool:
    return _is_name(entry.name) and entry.is_dir(follow_symlinks=False)


def _count(root: Path, change: str) -> Found:
    if not recognises(root, change):
        nested = sorted(_nested(root / CHANGES / change, change, 1))
        if nested and not _is_marked(root / CHANGES / change):
            return Found(change, why=f"It only wraps other changes: {', '.join(nested)}")
        return Found(change, why="It has no `tasks.md`.")
    return counted(change, lambda: OpenSpec(root, change))


def _is_marked(directory: Path) -> bool:
    return any((directory / marker).exists() for marker in _MARKERS)


def _nested(directory: Path, name: str, depth: int) -> Iterator[str]:
    """Changes in folders below: OpenSpec only knows changes directly under `changes/`."""
    try:
        with os.scandir(directory) as entries:
            below = [entry.name for entry in entries if _is_change(entry)]
    except OSError:
        return
    for child in below:
        if _is_marked(directory / child):
            yield f"{name}/{child}"
        elif depth < _NESTED_DEPTH:
            yield from _nested(directory / child, f"{name}/{child}", depth + 1)


class OpenSpec(ChecklistSource):
    """The story source for one OpenSpec change, read without the OpenSpec program."""

    def __init__(self, root: Path, change: str, options: Options = NO_OPTIONS) -> None:
        if not _is_name(change):
            raise StoriesError(
                f"This cannot be the name of an OpenSpec change: {change!r}",
                hint=f"Look at the names with `ls {CHANGES}`.",
            )
        self._root = root
        self._change = change
        self._home = home_of(root, change)
        self._granularity = options.granularity
        super().__init__(self._tracked())

    def _file(self) -> ChecklistFile:
        # It may have been archived since, or came back. As text, as in story_file.py.
        if not os.path.isdir(f"{self._root}/{self._home}"):  # noqa: PTH112
            self._home = home_of(self._root, self._change)
            self._list = self._tracked()
        return self._list

    def _tracked(self) -> ChecklistFile:
        root, home, change = self._root, self._home, self._change
        if openspec_documents.has_several_task_files(root, home):
            files = partial(openspec_documents.task_files, root, home)
            return ChecklistFile(
                root, home, change, NAME, granularity=self._granularity, files=files
            )
        (path,) = openspec_documents.task_files(root, home)
        return ChecklistFile(root, path, change, NAME, granularity=self._granularity)

    def context(self, story: Story) -> StoryContext:
        """The change's documents, and the requirements that fit the story."""
        specs = self._specs()
        documents = [f"{self._home}/proposal.md", f"{self._home}/design.md", *specs]
        pointers = [path for path in documents if (self._root / path).is_file()]
        requirements = [
            requirement
            for path in specs
            for requirement in openspec_documents.requirements_of(self._read(path), path)
        ]
        return StoryContext(
            pointers=(*pointers, *self._project_documents()),
            scenarios=openspec_documents.fitting(requirements, story),
        )

    def _specs(self) -> list[str]:
        top = self._root / self._home / "specs"
        found = [
            (Path(directory) / "spec.md").relative_to(self._root).as_posix()
            for directory, _, files in os.walk(top)
            if "spec.md" in files
        ]
        return sorted(found)

    def _project_documents(self) -> Iterator[str]:
        """`project.md` of OpenSpec 0.x; the configuration of 1.x when it holds a context."""
        if (self._root / "openspec/project.md").is_file():
            yield "openspec/project.md"
        for path in ("openspec/config.yaml", "openspec/config.yml"):
            if (self._root / path).is_file():
                if _CONTEXT_KEY.search(self._read(path)):
                    yield path
                return

    def _read(self, path: str) -> bytes:
        """A document that cannot be read adds nothing; the pointer to it stays."""
        try:
            return read_bytes(self._root / path) if (self._root / path).is_file() else b""
        except OSError:
            return b""


SOURCE = Kind(
    name=NAME,
    title="OpenSpec changes",
    make=OpenSpec,
    find=find,
    recognises=recognises,
)
