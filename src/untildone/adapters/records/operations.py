"""The log of everything that we change in a repository: where all stood before and after."""

import contextlib
import json
import os
from pathlib import Path

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import replace

from untildone.adapters.clock import local_time
from untildone.adapters.records.durable import replace_file, sync_folder
from untildone.plain_files import opened, read_bytes


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
    """One change of ours. `facts`: how many facts the run's journal had, if it was set back.

    `at` and `story` are for people: when, in local time, and for which story.
    """

    name: str
    change: str
    run_id: str
    before: RepoState
    after: RepoState
    facts: int = -1
    at: str = ""
    story: str = ""


class Begun(Struct, frozen=True):
    """An operation of a command that has not ended; of an undo also what it takes back."""

    operation: Operation
    undone: Operation | None = None


class OperationLog(Struct, frozen=True):
    """The loop appends before it carries an operation out, so that none is ever missing.

    Commands `begin` and `end` theirs: what a killed one has begun is finished by the next one.
    """

    home: Path
    _name: str = field(default="operations.jsonl")
    _begun: str = field(default="begun.json")

    @property
    def path(self) -> Path:
        """The file, one operation a line."""
        return self.home / self._name

    def add(self, operation: Operation) -> None:
        """Write down what is about to happen; without a repository there is nothing to undo."""
        data = to_builtins(operation) | {"at": local_time()}
        line = os.fsencode(json.dumps(data, ensure_ascii=False) + "\n")
        with contextlib.suppress(FileNotFoundError), opened(self.path, "ab") as file:
            file.write(line)

    def begin(self, begun: Begun) -> None:
        """From here on it is carried out, by this process or by the next command."""
        text = os.fsencode(json.dumps(to_builtins(begun), ensure_ascii=False))
        path = self.home / self._begun
        replace_file(path, [text], path.with_suffix(".draft"))
        sync_folder(self.home)

    def begun(self) -> Begun | None:
        """What a killed command has begun."""
        try:
            data = json.loads(os.fsdecode(read_bytes(self.home / self._begun)))
            return convert(data, Begun)
        except (OSError, ValueError):  # what cannot be read was not written by us
            return None

    def end(self, begun: Begun) -> None:
        """It came about."""
        # A command that was killed behind `add` has it in the log already; `at` is set there.
        if [replace(op, at="") for op in self.all()[-1:]] != [begun.operation]:
            self.add(begun.operation)
        self.drop()

    def drop(self) -> None:
        """Nothing came of it."""
        (self.home / self._begun).unlink(missing_ok=True)

    def all(self) -> list[Operation]:
        """All operations in order; a line torn by a crash is skipped."""
        try:
            lines = read_bytes(self.path).splitlines()
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
