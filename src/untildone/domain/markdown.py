"""The little of Markdown that decides whether a line is the writer's own word."""

import re

from msgspec import Struct

from untildone.domain.regex import regex

_MARKERS = r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*"
_QUOTE = regex(_MARKERS + ">")
_FENCE = regex(rf"({_MARKERS})(?:(`{{3,}})[^`]*|(~{{3,}}).*)", re.DOTALL)
_TICKS = regex("`+")
_ITEM = regex(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]")
_HTML = regex(r" {0,3}<(?:!--|([Pp][Rr][Ee])(?=[\s>]|\Z))")
_CODE_INDENT = 4
# Stands among the lengths of backticks for a comment that begins inside a line.
_INLINE_COMMENT = 0


class Fence(Struct, frozen=True):
    """An open code fence; one inside a list item may be closed at any indent."""

    char: str
    length: int
    nested: bool

    def closed_by(self, text: str) -> bool:
        body = text.strip()
        if len(body) < self.length or body.strip(self.char):
            return False
        return self.nested or _width(text[: len(text) - len(text.lstrip())]) <= 3


def is_quote(text: str) -> bool:
    """Whether the line is marked as a block quote, inside a list item too."""
    return _QUOTE.match(text) is not None


def opened_fence(text: str) -> Fence | None:
    opened = _FENCE.fullmatch(text)
    if opened is None:
        return None
    before, ticks, tildes = opened.groups()
    run: str = ticks or tildes
    return Fence(run[0], len(run), nested=bool(before.strip()) or _width(before) > 3)


def _width(blanks: str) -> int:
    return len(blanks.expandtabs(4))


def opened_html(text: str) -> str:
    """What ends a comment, or a block of code in HTML, that this line begins and does not end."""
    opened = _HTML.match(text)
    if opened is None:
        return ""
    closer = "</pre>" if opened[1] else "-->"
    return "" if closer in text[opened.end() :].lower() else closer


def closes_comment(text: str) -> bool:
    return "-->" in text


def is_indented_code(text: str, before: str) -> bool:
    """Whether the line is code by its indent: deep, and after a blank line.

    In a list item it has to be deeper still. At the very beginning there are just blanks around it.
    """
    indent = _indent(text)
    if indent < _CODE_INDENT:
        return False
    apart = False
    for line in reversed(before.removesuffix("\n").split("\n")):
        item = _ITEM.match(line)
        if not line.strip():
            apart = True
        elif item:
            return apart and indent >= _width(item[0]) + _CODE_INDENT
        elif _indent(line) < _CODE_INDENT:
            return apart
        else:
            apart = False
    return False


def _indent(text: str) -> int:
    return _width(text[: len(text) - len(text.lstrip(" \t"))])


def open_ticks(before: str) -> frozenset[int]:
    """The lengths of the backticks before a line that begin code, if the same come again behind it.

    Inline code ends with its paragraph at the latest; so does a comment inside a line.
    """
    lines: list[str] = []
    for line in reversed(before.splitlines()):
        if ends_paragraph(line):
            break
        lines.append(line)
        if _ITEM.match(line):
            break
    prose = without_code("\n".join(reversed(lines)))
    in_comment = prose.rfind("<!--") > prose.rfind("-->")
    return _runs(prose) | ({_INLINE_COMMENT} if in_comment else set())


def ends_paragraph(line: str) -> bool:
    """Whether what stands before this line is over."""
    return not line.strip() or opened_fence(line) is not None or is_quote(line)


def ticks(text: str) -> frozenset[int]:
    """The lengths of all runs of backticks, and whether a comment ends here."""
    return _runs(text) | ({_INLINE_COMMENT} if closes_comment(text) else set())


def _runs(text: str) -> frozenset[int]:
    return frozenset(len(run[0]) for run in _TICKS.finditer(text))


def without_code(text: str) -> str:
    """The line with its inline code blanked out, every other character where it was."""
    runs = [run.span() for run in _TICKS.finditer(text)]
    last = {end - start: at for at, (start, end) in enumerate(runs)}
    pieces: list[str] = []
    done = at = 0
    while at < len(runs):
        start, end = runs[at]
        length = end - start
        if last[length] > at:
            at += 1
            while runs[at][1] - runs[at][0] != length:
                at += 1
            pieces += text[done:start], " " * (runs[at][1] - start)
            done = runs[at][1]
        at += 1
    return "".join(pieces) + text[done:]
