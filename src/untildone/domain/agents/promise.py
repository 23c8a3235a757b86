"""The agent's last word: find COMPLETE, FAILED or ASK in its own text, or a question at its end."""

import copy
import re
from collections.abc import Sequence

from msgspec import Struct, field

from untildone.domain.markdown import (
    Fence,
    ends_paragraph,
    is_indented_code,
    is_quote,
    open_ticks,
    opened_fence,
    opened_html,
    ticks,
    without_code,
)
from untildone.domain.plain_text import plain
from untildone.domain.regex import regex

REASON_BYTES = 64 * 1024
# A tag that is still open after this much text is prose about tags.
_REACH = 1024 * 1024
# Of a longer line only the beginning and the end are looked at.
_HEAD = 128 * 1024
_TAIL = 128 * 1024
# So much before a tag is looked at for inline code that was begun on an earlier line.
_PARAGRAPH = 8 * 1024

_CLOSE = "</promise>"
_TAG = r"<promise>(?=\s*(?:(?:FAILED|ASK)\s*:|(?:COMPLETE|FAILED|ASK)\s*(?:\Z|</promise>)|\Z))"
_INSIDE = regex(_TAG)
_ALONE = regex(r"\s*[*_~]*" + _TAG)
_REST = regex(r"[\s*_~]*")
_PRE = regex(rb"</?[Pp][Rr][Ee]")
_HIT = regex(rb"promise|```|~~~|<!--|-->|" + _PRE.pattern)
_INK = regex(rb"\S")

_LENIENT = ("utf-8", "replace")
_END_OF_PROMPT = "End of the prompt."

# So much of the end of a message is looked at for a question.
_QUESTION_BYTES = 2048
_LAST_LINE = regex(r"(?:\A|\n)[ \t*_~]*<promise>[^<]*</promise>[\s*_~]*\Z")
_ASKS = regex("[?\uff1f][\\s*_~]*\\Z")


class Promise(Struct, frozen=True):
    """What the agent promised; `reason` only with a failure, or the question if it `asks`."""

    complete: bool
    reason: str = ""
    asks: bool = False


def find_promise(messages: Sequence[str]) -> Promise | None:
    """The promise that counts in the agent's messages; the last of them is its final message."""
    found: Promise | None = None
    for number, message in enumerate(messages, 1):
        scanner = PromiseScanner()
        scanner.feed(message.encode("utf-8", "replace"))
        found = scanner.result(final=number == len(messages)) or found
    return found


def neutralise(prompt: str) -> str:
    """The prompt such that an echo of it is neither a promise nor a question; else unchanged."""
    scanner = _read(prompt)
    if scanner.result() is None:  # as it mostly is, and the scanner passes over most lines
        return _closed(prompt) if scanner.question() else prompt
    lines = prompt.split("\n")
    counted = _counted(lines)
    ends = bool(counted) and not any(line.strip() for line in lines[max(counted) + 1 :])
    # A line that is quoted now may have hidden another tag; a quoted line opens none, so this ends.
    while counted:
        lines = [f"> {line}" if at in counted else line for at, line in enumerate(lines)]
        counted = _counted(lines)
    quoted = "\n".join(lines)
    return _closed(quoted) if ends or _read(quoted).question() else quoted


def _closed(prompt: str) -> str:
    return f"{prompt.rstrip()}\n\n{_END_OF_PROMPT}\n"


def _read(text: str) -> "PromiseScanner":
    scanner = PromiseScanner()
    scanner.feed(text.encode("utf-8", "replace"))
    return scanner


def _counted(lines: Sequence[str]) -> set[int]:
    """Where the tags stand that count in this message."""
    page = _Page()
    counted: set[int] = set()
    ends = alone = range(0)
    past = b""
    for after, line in enumerate(lines, 1):
        before, raw = page.ending, line.encode("utf-8", "replace")
        covered = page.take(raw, past)
        past = (past + raw[-_PARAGRAPH:] + b"\n")[-_PARAGRAPH:]
        if page.taken_back:
            counted.difference_update(alone)
        alone = range(after - covered, after) if covered else alone
        counted.update(range(after - covered, after))
        if page.ending is not None and page.ending is not before:
            ends = range(after - page.ending.lines, after)
    if page.ending is not None:
        counted.update(ends)
    return counted


class PromiseScanner:
    """Finds the promise in one message of any size, fed in pieces cut anywhere; memory is flat."""

    def __init__(self) -> None:
        self._page = _Page()
        self._line = bytearray()
        self._past = b""
        self._tail = b""

    def feed(self, chunk: bytes) -> None:
        last_bytes = chunk[-_QUESTION_BYTES:]
        self._tail = (self._tail + last_bytes)[-_QUESTION_BYTES:]
        first = chunk.find(b"\n")
        if first < 0:
            self._grow(chunk)
            return
        last = chunk.rfind(b"\n")
        start = 0
        if self._line:
            self._grow(chunk[:first])
            self._end_line()
            start = first + 1
        if not (self._page.idle and _quiet(chunk, start, last)):
            self._read(chunk, start, last + 1)
        self._pass(chunk[max(start, last + 1 - _PARAGRAPH) : last + 1])
        self._grow(chunk[last + 1 :])

    def result(self, *, final: bool = True) -> Promise | None:
        """The promise, the message being over; only a final message may end in one."""
        if self._line:
            self._end_line()
        if final and self._page.ending is not None:
            return self._page.ending.promise
        return self._page.standing

    def last_line(self) -> Promise | None:
        """The promise that stands alone on the last line so far; more may come."""
        told = _CLOSE.encode() in self._tail
        if not (told and _LAST_LINE.search(plain(self._tail.decode(*_LENIENT)))):
            return None
        return copy.deepcopy(self).result()

    def question(self) -> str:
        """What the message asks if it ends with a question, the message being over."""
        if self._line:
            self._end_line()
        text = plain(self._tail.decode("utf-8", "replace")).strip()
        last = text.rpartition("\n")[2]
        if self._page.in_code or is_quote(last) or not _ASKS.search(without_code(last)):
            return ""
        return "\n\n".join(re.split(r"\n[ \t]*\n", text)[-2:]).strip()

    def _read(self, chunk: bytes, first: int, end: int) -> None:
        page, start = self._page, first
        while start < end:
            if page.idle:
                hit = _HIT.search(chunk, start, end)
                if hit is None:
                    return
                start = max(start, chunk.rfind(b"\n", start, hit.start()) + 1)
            elif page.at_rest:
                ink = _INK.search(chunk, start, end)
                if ink is None:
                    return
                start = max(start, chunk.rfind(b"\n", start, ink.start()) + 1)
            stop = chunk.find(b"\n", start, end)
            line = chunk[start:stop]
            near = chunk[max(first, start - _PARAGRAPH) : start] if b"promise" in line else b""
            page.take(line, self._past + near)
            start = stop + 1

    def _grow(self, piece: bytes) -> None:
        self._line += piece
        if len(self._line) > 2 * (_HEAD + _TAIL):
            del self._line[_HEAD:-_TAIL]

    def _end_line(self) -> None:
        line = bytes(self._line)
        self._page.take(line, self._past)
        self._pass(line[-_PARAGRAPH:] + b"\n")
        self._line.clear()

    def _pass(self, lines: bytes) -> None:
        self._past = (self._past + lines)[-_PARAGRAPH:]


def _quiet(chunk: bytes, start: int, end: int) -> bool:
    """No line in here can matter. One byte is found far faster than three: it is asked first."""
    find = chunk.find
    return (
        (find(b"`", start, end) < 0 or find(b"```", start, end) < 0)
        and (find(b"~", start, end) < 0 or find(b"~~~", start, end) < 0)
        and (find(b"<", start, end) < 0 or _says_nothing(chunk, start, end))
        and (find(b">", start, end) < 0 or find(b"-->", start, end) < 0)
    )


def _says_nothing(chunk: bytes, start: int, end: int) -> bool:
    find = chunk.find
    told = find(b"promise", start, end) >= 0 or find(b"<!--", start, end) >= 0
    return not told and _PRE.search(chunk, start, end) is None


class _Ending(Struct, frozen=True):
    """A tag after which nothing has come yet, and how many lines it takes."""

    promise: Promise
    lines: int


class _Tag(Struct):
    """A tag that is still open at the end of a line."""

    lines: int = 0
    _seen: int = 0
    _kept: list[str] = field(default_factory=list)
    _word: str = ""
    _has_reason: bool = False

    def add(self, text: str) -> bool:
        """Take one more line; False when this cannot become a promise any more."""
        self.lines += 1
        if self._seen <= REASON_BYTES:
            self._kept.append(text[: 2 * REASON_BYTES])
        self._seen += len(text) + 1
        if not self._has_reason:
            self._word = f"{self._word} {text}".strip()
            word, colon, _ = self._word.partition(":")
            self._has_reason = bool(colon) and word.rstrip() in ("FAILED", "ASK")
            if not self._has_reason and self._word not in ("", "COMPLETE", "FAILED", "ASK"):
                return False
        return self._seen <= _REACH

    def end(self, text: str) -> Promise | None:
        self.add(text)
        return _promise("\n".join(self._kept))


class _Page:
    """The lines of one message, one after the other: what counts so far."""

    def __init__(self) -> None:
        self.standing: Promise | None = None
        self.ending: _Ending | None = None
        self._fence: Fence | None = None
        self._html_end = ""  # of the comment or the code in HTML that is open
        self._tag: _Tag | None = None
        self._loose: _Tag | None = None
        # Backticks that make the tag code if they come again, and what stood before it.
        self._doubt: frozenset[int] = frozenset()
        self._earlier: Promise | None = None
        self.taken_back = False

    @property
    def idle(self) -> bool:
        """Only a line with a fence or a tag can change anything."""
        return self.at_rest and self.ending is None

    @property
    def in_code(self) -> bool:
        """Whether the lines stand in a code fence, a comment or `<pre>`."""
        return self._fence is not None or bool(self._html_end)

    @property
    def at_rest(self) -> bool:
        """Blank lines change nothing."""
        return self._tag is None and self._loose is None and not self._doubt

    def take(self, raw: bytes, before: bytes = b"") -> int:
        """Read one line; the number of lines of the tag that has come to stand alone, or 0.

        `before` is the end of what was read until now, at least where the line has a tag.
        """
        if len(raw) > _HEAD + _TAIL:
            raw = raw[:_HEAD] + raw[-_TAIL:]
        if self.idle and not _HIT.search(raw):
            return 0
        text = plain(raw.decode("utf-8", "replace"))
        if text.strip():
            self.ending = None
        self._resolve(text)
        if self._tag is None:
            return self._outside(text, plain(before.decode(*_LENIENT)) if b"promise" in raw else "")
        return self._inside(text, self._tag)

    def _outside(self, text: str, above: str) -> int:
        """A line where no tag is open; `above` is the text before it."""
        if above and is_indented_code(text, above):
            self._end_loose(text)
            return 0
        earlier, covered = self.standing, self._fresh(text)
        if covered:
            self._earlier, self._doubt = earlier, open_ticks(above)
        return covered

    def _inside(self, text: str, tag: _Tag) -> int:
        """A line of a tag that an earlier one has opened."""
        close = text.find(_CLOSE)
        if close < 0 and tag.add(text):
            self._step_fence(text)
            return 0
        self._tag = None
        promise = tag.end(text[:close]) if close >= 0 else None
        if promise is None or not _REST.fullmatch(text, close + len(_CLOSE)):
            return self._fresh(text)
        # What looked like a fence since the tag was opened was part of the reason.
        self._fence = None
        self.standing = promise
        return tag.lines

    def _resolve(self, text: str) -> None:
        """A tag between backticks is code; the end of its paragraph says that it is not."""
        self.taken_back = False
        if not self._doubt:
            return
        if ends_paragraph(text):
            self._doubt = frozenset()
        elif self._doubt & ticks(text):
            self.standing, self._doubt = self._earlier, frozenset()
            self.taken_back = True

    def _fresh(self, text: str) -> int:
        if self._step_html(text) or self._step_fence(text) or is_quote(text):
            self._end_loose(text)
            return 0
        alone = _ALONE.match(text)
        if alone is not None:
            rest = text[alone.end() :]
            body, close, after = rest.partition(_CLOSE)
            tag = _Tag()
            if close and _REST.fullmatch(after):
                self.standing, self._loose = tag.end(body), None
                return 1
            if not close:
                tag.add(rest)
                self._tag, self._loose = tag, None
                return 0
        self._find_ending(text, self._end_loose(text))
        return 0

    def _step_html(self, text: str) -> bool:
        """Whether the line belongs to a comment, or to code in HTML."""
        if self._html_end:
            self._html_end = "" if self._html_end in text.lower() else self._html_end
            return True
        self._html_end = opened_html(text) if self._fence is None else ""
        return bool(self._html_end)

    def _step_fence(self, text: str) -> bool:
        """Whether the line belongs to a fence."""
        if self._fence is None:
            self._fence = opened_fence(text)
            return self._fence is not None
        if self._fence.closed_by(text):
            self._fence = None
        return True

    def _end_loose(self, text: str) -> int:
        """Go on with a tag that was opened inside a line; where the text after it begins."""
        loose = self._loose
        if loose is None:
            return 0
        close = text.find(_CLOSE)
        if close < 0:
            if loose.add(text):
                return len(text)
            self._loose = None
            return 0
        self._loose = None
        self._close_ending(loose, text, 0, close)
        return close + len(_CLOSE)

    def _find_ending(self, text: str, start: int) -> None:
        prose = without_code(text)
        while (tag := _INSIDE.search(prose, start)) is not None:
            close = text.find(_CLOSE, tag.end())
            if close < 0:
                self._loose = _Tag()
                self._loose.add(text[tag.end() :])
                return
            self._close_ending(_Tag(), text, tag.end(), close)
            start = close + len(_CLOSE)

    def _close_ending(self, tag: _Tag, text: str, start: int, close: int) -> None:
        if _REST.fullmatch(text, close + len(_CLOSE)):
            promise = tag.end(text[start:close])
            self.ending = None if promise is None else _Ending(promise, tag.lines)


def _promise(body: str) -> Promise | None:
    body = body.strip()
    if body == "COMPLETE":
        return Promise(complete=True)
    word, _, reason = body.partition(":")
    if word.rstrip() not in ("FAILED", "ASK"):
        return None
    cut = reason.strip().encode("utf-8", "replace")[:REASON_BYTES].decode("utf-8", "ignore")
    return Promise(complete=False, reason=cut, asks=word.rstrip() == "ASK")
