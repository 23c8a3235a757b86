"""Output as lines, a line as one JSON object, and values of it whose shape nobody guarantees."""

import json
from collections.abc import Iterator, Mapping

from untildone.domain.plain_text import plain

LINE_BYTES = 16 * 1024 * 1024
DETAIL_CHARS = 200
_DETAILS = (
    *("file_path", "filePath", "notebook_path", "path", "command", "cmd"),
    *("pattern", "url", "query", "description", "prompt"),
)


class Lines:
    """Cuts bytes into lines; a line over the bound is dropped as it comes."""

    def __init__(self) -> None:
        self.dropped = 0
        self._open = bytearray()
        self._dropping = False

    def split(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that end in this chunk."""
        if b"{" not in chunk and b"\n" in chunk:
            # No object begins in here: only the ends can belong to one.
            chunk = chunk[: chunk.find(b"\n") + 1] + chunk[chunk.rfind(b"\n") + 1 :]
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            self._grow(piece)
            yield from self.rest()
        self._grow(rest)

    def rest(self) -> Iterator[bytes]:
        """The line so far, as if it ended here."""
        line = bytes(self._open)
        self._open.clear()
        self._dropping = False
        if line:
            yield line

    def _grow(self, piece: bytes) -> None:
        if self._dropping:
            return
        self._open += piece
        if len(self._open) > LINE_BYTES:
            self._open = bytearray()
            self._dropping = True
            self.dropped += 1


def parsed(line: bytes) -> Mapping[str, object]:
    """The object on this line; empty when there is none."""
    if b"{" not in line:
        return {}
    try:
        event: object = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):  # a line of brackets is too deep for the parser
        return {}
    return table(event)


def table(value: object) -> Mapping[str, object]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def tables(value: object) -> list[Mapping[str, object]]:
    """The objects of a list."""
    return [table(item) for item in value] if isinstance(value, list) else []


def string(value: object) -> str:
    """The value if it is text, else nothing."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """The value if it is a whole number above zero, else zero."""
    return max(value, 0) if isinstance(value, int) else 0


def amount(value: object) -> float | None:
    """The value if it is a number."""
    return float(value) if isinstance(value, int | float) else None


def short(value: object) -> str:
    """Text on one line, cut with a mark."""
    text = " ".join(plain(string(value)[: 20 * DETAIL_CHARS]).split())
    return text if len(text) <= DETAIL_CHARS else text[: DETAIL_CHARS - 1] + "…"


def detail(arguments: object) -> str:
    """What a tool was called with, in one short line."""
    given = table(arguments)
    return next((found for key in _DETAILS if (found := short(given.get(key)))), "")
