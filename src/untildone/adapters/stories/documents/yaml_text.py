"""YAML as text: values with the place where they stand, and edits that keep every other byte.

PyYAML reads; its events say where each value begins and ends. Anchors, aliases, tags, merge keys
and a second document are an error that names its line: a value that stands in two places cannot be
edited in one. Words mean what YAML 1.2 says (`yes` is a text), as in the programs that write these
files.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, cast

from untildone.adapters.stories.documents.json_text import (
    Edit,
    Json,
    NotJson,
    Place,
    PlacedText,
    plain,
)
from untildone.domain.regex import regex

if TYPE_CHECKING:
    from yaml import YAMLError

# We read level by level in calls of our own: a line of brackets must not use up the stack.
_DEEPEST = 40
_INT = regex(r"[-+]?[0-9]{1,15}")
_FLOAT = regex(r"[-+]?(?:[0-9]{1,15}\.[0-9]{0,15}|\.[0-9]{1,15})(?:[eE][-+]?[0-9]{1,3})?")
_WORDS: dict[str, Json] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# What can be written without quotes.
_SAFE = regex(r"[A-Za-z0-9_][A-Za-z0-9_ ./()-]*(?<! )")
_COMMENT = regex(r"#[^\n]*")
_BARE_RETURN = regex(r"\r(?!\n)")
_NOT_ALLOWED = regex(r"[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# A tab between words. One in the indentation is left, and is an error.
_INNER_TAB = regex(r"(?<=\S)[ \t]*\t[ \t]*")
# People write `assignee: @ada`, which YAML has no meaning for; and for PyYAML (YAML 1.1) three more
# characters than the line feed end a line. Each is read as one that nobody uses.
_STAND_INS = {ord(sign): 0x10FFF0 + n for n, sign in enumerate("@\x85\u2028\u2029\ufeff")}
_ORIGINALS = {stand_in: sign for sign, stand_in in _STAND_INS.items()}
# Programs that write JSON escape a character above U+FFFF as two halves, which YAML does not know.
_IN_QUOTES = regex(r'"(?:[^"\\\n]|\\.)*"')
_HALF = regex(r"(?i)((?<!\\)(?:\\\\)*\\u)d[89a-f][0-9a-f]{2}")
# PyYAML's words for common mistakes (those of its two parsers differ), and ours.
_MISTAKES = tuple(
    (regex(problem), why)
    for problem, why in (
        ("mapping values are not allowed", "A value with a colon in it needs quotes"),
        ("expected ':'", "A line in this place has to be `key: value`"),
        ("unexpected end of stream", "Quotes that do not end"),
        ("node content|expected the node|',' or", "Brackets that do not end"),
        (
            "expected key|block end|block collection",
            "There is more text behind the end of a value, or a line that is not `key: value`",
        ),
        ("document start", "This line does not fit its indentation"),
    )
)


class _Mark(Protocol):
    @property
    def index(self) -> int: ...
    @property
    def column(self) -> int: ...


class _Event(Protocol):
    """What PyYAML's events say, each some of it."""

    start_mark: _Mark
    end_mark: _Mark
    anchor: str | None
    tag: str | None
    value: str
    implicit: tuple[bool, bool]
    flow_style: bool
    version: object
    tags: object


class YamlText(PlacedText):
    """A YAML document, or the one from `start` to `end`: read whole, edited in place."""

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        super().__init__(data)
        self._start = start + self.text.startswith("\ufeff", start)
        self._end = len(self.text) if end is None else end
        self._inner: dict[int, list[Place] | dict[str, Place]] = {}
        self._columns: dict[int, int] = {}

    def root(self) -> Place:
        """The document's one value."""
        import yaml  # noqa: PLC0415 - most projects have no YAML

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            events = yaml.parse(self._readable(), Loader=loader)
            return self._document(cast("Iterator[_Event]", events))
        except yaml.YAMLError as error:
            raise self._refused(error) from None

    def elements(self, array: Place) -> list[Place]:
        found = self._inner.get(array.start, [])
        return found if isinstance(found, list) else []

    def members(self, thing: Place) -> dict[str, Place]:
        found = self._inner.get(thing.start, {})
        return found if isinstance(found, dict) else {}

    def replaced(self, found: Place, value: Json) -> Edit:
        """The edit that puts a scalar in the place of the other."""
        old = self.text[found.start : found.end]
        blank = " " if not old and self.text[found.start - 1 : found.start] == ":" else ""
        return Edit(found.start, found.end, blank + written(value, old))

    def inserted(self, thing: Place, key: str, value: Json) -> Edit:
        """The edit that adds a member to an object, on a line of its own."""
        pair = f"{key}: {written(value)}"
        members = self.members(thing)
        if self.text[thing.start] == "{":
            at = thing.end - 1
            last = max((found.end for found in members.values()), default=thing.start + 1)
            separated = not members or "," in _COMMENT.sub("", self.text[last:at])
            return Edit(at, at, pair if separated else f", {pair}")
        blanks = " " * self._columns[thing.start]
        for found in members.values():
            if "\n" not in self.text[found.start : found.end]:
                at = self.line_end(found.end)
                return Edit(at, at, f"{self._newline(at)}{blanks}{pair}")
        return Edit(thing.start, thing.start, f"{pair}{self._newline(thing.start)}{blanks}")

    # -----------------------------------------------------------------------------------------

    def _readable(self) -> str:
        """The text as PyYAML can read it, every character still at its place."""
        if bare := _BARE_RETURN.search(self.text, self._start, self._end):
            why = "A carriage return in the middle of a line is not read."
            raise NotJson(self.line(bare.start()), why)
        text = plain(self.text[self._start : self._end]).translate(_STAND_INS)
        if odd := _NOT_ALLOWED.search(text):
            why = f"YAML does not allow the character U+{ord(odd[0]):04X}."
            raise NotJson(self.line(self._start + odd.start()), why)
        if _HALF.search(text):
            text = _IN_QUOTES.sub(lambda quoted: _HALF.sub(r"\1fffd", quoted[0]), text)
        return _INNER_TAB.sub(lambda tabs: " " * len(tabs[0]), text) if "\t" in text else text

    def _refused(self, error: "YAMLError") -> NotJson:
        """PyYAML's error; what is scanned to its end without success is wrong where it begins."""
        mark = getattr(error, "problem_mark", None)
        context = getattr(error, "context", None) or ""
        if context.startswith("while scanning") and "escape" not in str(error):
            mark = getattr(error, "context_mark", None) or mark
        at = self._start + (mark.index if mark else 0)
        if self.text[at : at + 1] == "\t":
            return NotJson(self.line(at), "A tab as indentation is not read.")
        problem = (getattr(error, "problem", None) or str(error)).translate(_ORIGINALS)
        told = next((f"{why} ({problem})" for sign, why in _MISTAKES if sign.search(problem)), "")
        at = min(at, len(self.text[: self._end].rstrip()))
        return NotJson(self.line(at), f"{told or f'This is not YAML: {problem}'}.")

    def _document(self, events: Iterator[_Event]) -> Place:
        next(events)  # the beginning of the stream
        head = next(events)
        if not hasattr(head, "explicit"):  # and its end: there is no document
            return Place(None, self._start, self._start)
        if head.version or head.tags:
            raise self._wrong(head, "A directive is not read.")
        found = self._value(next(events), events, 0)
        next(events)  # the end of the document
        after = next(events)
        if hasattr(after, "explicit"):
            raise self._wrong(after, "A second document is not read.")
        return found

    def _value(self, event: _Event, events: Iterator[_Event], depth: int) -> Place:
        kind = self._kind(event)
        start, end = self._start + event.start_mark.index, self._start + event.end_mark.index
        if kind == "ScalarEvent":
            text = event.value.translate(_ORIGINALS)
            if event.implicit[0]:  # without quotes
                return Place(_resolved(text), start, end)
            # The lines of a block end behind its last line break.
            source = self.text[start:end].rstrip()
            if _HALF.search(source):
                with contextlib.suppress(ValueError):
                    text = plain(json.loads(source))
            return Place(text, start, start + len(source))
        if depth > _DEEPEST:
            raise self._wrong(event, "The YAML is nested too deeply.")
        if kind == "SequenceStartEvent":
            return self._sequence(event, events, start, depth)
        return self._mapping(event, events, start, depth)

    def _sequence(self, head: _Event, events: Iterator[_Event], start: int, depth: int) -> Place:
        items: list[Place] = []
        while type(event := next(events)).__name__ != "SequenceEndEvent":
            items.append(self._value(event, events, depth + 1))
        self._inner[start] = items
        end = self._start + event.end_mark.index if head.flow_style else items[-1].end
        return Place([item.value for item in items], start, end)

    def _mapping(self, head: _Event, events: Iterator[_Event], start: int, depth: int) -> Place:
        members: dict[str, Place] = {}
        if head.flow_style and self.text[start] != "{":
            raise self._wrong(head, "A pair in a list needs braces: `{key: value}`.")
        self._columns[start] = head.start_mark.column
        end = start
        while type(event := next(events)).__name__ != "MappingEndEvent":
            key = self._key(event, end)
            if key in members:
                raise self._wrong(event, f"The key `{key}` stands here twice.")
            members[key] = self._value(next(events), events, depth + 1)
            end = members[key].end
        self._inner[start] = members
        end = self._start + event.end_mark.index if head.flow_style else end
        return Place({key: place.value for key, place in members.items()}, start, end)

    def _key(self, event: _Event, behind: int) -> str:
        if self._kind(event) != "ScalarEvent" or not event.value:
            raise self._wrong(event, "A key has to be a word: `key: value`.")
        if event.value == "<<" and event.implicit[0]:
            raise self._wrong(event, "A merge key is not read.")
        before = self.text[behind : self._start + event.start_mark.index]
        if "?" in before and "?" in _COMMENT.sub("", before):
            raise self._wrong(event, "A key that begins with `?` is not read.")
        return event.value.translate(_ORIGINALS)

    def _kind(self, event: _Event) -> str:
        kind = type(event).__name__
        if kind == "AliasEvent" or event.anchor or event.tag:
            sign = "*" if kind == "AliasEvent" else "&" if event.anchor else "!"
            raise self._wrong(event, f"A value that begins with `{sign}` is not read.")
        return kind

    def _wrong(self, event: _Event, why: str) -> NotJson:
        return NotJson(self.line(self._start + event.start_mark.index), why)

    def line_end(self, at: int) -> int:
        newline = self.text.find("\n", at, self._end)
        end = self._end if newline < 0 else newline
        return end - 1 if end > at and self.text[end - 1] == "\r" else end

    def _newline(self, near: int) -> str:
        newline = self.text.find("\n", near)
        if newline < 0:
            newline = self.text.rfind("\n", 0, near)
        return "\r\n" if newline > 0 and self.text[newline - 1] == "\r" else "\n"


def _resolved(word: str) -> Json:
    """What a scalar without quotes means."""
    if word in _WORDS:
        return _WORDS[word]
    if _INT.fullmatch(word):
        return int(word)
    return float(word) if _FLOAT.fullmatch(word) else word


def written(value: Json, like: str = "") -> str:
    """The scalar as text, in the quotes of the one it is to replace."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    text = str(value)
    if like.startswith("'"):
        return "'" + text.replace("'", "''") + "'"
    if like.startswith('"') or not _SAFE.fullmatch(text) or _resolved(text) != value:
        return json.dumps(text, ensure_ascii=False)
    return text
