"""The agents' records by agent; a format is loaded when something is to be read."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from untildone.domain.costs.call_prices import Spent


def entries(agent: str, path: Path) -> Iterator[Spent]:
    """The model calls of an agent's file; one that cannot be read is an OSError."""
    read: Callable[[Path], Iterator[Spent]] = import_module(
        f"untildone.adapters.sessions.{agent}"
    ).entries
    return read(path)
