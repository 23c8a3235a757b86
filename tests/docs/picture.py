"""The picture of the README: `untildone demo` in a real pseudo-terminal, drawn as SVG.

`python -m tests.docs.picture` writes it again. What it shows is one screen of the session, as a
terminal would show it, at the last moment when the fourth story is being worked on.
"""

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from html import escape
from itertools import groupby
from pathlib import Path

import pyte

TARGET = Path(__file__).parents[2] / "docs" / "images" / "run.svg"
COLUMNS, ROWS = 100, 58
CELL_W, CELL_H, FONT = 8.0, 18, 13
MARGIN, TOP = 16, 40
SHOWN = "3 of 4 stories"
ATTEMPT = "iteration 7: story 4"
OVER = "iteration 7: complete"
QUESTION = b"cleanup, keep or later?"
INK, PAPER, BAR = "#d6deeb", "#10151e", "#1c2430"
COLORS = {
    "default": INK,
    "red": "#ff6b6b",
    "green": "#7bd88f",
    "brown": "#ffd166",
    "cyan": "#66d9ef",
    "8a8a8a": "#8b98a9",
    "3a3a3a": "#3a4656",
    "5faf00": "#7bd88f",
    "f92672": "#7bd88f",
}
Frame = list[list[tuple[str, str, bool]]]


def session() -> list[bytes]:
    """What the demo writes to its terminal, piece by piece; the answer is `keep`."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ |= {"TERM": "xterm-256color", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
        os.environ.pop("NO_COLOR", None)
        os.execvp(sys.executable, [sys.executable, "-m", "untildone", "demo"])  # never returns
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    pieces: list[bytes] = []
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:
            break
        if not piece:
            break
        pieces.append(piece)
        if QUESTION in piece:
            os.write(fd, b"keep\n")
    os.waitpid(pid, 0)
    return pieces


def screen(pieces: list[bytes]) -> Frame:
    """The last screen on which the fourth story is at work and the agent has said something."""
    display = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(display)
    found: Frame = []
    for piece in b"".join(pieces).split(b"\x1b[2K"):
        # The emulator knows no dim text: it becomes a grey of its own.
        stream.feed(re.sub(rb"\x1b\[2m", b"\x1b[38;5;245m", piece))
        lines = [line.rstrip() for line in display.display]
        last = next((line for line in reversed(lines) if line), "")
        whole = "\n".join(lines)
        at_work = f"\n{ATTEMPT}" in whole and SHOWN in whole and OVER not in whole
        if at_work and last.startswith("  "):
            found = [cells(display, row) for row in range(ROWS)]
        stream.feed(b"\x1b[2K")
    while found and not any(char.strip() for char, _, _ in found[-1]):
        found.pop()
    assert found, "the demo never showed the fourth story at work"
    return found


def cells(display: pyte.Screen, row: int) -> list[tuple[str, str, bool]]:
    """One line of the screen: sign, colour and weight of every cell."""
    line = display.buffer[row]
    return [
        (line[column].data, COLORS.get(line[column].fg, INK), bool(line[column].bold))
        for column in range(COLUMNS)
    ]


def drawn(frame: Frame) -> str:
    """The screen as SVG: no script, no font and no address outside of it."""
    width = int(COLUMNS * CELL_W + 2 * MARGIN)
    height = len(frame) * CELL_H + TOP + MARGIN
    rows = "\n".join(_row(line, TOP + CELL_H * at + FONT) for at, line in enumerate(frame))
    dots = "".join(
        f'<circle cx="{MARGIN + 4 + 18 * at}" cy="14" r="5" fill="#3a4656"/>' for at in range(3)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="A terminal in which untildone demo runs">\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>'
        f'<path d="M0 28V8a8 8 0 0 1 8-8H{width - 8}a8 8 0 0 1 8 8V28Z" fill="{BAR}"/>{dots}\n'
        '<g font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" '
        f'font-size="{FONT}" xml:space="preserve">\n'
        f'<text x="{width / 2:g}" y="18" fill="#8b98a9" text-anchor="middle">'
        "untildone demo</text>\n"
        f"{rows}\n</g>\n</svg>\n"
    )


def _look(cell: tuple[str, str, bool]) -> tuple[str, bool, bool]:
    sign, color, bold = cell
    return color, bold, sign.isascii()


def _row(line: list[tuple[str, str, bool]], y: int) -> str:
    parts = []
    at = 0
    for (color, bold, _), group in groupby(line, _look):
        text = "".join(char for char, _, _ in group)
        start, at = at, at + len(text)
        if not text.strip():
            continue
        lead = len(text) - len(text.lstrip())
        text = text.strip()
        style = f'fill="{color}"' + (' font-weight="bold"' if bold else "")
        # Whatever font is at hand, and signs may come from a second one: all stay on the grid.
        style += f' textLength="{len(text) * CELL_W:g}" lengthAdjust="spacingAndGlyphs"'
        x = MARGIN + (start + lead) * CELL_W
        parts.append(f'<text x="{x:g}" y="{y}" {style}>{escape(text)}</text>')
    return "".join(parts)


if __name__ == "__main__":
    TARGET.write_text(drawn(screen(session())), encoding="utf-8")
