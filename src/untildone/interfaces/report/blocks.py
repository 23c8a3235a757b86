"""What a page is made of, in no markup: texts, tables and plots."""

from untildone.domain.value import dataclass

# How many rows of one table, and bars of one plot, a page has at most.
MOST_ROWS = 200
FIRST_ROWS = 50
MOST_BARS = 60


@dataclass(frozen=True, slots=True)
class Code:
    """Something to be typed or looked up, shown letter by letter."""

    text: str


Cell = str | Code


@dataclass(frozen=True, slots=True)
class Heading:
    """The begin of a section."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; columns in `numbers` are set to the right. `note` says what is left out."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numbers: frozenset[int] = frozenset()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar: how much, of what kind, and what it is in words."""

    value: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A labelled bar made of segments; `shown` is its sum for people."""

    label: str
    segments: tuple[Segment, ...]
    shown: str

    @property
    def value(self) -> float:
        """The whole bar."""
        return sum(segment.value for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Bars:
    """A plot of stacked bars on one scale."""

    title: str
    bars: tuple[Bar, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something on a time line, from and to in seconds since its begin."""

    start: float
    end: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Lanes:
    """A plot of marks on labelled time lines of one length."""

    title: str
    seconds: float
    lanes: tuple[tuple[str, tuple[Mark, ...]], ...]
    shown: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Legend:
    """What the kinds of segments and marks mean."""

    names: tuple[tuple[str, str], ...]


Block = Heading | Text | Table | Bars | Lanes | Legend


@dataclass(frozen=True, slots=True)
class Page:
    """A title and what follows."""

    title: str
    blocks: tuple[Block, ...]


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
