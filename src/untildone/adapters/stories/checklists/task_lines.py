"""One checkbox line: OpenSpec's rule for what counts (1.13.1 and newer), and flipping its box."""

import re
from collections.abc import Callable, Collection
from functools import partial

from msgspec import Struct

# JavaScript's \s: it has U+FEFF, and has neither U+0085 nor U+001C to U+001F as Python's has.
BLANKS = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_S = f"[{BLANKS}]"
# Upstream matches UTF-16 units, so a character above U+FFFF is two and never one mark.
_MARK = rf"[^\]{BLANKS}\U00010000-\U0010ffff]"
# Possessive repeats keep hostile lines (a bracket and 100,000 blanks) linear.
_TASK = re.compile(
    rf"(?P<indent>{_S}*+)(?:[-*+]|[0-9]{{1,9}}[.)]){_S}*+"
    rf"\[(?:{_S}*+(?P<mark>{_MARK}){_S}*+\](?![(\[])|{_S}++\]|\](?![(\[])){_S}*+"
    r"(?P<text>[^\n\r\u2028\u2029]*)"
)
_TAB = 4


class TaskLine(Struct, frozen=True):
    """A counted checkbox: where it stands and what it says.

    `indent` says what it belongs to. That is the column it starts at, but for a task that belongs
    to another by its number alone: `moved` is how much deeper than it stands it is then.
    """

    line: int
    indent: int
    done: bool
    text: str
    mark: str = ""
    moved: int = 0

    @property
    def column(self) -> int:
        """Where it starts in its line."""
        return self.indent - self.moved


def split(data: bytes) -> list[str]:
    """The lines as OpenSpec sees them: bad bytes replaced, only line feeds end a line."""
    return data.decode("utf-8", "replace").split("\n")


def indent_of(line: str) -> int:
    """The column of the first visible character; a byte order mark takes none."""
    column = 0
    for char in line:
        if char == "\t":
            column += _TAB - column % _TAB
        elif char not in BLANKS:
            break
        elif char not in "\ufeff\r":
            column += 1
    return column


def read(text: str, line: int) -> TaskLine | None:
    """The task on this line, if the line counts as one."""
    if "[" not in text:
        return None
    match = _TASK.match(text)
    if match is None:
        return None
    indent, mark, words = match.groups("")
    column = indent_of(indent + "-") if indent else 0
    return TaskLine(line, column, mark in ("x", "X"), words.strip(BLANKS), mark)


def second_task(text: str) -> bool:
    """A bare carriage return hides another task behind this line's first part."""
    return any(_TASK.match(part) for part in text.split("\r")[1:] if "[" in part)


def tick(data: bytes, lines: Collection[int]) -> bytes:
    """Put an x in the boxes of these lines; every other byte stays.

    The mark or the first blank is replaced. Only two cases need one byte more: an empty `[]` has
    nothing to replace, and `[ ](` gets a blank behind the box because `[x](` counts as a link.
    """
    return _flip(data, lines, _ticked)


def untick(data: bytes, lines: Collection[int], mark: str = " ") -> bytes:
    """Put this mark in place of the x in the boxes of these lines; every other byte stays."""
    return _flip(data, lines, partial(_unticked, sign=mark.encode()))


def _flip(data: bytes, lines: Collection[int], change: Callable[[bytes, bytes], bytes]) -> bytes:
    raw = data.split(b"\n")
    for line in lines:
        before, box, after = _around_box(raw[line - 1])
        raw[line - 1] = before + change(box, after)
    return b"\n".join(raw)


def _around_box(raw: bytes) -> tuple[bytes, bytes, bytes]:
    """The bytes up to and with `[`, those inside, those from `]` on.

    In a task line nothing before the box can hold a bracket, and no bracket byte is ever part of
    a longer character, so this needs no decoding and works between invalid bytes.
    """
    if _TASK.match(raw.decode("utf-8", "replace")) is None:
        raise ValueError("not a task line")
    start = raw.index(b"[") + 1
    end = raw.index(b"]", start)
    return raw[:start], raw[start:end], raw[end:]


def _ticked(box: bytes, after: bytes) -> bytes:
    blank_before, mark, blank_behind = _parts(box)
    if mark:
        return blank_before + (mark if mark == b"X" else b"x") + blank_behind + after
    if after[1:2] in (b"(", b"["):
        after = after[:1] + b" " + after[1:]
    first_blank = box.decode("utf-8")[:1].encode()
    return b"x" + box[len(first_blank) :] + after


def _unticked(box: bytes, after: bytes, sign: bytes) -> bytes:
    blank_before, mark, blank_behind = _parts(box)
    return blank_before + (sign if mark in (b"x", b"X") else mark) + blank_behind + after


def _parts(box: bytes) -> tuple[bytes, bytes, bytes]:
    text = box.decode("utf-8", "replace")
    before = len(text[: len(text) - len(text.lstrip(BLANKS))].encode())
    behind = len(text[len(text.rstrip(BLANKS)) :].encode()) if before < len(box) else 0
    return box[:before], box[before : len(box) - behind], box[len(box) - behind :]
