"""Output as lines, and a line as one JSON object; memory stays bounded whatever comes."""

import json
from collections.abc import Iterator, Mapping

from untildone.adapters.agents.reading.fields import table

LINE_BYTES = 16 * 1024 * 1024


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
    except (ValueError, RecursionError):
        return {}
    return table(event)
