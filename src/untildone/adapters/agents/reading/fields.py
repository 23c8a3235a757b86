"""Values of a JSON object whose shape nobody guarantees."""

from collections.abc import Mapping

from untildone.domain.plain_text import plain

DETAIL_CHARS = 200
_DETAILS = (
    *("file_path", "filePath", "notebook_path", "path", "command", "cmd"),
    *("pattern", "url", "query", "description", "prompt"),
)


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
