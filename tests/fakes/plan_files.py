"""The one file of a source in memory, as bytes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tests.fakes.source import PATH, FakeSource


class FakePlanFiles:
    """Reads and writes the text of a source."""

    def __init__(self, source: FakeSource) -> None:
        self._source = source

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        text = self._source.text
        return {PATH: text.encode()} if text is not None and PATH in set(paths) else {}

    def write(self, path: str, data: bytes | None) -> None:
        assert path == PATH
        self._source.text = None if data is None else data.decode()

    @contextmanager
    def held(self) -> Iterator[None]:
        yield
