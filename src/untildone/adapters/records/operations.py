"""The log of everything that we change in a repository: where all stood before and after."""

import contextlib
import json
import os
from pathlib import Path

from msgspec import Struct, field, to_builtins


class RepoState(Struct, frozen=True):
    """HEAD (a ref, or a bare commit), the refs that count, the files as a commit, the index.

    `index` names a copy in the run's folder; without one the index is as HEAD has it. `beside`
    are files that stay out of git: what holds their bytes, below the folder of all runs.
    """

    head: str
    refs: dict[str, str]
    files: str
    index: str = ""
    beside: dict[str, str] = field(default_factory=dict)


class Operation(Struct, frozen=True):
    """One change of ours. `facts`: how many facts the run's journal had, if it was set back."""

    name: str
    change: str
    run_id: str
    before: RepoState
    after: RepoState
    facts: int = -1


class OperationLog(Struct, frozen=True):
    """Appended to before an operation is carried out, so that none is ever missing."""

    home: Path
    _name: str = field(default="operations.jsonl")

    @property
    def path(self) -> Path:
        """The file, one operation a line."""
        return self.home / self._name

    def add(self, operation: Operation) -> None:
        """Write down what is about to happen; without a repository there is nothing to undo."""
        line = os.fsencode(json.dumps(to_builtins(operation), ensure_ascii=False) + "\n")
        with contextlib.suppress(FileNotFoundError), self.path.open("ab") as file:
            file.write(line)

    def all(self) -> list[Operation]:
        """All operations in order; a line torn by a crash is skipped."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        return [found for line in lines if (found := _read(line))]


def _read(line: bytes) -> Operation | None:
    try:
        data = json.loads(os.fsdecode(line))
        before, after = RepoState(**data.pop("before")), RepoState(**data.pop("after"))
        return Operation(**data, before=before, after=after)
    except (ValueError, TypeError, KeyError):
        return None
