"""A session database of an agent, opened for reading only."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

PATIENCE_S = 2.0


def rows(path: Path, query: str) -> Iterator[Any]:
    """The rows of a query; a database that cannot be read, or has other tables, is an OSError."""
    import sqlite3  # noqa: PLC0415 - few need it

    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE_S)
        try:
            connection.row_factory = sqlite3.Row
            yield from connection.execute(query)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise OSError(f"{path}: {error}") from error


def roots(parents: dict[str, str]) -> dict[str, str]:
    """The first session above each; a sub-agent's session belongs to the one that called it."""
    found = {}
    for session in parents:
        top, seen = session, {session}
        while (above := parents.get(top, "")) and above not in seen:
            seen.add(above)
            top = above
        found[session] = top
    return found
