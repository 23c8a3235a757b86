"""Lines of text on the screen, shown as they are: nothing in them is markup or a terminal's order.

Titles, reasons and what agents say come from outside. A piece of text has the name of a style,
which the theme makes a colour, and maybe an action for the mouse.
"""

from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len

from untildone.domain.plain_text import plain

STYLES = (
    *("good", "bad", "warn", "dim", "strong", "accent", "added", "removed"),
    *("found", "cursor", "key", "chosen", "bar"),
)
MOST_ENTRIES = 5_000
LONGEST = 4_000


class Part(NamedTuple):
    """A piece of a line."""

    text: str
    style: str = ""
    action: str = ""


Line = list[Part]


class Entry(NamedTuple):
    """A line of a text that is broken to the width of its pane; the gutter is not."""

    text: str
    style: str = ""
    gutter: str = ""


def clean(text: object) -> str:
    """One line of any text: nothing that a terminal obeys, no more than anybody reads."""
    return plain(str(text)[: LONGEST + 1]).expandtabs(4).replace("\n", " ")[:LONGEST]


def width_of(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def _head(text: str, width: int) -> str:
    """As much of a text as fits into so many cells."""
    if text.isascii():
        return text[:width]
    cells = 0
    for at, sign in enumerate(text):
        cells += cell_len(sign)
        if cells > width:
            return text[:at]
    return text


def fit(text: str, width: int) -> str:
    """A text that is too long ends after a word, with an ellipsis."""
    if width_of(text) <= width:
        return text
    head = _head(text, max(width - 1, 0))
    space = head.rfind(" ") if text[len(head) : len(head) + 1] != " " else len(head)
    return f"{head[:space] if space > width // 2 else head}".rstrip() + "…"[:width]


def shortened(text: str, width: int) -> str:
    """A sentence that is too long loses its last clauses first."""
    while width_of(text) > width:
        end = max(text.rfind(", "), text.rfind(" ("))
        if end < 1:
            return fit(text, width)
        text = text[:end]
    return text


def column(text: str, width: int) -> str:
    """A text in a column of its own, on the left."""
    shown = fit(text, width)
    return shown + " " * (width - width_of(shown))


def wrapped(text: str, width: int) -> Iterator[str]:
    """Rows broken at spaces; what goes on is as far to the right as the text began."""
    indent = text[: min(len(text) - len(text.lstrip()), width // 2)]
    while width_of(text) > width:
        head = _head(text, width)
        space = head.rfind(" ") if text[len(head)] != " " else len(head)
        at = space if space > len(indent) else max(len(head), len(indent) + 1)
        yield text[:at].rstrip()
        text = indent + text[at:].lstrip()
    yield text


def cells(line: Line) -> int:
    return sum(width_of(part.text) for part in line)


def apart(left: Line, right: Line, width: int) -> Line:
    """Both ends of a line."""
    return [*left, Part(" " * max(1, width - cells(left) - cells(right))), *right]
