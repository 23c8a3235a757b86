"""Raw output on disk as it came: the bytes in the log, and beside it when each piece arrived."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.clock import monotonic
from untildone.plain_files import opened, read_text

LOG_LIMIT = 2 * 1024**3
CUT = b"\n[untildone: the rest of the output is not stored]\n"
OUT, ERR = "o", "e"


class Piece(Struct, frozen=True):
    """Some bytes of a call in its log: when they came, of which stream (`o` or `e`), where."""

    after_ms: int
    stream: str
    at: int
    size: int


class Recorded(Struct, frozen=True):
    """One call: when it was asked, and its pieces in order. `whole` unless a bound cut it."""

    log_file: Path
    asked: datetime | None
    pieces: list[Piece]
    whole: bool = True

    def played(self) -> Iterator[tuple[Piece, bytes]]:
        with opened(self.log_file) as log:
            for piece in self.pieces:
                log.seek(piece.at)
                yield piece, log.read(piece.size)


class Recording:
    """Writes one call; a bound keeps a flood from filling the disk.

    Several calls may share a log: one that ended at a limit is made again under its number.
    """

    def __init__(self, log_file: str, asked: datetime | None) -> None:
        self._log, self._times = (
            opened(name, "ab", 0, private=True) for name in (log_file, times_of(log_file))
        )
        self._left = LOG_LIMIT - self._log.tell()
        self._began = monotonic()
        self._times.write(f"= {asked.isoformat() if asked else ''}\n".encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()
        self._times.close()

    def out(self, chunk: bytes) -> None:
        self._write(OUT, chunk)

    def err(self, chunk: bytes) -> None:
        self._write(ERR, chunk)

    def _write(self, stream: str, chunk: bytes) -> None:
        if self._left <= 0:
            return
        self._log.write(chunk)
        after = int((monotonic() - self._began) * 1000)
        self._times.write(f"{after} {stream} {len(chunk)}\n".encode())
        self._left -= len(chunk)
        if self._left <= 0:
            self._log.write(CUT)
            self._times.write(b"!\n")


def times_of(log_file: str) -> str:
    """The file beside a log that says when its pieces came."""
    return f"{log_file}.times"


def recorded(log_file: Path) -> list[Recorded]:
    """The calls of a log in order; none where the times were not kept."""
    calls: list[Recorded] = []
    at = 0
    for line in _lines(times_of(str(log_file))):
        match line.split():
            case ["=", *moment]:
                asked = datetime.fromisoformat(moment[0]) if moment else None
                calls.append(Recorded(log_file, asked, []))
            case ["!"] if calls:
                calls[-1] = replace(calls[-1], whole=False)
                at += len(CUT)
            case [after, stream, size] if calls:
                calls[-1].pieces.append(Piece(int(after), stream, at, int(size)))
                at += int(size)
            case _:
                continue  # torn by a crash
    return calls


def _lines(path: str) -> list[str]:
    try:
        return read_text(Path(path)).splitlines()
    except OSError:
        return []
