"""The change that the bench's repository starts with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

STORIES = ("Alpha greeting", "Bravo greeting", "Charlie greeting")
TASKS = "openspec/changes/demo/tasks.md"


def tasks_text(done: Sequence[int] = (), stories: Sequence[str] = STORIES) -> str:
    """The tasks.md of the change, with the given story numbers ticked."""
    parts = ["# Tasks\n"]
    for n, title in enumerate(stories, 1):
        word, box = title.split()[0].lower(), "x" if n in done else " "
        parts.append(
            f"\n## {n}. {title}\n\n"
            f"- [{box}] {n}.1 Write the {word} file\n- [{box}] {n}.2 Check the {word} file\n"
        )
    return "".join(parts)
