"""Formats that keep each change in a folder of its own with a `tasks.md` in it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from untildone.adapters.stories.source_kind import Found, counted
from untildone.domain.errors import StoriesError
from untildone.ports import StorySource

TASKS = "tasks.md"


def is_name(change: str) -> bool:
    """Whether this can be the name of a folder."""
    return bool(change) and not change.startswith(".") and not any(c in change for c in "/\\\0")


def has_tasks(root: Path, home: str, change: str) -> bool:
    """The change has a `tasks.md`, also one that cannot be read: loading it says why."""
    return is_name(change) and os.path.lexists(root / home / change / TASKS)


def find(root: Path, home: str, opened: Callable[[str], StorySource]) -> tuple[Found, ...]:
    """The folders below `home` that have tasks, sorted by name; a bad one never hides others."""
    try:
        names = sorted(entry.name for entry in os.scandir(root / home) if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise StoriesError(
            f"The folder cannot be listed. {error.strerror}: {home}",
            hint=f"Look at it with `ls -ld {home}`.",
        ) from error
    return tuple(
        counted(name, lambda name=name: opened(name))  # type: ignore[misc]
        for name in names
        if has_tasks(root, home, name)
    )


def checked_name(change: str, home: str, what: str) -> str:
    """The name itself if a folder can have it."""
    if not is_name(change):
        raise StoriesError(
            f"This cannot be the name of a {what}: {change!r}",
            hint=f"Look at the names with `ls {home}`.",
        )
    return change


def documents(root: Path, home: str, names: tuple[str, ...]) -> Iterator[str]:
    """Those of the files that exist; of a folder, the files in it."""
    for name in names:
        path = root / home / name
        if path.is_file():
            yield f"{home}/{name}"
        elif path.is_dir():
            for file in sorted(path.rglob("*")):
                if file.is_file():
                    yield file.relative_to(root).as_posix()
