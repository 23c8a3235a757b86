"""One checkbox line: OpenSpec's rule for what counts (1.13.1 and newer), why a line that looks like
one does not count, and flipping its box.
"""

import re
from collections.abc import Callable, Collection
from functools import partial

from msgspec import Struct

from untildone.domain.regex import regex

# JavaScript's \s: it has U+FEFF, and has neither U+0085 nor U+001C to U+001F as Python's has.
BLANKS = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_S = f"[{BLANKS}]"
# Upstream matches UTF-16 units, so a character above U+FFFF is two and never one mark.
_MARK = rf"[^\]{BLANKS}\U00010000-\U0010ffff]"
# Possessive repeats keep hostile lines (a bracket and 100,000 blanks) linear.
_TASK = regex(
    rf"(?P<indent>{_S}*+)(?:[-*+]|[0-9]{{1,9}}[.)]){_S}*+"
    rf"\[(?:{_S}*+(?P<mark>{_MARK}){_S}*+\](?![(\[])|{_S}++\]|\](?![(\[])){_S}*+"
    r"(?P<text>[^\n\r\u2028\u2029]*)"
)
_USUAL = regex(r"- \[([ xX])\] ([!-~][ -~]*+(?<! ))")
_TAB = 4
_ITEM = r"(?:[-*+]|[0-9]{1,9}[.)])"
_BOX = r"\[(?:[ xX~-])?\]"

# The first pattern that fits gives the reason; every pattern is anchored and linear.
_NOT_COUNTED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (regex(pattern), why)
    for pattern, why in (
        (rf"\s*>[\s>]*+{_ITEM}?\s*+{_BOX}", "A checkbox inside a quotation is not counted."),
        (rf"\s*\|.*{_BOX}", "A checkbox inside a table is not counted."),
        (rf"\s*#{{1,6}}\s*(?:{_ITEM}\s+)?{_BOX}", "A checkbox inside a heading is not counted."),
        (
            rf"\s*[0-9]{{10,}}[.)]\s*{_BOX}",
            "A list number with more than nine digits is not counted.",
        ),
        (rf"\s*{_ITEM}\s+{_ITEM}\s*{_BOX}", "A checkbox behind two list markers is not counted."),
        (
            rf"\s*{_ITEM}\s*\[[xX]\][(\[]",
            "A box with a bracket right behind it is read as a link and not counted.",
        ),
        (
            rf"\s*{_ITEM}\s*\[\s*[\U00010000-\U0010ffff]\s*\]",
            "The sign in the box is not one that OpenSpec counts; write `[ ]` or `[x]`.",
        ),
        (
            rf"\s*{_ITEM}\s*\[[^\][(]{{2,20}}\](?![(\[:])",
            "The box holds more than one character; write `[ ]` or `[x]`.",
        ),
        (
            rf"\s*{_ITEM}\s*[☐☑☒⬜□]",
            "A checkbox sign is not a Markdown checkbox; write `- [ ]` or `- [x]`.",
        ),
        (rf"\s*{_BOX}(?:\s|$)", "There is no list marker before the box; write `- [ ]`."),
        (
            rf"\s*(?:[^\w\s|>#\[]{{1,3}}|\(?\w{{1,9}}[.):]|[0-9][0-9.]{{0,15}})\s*{_BOX}(?:\s|$)",
            "The sign before the box is not a list marker that counts; write `- [ ]`.",
        ),
    )
)
_LOOKS_LIKE_TASK = regex(
    rf"{_BOX}|[☐☑☒⬜□]|\[\s?[\U00010000-\U0010ffff]|^\s*{_ITEM}\s*\[[^\]]{{2}}"
)


# An empty box or its sign at the start of a line, behind whatever stands for a list marker; what
# goes on with `=` or a dash is a legend.
_OPEN_BOX = regex(
    rf"\s*+(?:#{{1,6}}\s*+)?(?:(?:{_ITEM}|[^\w\s|>#\[☐⬜□]{{1,3}}|\(?\w{{1,9}}[.):]|[0-9][0-9.]{{0,15}})\s*+)"
    r"{0,2}(?:\[[ ]?\]|[☐⬜□])\s++(?![-=:\u2013\u2014\u2192])\S"
)


class TaskLine(Struct, frozen=True, gc=False):
    """A counted checkbox: where it stands and what it says.

    `column` is where it starts in its line, `indent` says what it belongs to: the same, but for a
    task that belongs to another by its number alone.
    """

    line: int
    column: int
    indent: int
    done: bool
    text: str
    mark: str = ""


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
    usual = _USUAL.fullmatch(text)
    if usual:  # what most lines look like, found without the long way round
        mark = usual[1].strip()
        return TaskLine(line, 0, 0, mark != "", usual[2], mark)
    if "[" not in text:
        return None
    match = _TASK.match(text)
    if match is None:
        return None
    indent, mark, words = match.groups("")
    column = indent_of(indent + "-") if indent else 0
    return TaskLine(line, column, column, mark in ("x", "X"), words.strip(BLANKS), mark)


def why_not_counted(line: str) -> str:
    """Why this line, which is not a task, was passed over; empty when it looks like no task."""
    if _LOOKS_LIKE_TASK.search(line) is None:
        return ""
    return next((why for pattern, why in _NOT_COUNTED if pattern.match(line)), "")


def is_open_work(line: str) -> bool:
    """Whether somebody wrote down here what is to be done, in a way that does not count."""
    return bool(_OPEN_BOX.match(line))


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
