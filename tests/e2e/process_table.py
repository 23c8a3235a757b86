"""The processes of this machine."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def process_stats() -> dict[int, tuple[int, str, int]]:
    """Parent, state and processor time of every process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            rest = path.read_text().rpartition(")")[2].split()
            found[int(path.parent.name)] = int(rest[1]), rest[0], int(rest[11]) + int(rest[12])
    return found


def command_lines() -> Iterator[tuple[int, list[str]]]:
    """All processes with their arguments; zombies have none."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                argv = (folder / "cmdline").read_bytes().decode(errors="replace")
                if argv:
                    yield int(folder.name), argv.rstrip("\0").split("\0")
