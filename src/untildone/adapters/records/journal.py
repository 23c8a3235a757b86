"""The run's append-only log: facts that a new process replays, and the events all windows show."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import IO

from msgspec import ValidationError
from msgspec.json import decode

from untildone.adapters.records import codec
from untildone.adapters.records.durable import sync_folder
from untildone.domain.reporting.event import Event
from untildone.domain.run import fact as facts
from untildone.plain_files import opened

# Without these a crash could repeat paid work or lose track of refs; the rest may ride along.
DURABLE = (
    facts.Started,
    facts.Opened,
    facts.AttemptStarted,
    facts.AttemptEnded,
    facts.Saved,
    facts.LandIntended,
    facts.Landed,
    facts.Requeued,
    facts.Reverted,
    facts.ChoiceMade,
    facts.Closed,
    facts.Resumed,
    facts.TakenBack,
    facts.StoryUndone,
)
BLOCK = 1024 * 1024
KINDS = {kind.__name__: kind for kind in facts.Fact.__args__}


class Journal:
    """Appends to one file; numbers the events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None
        self._seq = max((_seq(row) for row in events(path)), default=0) if path.exists() else 0

    def record(
        self, fact: facts.Fact, published: tuple[Event, ...], at: datetime
    ) -> tuple[dict[str, object], ...]:
        """Write a fact and its events together; return the event objects as they were written."""
        row = {
            "v": 1,
            "at": codec.stamp(at),
            "fact": type(fact).__name__,
            "data": codec.encode(fact),
        }
        objects = tuple(self._number(event, at) for event in published)
        self._append([row, *objects], sync=isinstance(fact, DURABLE))
        return objects

    def note(self, event: Event, at: datetime) -> dict[str, object]:
        """Write an event that changes nothing."""
        numbered = self._number(event, at)
        self._append([numbered], sync=False)
        return numbered

    def close(self) -> None:
        """Sync and let go of the file."""
        if self._file:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def _number(self, event: Event, at: datetime) -> dict[str, object]:
        self._seq += 1
        encoded = codec.encode(dict(event.data))
        assert isinstance(encoded, dict)
        return {"v": 1, "seq": self._seq, "at": codec.stamp(at), "event": event.name} | encoded

    def _append(self, rows: list[dict[str, object]], *, sync: bool) -> None:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = opened(self.path, "ab", private=True)
            _end_torn_line(self._file, self.path)
            sync_folder(self.path.parent)
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        # An agent's text may hold half a surrogate pair, which UTF-8 cannot.
        self._file.write(text.encode("utf-8", "replace"))
        self._file.flush()
        if sync:
            os.fsync(self._file.fileno())


def replayed(path: Path) -> Iterator[tuple[facts.Fact, datetime]]:
    """The facts of a run in order; a torn last line (power loss) is skipped."""
    for row in _rows(path):
        if fact := fact_of(row):
            yield fact, datetime.fromisoformat(str(row["at"]))


def fact_of(row: dict[str, object]) -> facts.Fact | None:
    """The fact in a line; None in that of an event, of a release that knew more, or damaged."""
    kind = KINDS.get(str(row.get("fact")))
    if kind is None:
        return None
    try:
        fact: facts.Fact = codec.decode(kind, row.get("data"))
    except (ValidationError, ValueError):
        return None
    return fact


def facts_and_events(
    path: Path, wanted: tuple[str, ...], hide: Callable[[bytes], bytes]
) -> Iterator[tuple[facts.Fact | Event, datetime]]:
    """Facts and the wanted events in order, after `hide` has redacted what must not be shown."""
    marks = tuple(f'"event": "{name}"'.encode() for name in wanted)
    with opened(path) as file:
        rows = [row for row in file if b'"event": ' not in row or any(m in row for m in marks)]
    for row in parsed(hide(b"".join(rows)).splitlines()):
        at = datetime.fromisoformat(str(row["at"]))
        if row.get("event") in wanted:
            yield Event(str(row["event"]), row), at
        elif fact := fact_of(row):
            yield fact, at


class Tail:
    """A journal that another process writes: each line once, also after it was moved or removed."""

    def __init__(self, path: Path) -> None:
        self._file = opened(path)
        self._torn = b""

    def events(self) -> list[dict[str, object]]:
        """Those since the last call."""
        return [row for row in self.rows() if "event" in row]

    def rows(self, hide: Callable[[bytes], bytes] = bytes) -> Iterator[dict[str, object]]:
        """Facts and events since the last call; a line that is being written waits for its end."""
        while data := self._file.read(BLOCK):
            whole, end, self._torn = (self._torn + data).rpartition(b"\n")
            if end:
                yield from parsed(hide(whole).split(b"\n"))

    def close(self) -> None:
        self._file.close()


def events(path: Path) -> Iterator[dict[str, object]]:
    return (row for row in _rows(path) if "event" in row)


def _rows(path: Path) -> Iterator[dict[str, object]]:
    with opened(path) as file:
        yield from parsed(file)


def parsed(lines: Iterable[bytes]) -> Iterator[dict[str, object]]:
    """The lines that are whole; one that is torn or damaged is as if it were not there."""
    for line in lines:
        try:
            row = _decoded(line)
            datetime.fromisoformat(str(row["at"]))
        except (ValueError, RecursionError, KeyError, TypeError):
            continue
        if "event" not in row or (type(row["event"]) is str and _seq(row)):
            yield row


def _decoded(line: bytes) -> dict[str, object]:
    found: dict[str, object]
    try:
        found = decode(line)
    except ValueError:  # Python also writes, and reads, NaN
        found = json.loads(line)
    return found


def _seq(row: dict[str, object]) -> int:
    found = row.get("seq")
    return found if type(found) is int else 0


def _end_torn_line(file: IO[bytes], path: Path) -> None:
    # A line torn by a crash must not swallow the next one.
    size = path.stat().st_size
    if size:
        with opened(path) as reader:
            reader.seek(size - 1)
            if reader.read(1) != b"\n":
                file.write(b"\n")
