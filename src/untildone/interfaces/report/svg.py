"""Plots as SVG: no script, no outside file, colours by class so that the page can be dark."""

from html import escape

from untildone.domain.plain_text import plain
from untildone.interfaces.report.blocks import Bar, Bars, Lanes, Mark

WIDTH = 760
LABEL = 190
SHOWN = 90
LENGTH = WIDTH - LABEL - SHOWN
ROW = 24
THICK = 16
LONGEST_LABEL = 26
THINNEST = 1.5


def bars(plot: Bars) -> str:
    """Stacked bars; every segment's width is its share of the longest bar."""
    most = max((bar.value for bar in plot.bars), default=0) or 1
    rows = [_bar(bar, k, most) for k, bar in enumerate(plot.bars)]
    return _svg(plot.title, len(plot.bars), rows)


def lanes(plot: Lanes) -> str:
    """Time lines; a mark is never thinner than the eye can see."""
    rows = []
    for k, (label, marks) in enumerate(plot.lanes):
        shapes = "".join(_mark(mark, k, plot.seconds or 1) for mark in marks)
        rows.append(_label(label, k) + _line(k) + shapes)
    ends = f'<text x="{LABEL}" y="{_y(len(plot.lanes)) + 12}" class="axis">0</text>'
    ends += (
        f'<text x="{LABEL + LENGTH}" y="{_y(len(plot.lanes)) + 12}" class="axis end">'
        f"{text(plot.shown)}</text>"
    )
    return _svg(plot.title, len(plot.lanes) + 1, [*rows, ends])


def text(content: str) -> str:
    """Anything as the text of an element or a quoted attribute, on one line."""
    return escape(" ".join(plain(content).split()), quote=True)


def _bar(bar: Bar, k: int, most: float) -> str:
    x, shapes = float(LABEL), ""
    for segment in bar.segments:
        width = LENGTH * segment.value / most
        shapes += (
            f'<rect class="{segment.kind}" x="{x:.2f}" y="{_y(k)}" width="{width:.2f}" '
            f'height="{THICK}"><title>{text(segment.title)}</title></rect>'
        )
        x += width
    shown = f'<text x="{x + 6:.2f}" y="{_y(k) + 12}">{text(bar.shown)}</text>'
    return _label(bar.label, k) + shapes + shown


def _mark(mark: Mark, k: int, seconds: float) -> str:
    x = LABEL + LENGTH * mark.start / seconds
    width = max(LENGTH * (mark.end - mark.start) / seconds, THINNEST)
    return (
        f'<rect class="{mark.kind}" x="{x:.2f}" y="{_y(k)}" width="{width:.2f}" '
        f'height="{THICK}"><title>{text(mark.title)}</title></rect>'
    )


def _line(k: int) -> str:
    y = _y(k) + THICK / 2
    return f'<line x1="{LABEL}" y1="{y}" x2="{LABEL + LENGTH}" y2="{y}" class="rule"/>'


def _label(label: str, k: int) -> str:
    short = label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"
    first, space, more = short.partition(" ")
    return (
        f'<text x="{LABEL - 8}" y="{_y(k) + 12}" class="end">{text(first)}'
        f'<tspan class="more">{space}{text(more)}</tspan><title>{text(label)}</title></text>'
    )


def _y(k: int) -> int:
    return 4 + k * ROW


def _svg(title: str, count: int, rows: list[str]) -> str:
    height = 8 + count * ROW
    body = "\n".join(rows)
    box = f"0 0 {WIDTH} {height}"
    return f'<svg viewBox="{box}" role="img" aria-label="{text(title)}">\n{body}\n</svg>'
