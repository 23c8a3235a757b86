"""What stays ignored for the whole run, whatever an attempt does to ignore files."""

import os
from collections.abc import Sequence
from pathlib import Path

from untildone.adapters.git.object_files import content
from untildone.adapters.records.durable import replace_file


class Frozen:
    """A list of paths, and the same as an excludes file for git; both in the run's folder.

    The file spares git most of the work. The list decides: it holds against `!` rules of an
    attempt, and for names that an excludes file cannot say.
    """

    def __init__(self, folder: Path) -> None:
        self._list = folder / "frozen"
        self.excludes = folder / "excludes"
        self._paths: set[str] | None = None

    def begin(self, rules: bytes, entries: Sequence[str]) -> None:
        """The user's own rules, and what is ignored when the run begins."""
        self._list.write_bytes(os.fsencode("\0".join(entries)))
        self.excludes.write_bytes(b"\n".join([rules.rstrip(b"\n"), *_patterns(entries)]) + b"\n")
        self._paths = None

    def add(self, paths: Sequence[str]) -> None:
        """Files that are left alone from now on."""
        known = content(self._list)
        entries = [known] if known else []
        entries += [os.fsencode(path) for path in paths]
        self._replace(self._list, b"\0".join(entries))
        rules = b"\n".join([*_patterns(paths), b""])
        self._replace(self.excludes, content(self.excludes) + rules)
        self._paths = None

    def covers(self, path: str) -> bool:
        """Whether the path, or a folder above it, is left alone."""
        if self._paths is None:
            text = os.fsdecode(content(self._list))
            self._paths = {entry.rstrip("/") for entry in text.split("\0") if entry}
        parts = path.split("/")
        return any("/".join(parts[:k]) in self._paths for k in range(1, len(parts) + 1))

    def _replace(self, path: Path, data: bytes) -> None:
        replace_file(path, [data], path.with_suffix(".draft"))


def _patterns(paths: Sequence[str]) -> list[bytes]:
    return [os.fsencode(_as_pattern(path)) for path in paths if "\n" not in path]


def _as_pattern(path: str) -> str:
    escaped = "".join(f"\\{c}" if c in "\\*?[]!# " else c for c in path)
    return f"/{escaped}"
