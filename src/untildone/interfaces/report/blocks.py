"""What a page is made of, in no markup: texts, tables and plots."""

from msgspec import Struct

from untildone.domain.regex import regex

# How many rows of one table, and bars of one plot, a page has at most.
MOST_ROWS = 200
FIRST_ROWS = 50
MOST_BARS = 60


# What is marked as code within a text; a run of several backticks marks nothing.
_SPAN = regex(r"(?<!`)`([^`\n]+)`(?!`)")


class Code(Struct, frozen=True):
    """Something to be typed or looked up, shown letter by letter."""

    text: str


Cell = str | Code


class Heading(Struct, frozen=True):
    """The begin of a section."""

    text: str
    level: int = 2


class Text(Struct, frozen=True):
    """A paragraph."""

    cells: tuple[Cell, ...]


class Table(Struct, frozen=True):
    """Rows of cells; columns in `numbers` are set to the right. `note` says what is left out."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numbers: frozenset[int] = frozenset()
    note: str = ""


class Segment(Struct, frozen=True):
    """A part of a bar: how much, of what kind, and what it is in words."""

    value: float
    kind: str
    title: str


class Bar(Struct, frozen=True):
    """A labelled bar made of segments; `shown` is its sum for people."""

    label: str
    segments: tuple[Segment, ...]
    shown: str

    @property
    def value(self) -> float:
        return sum(segment.value for segment in self.segments)


class Bars(Struct, frozen=True):
    """A plot of stacked bars on one scale."""

    title: str
    bars: tuple[Bar, ...]
    note: str = ""


class Mark(Struct, frozen=True):
    """Something on a time line, from and to in seconds since its begin."""

    start: float
    end: float
    kind: str
    title: str


class Lanes(Struct, frozen=True):
    """A plot of marks on labelled time lines of one length.

    `as_text`: no table says the same, so that it is drawn in Markdown, too.
    """

    title: str
    seconds: float
    lanes: tuple[tuple[str, tuple[Mark, ...]], ...]
    shown: str
    note: str = ""
    as_text: bool = False


class Legend(Struct, frozen=True):
    """What the kinds of segments and marks mean."""

    names: tuple[tuple[str, str], ...]


class Detail(Struct, frozen=True):
    """A text as it is, line by line, folded away under its title where that is possible.

    `as_text`: short enough for Markdown, where all of it is seen.
    """

    title: str
    text: str
    as_text: bool = True


Block = Heading | Detail | Text | Table | Bars | Lanes | Legend


class Page(Struct, frozen=True):
    """A title and what follows."""

    title: str
    blocks: tuple[Block, ...]


def spans(cell: Cell) -> tuple[Cell, ...]:
    """A cell in pieces: what stands between backticks is something to be typed or looked up."""
    if isinstance(cell, Code):
        return (cell,)
    pieces = _SPAN.split(cell)
    return tuple(Code(text) if k % 2 else text for k, text in enumerate(pieces) if text)


def bounded(
    head: tuple[str, ...], rows: list[tuple[Cell, ...]], numbers: frozenset[int] = frozenset()
) -> Table:
    """A table that is no longer than a page can bear, and says so."""
    if len(rows) <= MOST_ROWS:
        return Table(head, tuple(rows), numbers)
    left = len(rows) - MOST_ROWS
    shown = (*rows[:FIRST_ROWS], *rows[FIRST_ROWS + left :])
    note = (
        f"{left} of {len(rows)} rows are left out after the first {FIRST_ROWS}; `--json` has all."
    )
    return Table(head, shown, numbers, note)
