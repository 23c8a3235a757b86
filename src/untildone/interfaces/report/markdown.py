"""A page as Markdown; nothing of a run can act as markup in it."""

import re
from typing import assert_never

from untildone.domain.plain_text import plain
from untildone.domain.regex import regex
from untildone.interfaces.report.blocks import (
    Bar,
    Bars,
    Block,
    Cell,
    Code,
    Detail,
    Heading,
    Lanes,
    Legend,
    Mark,
    Page,
    Table,
    Text,
    spans,
)

WIDTH = 40
MARKS = {"kept": "█", "failed": "░", "limit": "▒", "open": "·"}
FENCE = "```"
# What can begin or end markup within a line; `.` and `#` only matter where a line begins.
_MARKUP = regex(r"([\\`*_\[\]|~])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
# What a forge would act on: it mentions a person, or names an issue, which may be closed by it. In
# the message of a merge, too, where nothing is quoted: so it is a character that nobody sees.
_REFERENCE = regex(
    r"(?i)((?<![a-z0-9_])@(?=\w)|[#!&](?=\d)|\bgh-(?=\d)"
    r"|/(?:issues|pull|pulls|discussions|merge_requests|work_items|epics)/(?=\d))"
)
_UNSEEN = "\u200b"


def markdown(page: Page) -> str:
    return f"# {inline(page.title)}\n\n{without_title(page)}"


def without_title(page: Page) -> str:
    """Only what is below the title."""
    parts = (_block(block) for block in page.blocks)
    return "\n\n".join(part for part in parts if part) + "\n"


def inline(cell: Cell) -> str:
    """Text of one line with everything quoted that Markdown or HTML would obey."""
    flat = Code(_flat(cell.text)) if isinstance(cell, Code) else _flat(cell)
    return "".join(_piece(piece) for piece in spans(flat))


def _piece(piece: Cell) -> str:
    text = piece.text if isinstance(piece, Code) else piece
    if isinstance(piece, Code) and text and "`" not in text:
        return f"`{text}`".replace("|", "\\|")  # a bar would end the cell of a table
    text = _MARKUP.sub(r"\\\1", _without_references(text))
    return re.sub("[&<>]", lambda found: _ENTITIES[found[0]], text)


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {inline(block.text)}"
        case Detail():
            return _detail(block) if block.as_text else ""
        case Text():
            return " ".join(inline(cell) for cell in block.cells)
        case Table():
            return _table(block)
        case Bars():
            return _bars(block)
        case Legend():
            return ", ".join(f"{MARKS[kind]} {inline(name)}" for kind, name in block.names)
        case Lanes():
            return _lanes(block) if block.as_text else ""
        case _:
            assert_never(block)


def _detail(block: Detail) -> str:
    rows = [_without_references(plain(row)).rstrip() for row in block.text.split("\n")]
    longest = max((len(run) for row in rows for run in re.findall("`+", row)), default=0)
    fence = "`" * max(len(FENCE), longest + 1)
    return "\n".join([f"{inline(block.title)}:", "", f"{fence}text", *rows, fence])


def _table(table: Table) -> str:
    rule = ["---:" if k in table.numbers else "---" for k in range(len(table.head))]
    rows = [[inline(cell) for cell in row] for row in (table.head, *table.rows)]
    lines = [f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:])]
    return "\n".join([*lines, *(["", inline(table.note)] if table.note else [])])


def _bars(plot: Bars) -> str:
    most = max((bar.value for bar in plot.bars), default=0) or 1
    labels = [_without_references(_flat(bar.label)).replace(FENCE, "'''") for bar in plot.bars]
    width = max(map(len, labels), default=0)
    rows = [
        f"{label:<{width}}  {_drawn(bar, most)} {bar.shown}"
        for label, bar in zip(labels, plot.bars, strict=True)
    ]
    note = f"\n\n{inline(plot.note)}" if plot.note else ""
    return "\n".join([f"{inline(plot.title)}:", "", f"{FENCE}text", *rows, FENCE]) + note


def _lanes(plot: Lanes) -> str:
    width = max(len(label) for label, _ in plot.lanes)
    rows = [f"{label:<{width}}  {_marked(marks, plot.seconds)}" for label, marks in plot.lanes]
    rows.append(f"{'':<{width}}  0{plot.shown:>{WIDTH - 1}}")
    return "\n".join([f"{inline(plot.title)}:", "", f"{FENCE}text", *rows, FENCE])


def _marked(marks: tuple[Mark, ...], seconds: float) -> str:
    """A line of time; each mark is there, however short."""
    cells = [" "] * WIDTH
    for mark in marks:
        first, last = (
            min(round(WIDTH * at / (seconds or 1)), WIDTH) for at in (mark.start, mark.end)
        )
        first = min(first, WIDTH - 1)
        for k in range(first, max(last, first + 1)):
            cells[k] = MARKS[mark.kind]
    return "".join(cells).rstrip()


def _drawn(bar: Bar, most: float) -> str:
    """Every segment ends where the sum so far does, so that the whole bar is as long as it was."""
    text, so_far = "", 0.0
    for segment in bar.segments:
        so_far += segment.value
        text += MARKS[segment.kind] * (round(WIDTH * so_far / most) - len(text))
    return text


def _without_references(text: str) -> str:
    return _REFERENCE.sub(rf"\1{_UNSEEN}", text)


def _flat(text: str) -> str:
    return " ".join(plain(text).split())
