"""The picture of docs/concepts.md: the way of one story, drawn as SVG.

`python -m tests.docs.diagram` writes it again.
"""

from html import escape
from pathlib import Path

TARGET = Path(__file__).parents[2] / "docs" / "images" / "loop.svg"
WIDTH, HEIGHT = 784, 432
BOX_W, BOX_H = 168, 60
INK, PAPER, LINE = "#1c2430", "#ffffff", "#5b6b7f"
PLAIN, GOOD, BAD = "#eef2f7", "#dff3e4", "#fbe3e3"
COLUMNS = (20, 296, 572)
ROWS = (24, 132, 240, 348)

# Where each box stands, its colour and its lines.
BOXES = {
    "story": (0, 0, PLAIN, ("next open story",)),
    "call": (1, 0, PLAIN, ("one agent call", "for this story alone")),
    "promise": (1, 1, PLAIN, ("the agent says", "COMPLETE?")),
    "checks": (1, 2, PLAIN, ("the loop runs the", "checks: all pass?")),
    "commit": (0, 2, GOOD, ("one commit,", "boxes ticked")),
    "back": (2, 1, BAD, ("attempt stored,", "files put back")),
    "left": (2, 0, PLAIN, ("retries left?",)),
    "stuck": (2, 3, BAD, ("stuck or parked,", "you are told why")),
    "done": (0, 3, GOOD, ("all done:", "cleanup, keep or pr")),
}
# From, to, the sides, the word beside the arrow.
ARROWS = (
    ("story", "call", "right left", ""),
    ("call", "promise", "bottom top", ""),
    ("promise", "checks", "bottom top", "yes"),
    ("checks", "commit", "left right", "yes"),
    ("commit", "story", "top bottom", "more stories"),
    ("commit", "done", "bottom top", "none left"),
    ("promise", "back", "right left", "no"),
    ("checks", "back", "right bottom", "no"),
    ("back", "left", "top bottom", ""),
    ("left", "call", "left right", "yes"),
    ("left", "stuck", "outside outside", "no"),
)


def corner(name: str) -> tuple[int, int]:
    column, row, _, _ = BOXES[name]
    return COLUMNS[column], ROWS[row]


def side(name: str, which: str) -> tuple[int, int]:
    """The middle of one side of a box."""
    x, y = corner(name)
    return {
        "top": (x + BOX_W // 2, y),
        "bottom": (x + BOX_W // 2, y + BOX_H),
        "left": (x, y + BOX_H // 2),
        "right": (x + BOX_W, y + BOX_H // 2),
        "outside": (x + BOX_W, y + BOX_H // 2),
    }[which]


def box(name: str) -> str:
    x, y = corner(name)
    _, _, color, lines = BOXES[name]
    top = y + BOX_H / 2 + 5 - 9 * (len(lines) - 1)
    words = "".join(
        f'<text x="{x + BOX_W / 2:g}" y="{top + 18 * at:g}">{escape(line)}</text>'
        for at, line in enumerate(lines)
    )
    shape = f'<rect x="{x}" y="{y}" width="{BOX_W}" height="{BOX_H}" rx="8" fill="{color}"/>'
    return shape + words


def arrow(start: str, end: str, sides: str, word: str) -> str:
    first, _, second = sides.partition(" ")
    (x, y), (to_x, to_y) = side(start, first), side(end, second)
    if first == "outside":  # round the boxes between
        path, word_x, word_y = f"M{x} {y}H{x + 24}V{to_y}H{to_x + 3}", x + 12, y - 7
    elif second == "bottom" and first == "right":
        path, word_x, word_y = f"M{x} {y}H{to_x}V{to_y + 3}", x + 24, y - 7
    elif y == to_y:
        path = f"M{x} {y}H{to_x - 3 if to_x > x else to_x + 3}"
        word_x, word_y = (x + to_x) // 2, y - 7
    else:
        path = f"M{x} {y}V{to_y - 3 if to_y > y else to_y + 3}"
        word_x, word_y = x + 8 + 4 * len(word), (y + to_y) // 2 + 5
    text = f'<text x="{word_x}" y="{word_y}" fill="{LINE}">{escape(word)}</text>' if word else ""
    line = f'fill="none" stroke="{LINE}" stroke-width="1.5" marker-end="url(#end)"'
    return f'<path d="{path}" {line}/>{text}'


def drawn() -> str:
    """The whole picture: no script, no font and no address outside of it."""
    boxes = "\n".join(box(name) for name in BOXES)
    arrows = "\n".join(arrow(*each) for each in ARROWS)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="The way of one story">\n'
        f'<marker id="end" markerWidth="8" markerHeight="8" refX="5" refY="4" orient="auto">'
        f'<path d="M0 0L8 4L0 8Z" fill="{LINE}"/></marker>\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{PAPER}"/>\n'
        f'<g font-family="system-ui, sans-serif" font-size="14" text-anchor="middle" '
        f'fill="{INK}">\n{arrows}\n{boxes}\n</g>\n</svg>\n'
    )


if __name__ == "__main__":
    TARGET.write_text(drawn(), encoding="utf-8")
