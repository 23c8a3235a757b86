"""A page as one self-contained HTML file: no script, no network, dark or light, fit to print."""

from html import escape
from typing import assert_never

from untildone.domain.plain_text import plain
from untildone.interfaces.report import svg
from untildone.interfaces.report.blocks import (
    Bars,
    Block,
    Cell,
    Code,
    Detail,
    Heading,
    Lanes,
    Legend,
    Page,
    Table,
    Text,
    spans,
)

STYLE = """\
:root { color-scheme: light dark; --text: #1c1f23; --back: #fff; --soft: #6a727d; --line: #dfe3e8;
  --head: #f5f7f9; --kept: #2a8c55; --failed: #d1453b; --limit: #9aa1ab; --open: #3b7dd8; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7eb; --back: #16181c; --soft: #9aa1ab;
  --line: #343a42; --head: #1f2329; --kept: #43b878; --failed: #e8655c; --limit: #737b86;
  --open: #6aa5f0; } }
body { margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: var(--text);
  background: var(--back); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
code { font: 13px/1.4 ui-monospace, monospace; background: var(--head); padding: 0 .25em;
  border-radius: 3px; overflow-wrap: break-word; }
.wide, pre { overflow-x: auto; }
pre { font: 13px/1.4 ui-monospace, monospace; background: var(--head); padding: .6rem;
  border-radius: 3px; tab-size: 4; } summary { cursor: pointer; padding: .25rem 0; }
p { overflow-wrap: anywhere; }
table { border-collapse: collapse; font-size: 14px; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left;
  vertical-align: top; }
th { background: var(--head); white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.note, figcaption, .legend { color: var(--soft); font-size: 14px; }
figure { margin: 1rem 0; } svg { max-width: 760px; min-width: 36rem; width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--text); }
svg .end { text-anchor: end; } svg .axis { fill: var(--soft); } .rule { stroke: var(--line); }
.kept { fill: var(--kept); color: var(--kept); }
.failed { fill: var(--failed); fill-opacity: .3; color: var(--failed); stroke: var(--failed); }
.limit { fill: none; color: var(--limit); stroke: var(--limit); stroke-dasharray: 3 2; }
.open { fill: none; color: var(--open); stroke: var(--open); }
@media screen and (max-width: 40rem) { body { margin: 1rem auto; padding: 0 .75rem; }
  h1 { font-size: 1.35rem; } svg { min-width: 0; } svg text { font-size: 22px; }
  svg .more { display: none; } td { overflow-wrap: anywhere; }
  .cards, .cards tbody { display: block; }
  .cards thead, .cards td:empty { display: none; }
  .cards tr { display: flex; flex-wrap: wrap; gap: 0 .9rem; padding: .5rem 0;
    border-bottom: 1px solid var(--line); }
  .cards td { display: grid; grid-template-columns: 5rem 1fr; flex: 1 1 100%; border: 0;
    padding: .1rem 0; text-align: left; }
  .cards .number { grid-template-columns: auto auto; gap: .35rem; flex: 0 0 auto; }
  .cards td::before { content: attr(data-of); color: var(--soft); } }
@media print { :root { color-scheme: light; } body { margin: 0; max-width: none; font-size: 11px; }
  .wide { overflow: visible; } tr, figure { break-inside: avoid-page; }
  .number { white-space: normal; } table, code, .note, figcaption, .legend { font-size: 10px; }
  th, td { padding: .2rem .35rem; white-space: normal; } td code { overflow-wrap: anywhere; }
  td:has(code) { min-width: 7rem; } svg { min-width: 0; } }
"""

MOST_COLUMNS = 2
_CARDS = ' class="cards"'
# Kinds differ by more than colour: not every eye and no printer tells red from green.
LEGEND_MARKS = {"kept": "■", "failed": "▨", "limit": "⬚", "open": "□"}


def html(page: Page) -> str:
    title = svg.text(page.title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{title}</h1>\n{body(page)}\n</body>\n</html>\n"
    )


def body(page: Page) -> str:
    """What stands below its title, for a page with a style of its own."""
    return "\n".join(_block(block) for block in page.blocks)


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"<h{block.level}>{svg.text(block.text)}</h{block.level}>"
        case Detail():
            title, text = svg.text(block.title), _lines(block.text)
            return f"<details><summary>{title}</summary>\n<pre>{text}</pre></details>"
        case Text():
            return f"<p>{' '.join(_cell(cell) for cell in block.cells)}</p>"
        case Table():
            return _table(block)
        case Bars():
            return _figure(block.title, svg.bars(block), block.note)
        case Lanes():
            return _figure(block.title, svg.lanes(block), block.note)
        case Legend():
            return f'<p class="legend">{" ".join(_named(*pair) for pair in block.names)}</p>'
        case _:
            assert_never(block)


def _lines(text: str) -> str:
    return "\n".join(escape(plain(row)) for row in text.split("\n"))


def _named(kind: str, name: str) -> str:
    return f'<span class="{kind}">{LEGEND_MARKS[kind]}</span> {svg.text(name)}'


def _cell(cell: Cell) -> str:
    return "".join(_piece(piece) for piece in spans(cell))


def _piece(piece: Cell) -> str:
    if isinstance(piece, Code):
        return f"<code>{svg.text(piece.text)}</code>" if piece.text else ""
    # The spaces around a piece of code are part of the text.
    before, after = (" " if space else "" for space in (piece[:1].isspace(), piece[-1:].isspace()))
    return f"{before}{svg.text(piece)}{after}" if piece.strip() else " "


def _table(table: Table) -> str:
    kinds = [' class="number"' if k in table.numbers else "" for k in range(len(table.head))]
    # A row with more cells than a phone has room for is a card there, and each cell says of what.
    cards = len(table.head) > MOST_COLUMNS
    names = [f' data-of="{svg.text(str(name))}"' if cards else "" for name in table.head]
    head = "".join(
        f"<th{kind}>{_cell(name)}</th>" for kind, name in zip(kinds, table.head, strict=True)
    )
    rows = "\n".join(_row(cells, kinds, names) for cells in table.rows)
    note = f'\n<p class="note">{svg.text(table.note)}</p>' if table.note else ""
    return (
        f'<div class="wide"><table{_CARDS if cards else ""}>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table></div>{note}"
    )


def _row(cells: tuple[Cell, ...], kinds: list[str], names: list[str]) -> str:
    shown = (
        f"<td{kind}{name}>{_whole(_cell(cell), name)}</td>"
        for kind, name, cell in zip(kinds, names, cells, strict=True)
    )
    return f"<tr>{''.join(shown)}</tr>"


def _whole(inner: str, name: str) -> str:
    """The pieces of a named cell stay together beside the name."""
    return f"<span>{inner}</span>" if name and inner else inner


def _figure(title: str, drawing: str, note: str) -> str:
    more = f" {svg.text(note)}" if note else ""
    caption = f"<figcaption>{svg.text(title)}.{more}</figcaption>"
    return f'<figure>\n{caption}\n<div class="wide">{drawing}</div>\n</figure>'
