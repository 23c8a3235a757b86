"""The part of YAML that story files are written in: values with their places, edited in place.

Read: block mappings and sequences, plain and quoted scalars (also over several lines), block
scalars, lists and objects in brackets that end on their line, comments. Anything else (anchors,
aliases, tags, merge keys, several documents, tabs as indentation) is an error that names its line,
so that nothing is ever read other than it was meant.
"""

import re

from msgspec import Struct

from untildone.adapters.stories.documents import yaml_scalars
from untildone.adapters.stories.documents.json_text import (
    Edit,
    Json,
    NotJson,
    Place,
    PlacedText,
    plain,
)
from untildone.adapters.stories.documents.yaml_scalars import Scanned, Unread

_DEEPEST = 40
_COLON = re.compile(r":(?=[ \t]|$)")
_COMMENT = re.compile(r"[ \t]#")
_NO_TEXT = re.compile(r"^[ \t]*-(?:[ \t]|$)|:(?=[ \t]|$)|[ \t]#")
_BLOCK = re.compile(r"(?P<style>[|>])(?P<size>[1-9]?)(?P<chomp>[-+]?)[ \t]*(?:[ \t]#.*)?")


class _Line(Struct, frozen=True):
    """A line that is neither empty nor a comment."""

    number: int
    start: int
    indent: int
    text: str


class YamlText(PlacedText):
    """A YAML document that is read whole and edited in place."""

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        super().__init__(data)
        self._inner: dict[int, list[Place] | dict[str, Place]] = {}
        self._indents: dict[int, int] = {}
        self._end = len(self.text) if end is None else end
        self._raw = self._split(start)
        self._lines = [line for line in self._raw if line.text.strip() and not _is_note(line.text)]
        self._at = 0
        self._offset = start

    def root(self) -> Place:
        """The document's one value."""
        self._skip_head()
        if not self._lines[self._at :]:
            return Place(None, self._offset, self._offset)
        try:
            found = self._block(self._lines[self._at].indent, 0)
        except Unread as error:
            raise NotJson(self._line_now(), str(error)) from None
        if self._at < len(self._lines):
            raise NotJson(self._lines[self._at].number, "This line does not fit its indentation.")
        return found

    def elements(self, array: Place) -> list[Place]:
        """The places of a list's values."""
        found = self._inner.get(array.start, [])
        return found if isinstance(found, list) else []

    def members(self, thing: Place) -> dict[str, Place]:
        """The places of an object's values by key."""
        found = self._inner.get(thing.start, {})
        return found if isinstance(found, dict) else {}

    def replaced(self, found: Place, value: Json) -> Edit:
        """The edit that puts a scalar in the place of the other."""
        old = self.text[found.start : found.end]
        blank = " " if not old and self.text[found.start - 1 : found.start] == ":" else ""
        return Edit(found.start, found.end, blank + yaml_scalars.written(value, old))

    def inserted(self, thing: Place, key: str, value: Json) -> Edit:
        """The edit that adds a member to an object, on a line of its own."""
        pair = f"{key}: {yaml_scalars.written(value)}"
        if self.text[thing.start] == "{":
            at = thing.end - 1
            comma = ", " if self.members(thing) else ""
            return Edit(at, at, comma + pair)
        blanks = " " * self._indents[thing.start]
        for found in self.members(thing).values():
            if "\n" not in self.text[found.start : found.end]:
                at = self._line_end(found.end)
                return Edit(at, at, f"{self._newline(at)}{blanks}{pair}")
        return Edit(thing.start, thing.start, f"{pair}{self._newline(thing.start)}{blanks}")

    # -----------------------------------------------------------------------------------------

    def _split(self, at: int) -> list[_Line]:
        lines = []
        number = self.line(at)
        if self.text.startswith("\ufeff", at):
            at += 1
        while at < self._end:
            newline = self.text.find("\n", at, self._end)
            end = self._end if newline < 0 else newline
            text = self.text[at:end].removesuffix("\r")
            if "\r" in text:
                raise NotJson(number, "A carriage return in the middle of a line is not read.")
            lines.append(_Line(number, at, len(text) - len(text.lstrip(" ")), text))
            at, number = end + 1, number + 1
        return lines

    def _skip_head(self) -> None:
        if self._lines and self._lines[0].text.rstrip(" \t") == "---":
            self._at = 1
        for line in self._lines[self._at :]:
            if line.text.startswith(("---", "...", "%")) and line.indent == 0:
                raise NotJson(line.number, "A second document or a directive is not read.")

    def _line_now(self) -> int:
        at = min(self._at, len(self._lines) - 1)
        return self._lines[at].number

    def _block(self, indent: int, depth: int) -> Place:
        """The value whose lines begin in this column."""
        line = self._lines[self._at]
        return self._value(line, indent, indent - 1, depth)

    def _value(self, line: _Line, column: int, parent: int, depth: int) -> Place:
        """The value at this column of the current line, which belongs to one at `parent`."""
        if depth > _DEEPEST:
            raise Unread("The YAML is nested too deeply.")
        text = line.text
        if _is_dash(text, column):
            return self._sequence(column, depth)
        if text[column] == "?" and text[column + 1 : column + 2] in ("", " "):
            raise Unread("A key that begins with `?` is not read.")
        if _key(text, column) is not None:
            return self._mapping(column, depth)
        return self._scalar(line, column, parent)

    def _sequence(self, column: int, depth: int) -> Place:
        items: list[Place] = []
        start = self._lines[self._at].start + column
        first = True
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not first and (line.indent != column or not _is_dash(line.text, column)):
                break
            first = False
            at = column + 1
            while line.text[at : at + 1] == " ":
                at += 1
            if yaml_scalars.rest_is_comment(line.text, column + 1):
                self._at += 1
                items.append(self._below(column, line.start + column + 1, depth, dash=False))
            else:
                items.append(self._value(line, at, column, depth + 1))
        return self._kept(Place([item.value for item in items], start, items[-1].end), items)

    def _mapping(self, column: int, depth: int) -> Place:
        members: dict[str, Place] = {}
        start = self._lines[self._at].start + column
        self._indents[start] = column
        first = True
        end = start
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not first and line.indent != column:
                break
            first = False
            found = _key(line.text, column)
            if found is None:
                raise Unread("A line in this place has to be `key: value`.")
            key, at = found
            if key in members:
                raise Unread(f"The key `{plain(key)}` stands here twice.")
            if key == "<<":
                raise Unread("A merge key is not read.")
            members[key] = self._member(line, at, column, depth)
            end = members[key].end
        values: Json = {key: place.value for key, place in members.items()}
        return self._kept(Place(values, start, end), members)

    def _member(self, line: _Line, at: int, column: int, depth: int) -> Place:
        blanks = at
        while line.text[at : at + 1] in (" ", "\t") and at < len(line.text):
            at += 1
        if yaml_scalars.rest_is_comment(line.text, blanks):
            self._at += 1
            empty = line.start + blanks
            return self._below(column, empty, depth, dash=True)
        if line.text[at] in "|>":
            return self._folded(line, at, column)
        return self._scalar(line, at, column)

    def _below(self, column: int, empty: int, depth: int, *, dash: bool) -> Place:
        """The value on the lines below, if they belong here; a list may be as far to the left."""
        if self._at < len(self._lines):
            line = self._lines[self._at]
            if line.indent > column or (
                dash and line.indent == column and _is_dash(line.text, column)
            ):
                return self._value(line, line.indent, column, depth + 1)
        return Place(None, empty, empty)

    def _scalar(self, line: _Line, at: int, parent: int) -> Place:
        if line.text[at] in "\"'" and not yaml_scalars.ends_here(line.text, at):
            return self._across(line, at, parent)
        found = yaml_scalars.scalar(line.text, at)
        place = self._moved(found, line.start)
        self._at += 1
        # A line of text may go on below, but not behind a note.
        plain = line.text[at] not in "\"'[{" and not _COMMENT.search(line.text, at)
        parts = [line.text[found.place.start : found.place.end]]
        while self._at < len(self._lines) and self._lines[self._at].indent > parent:
            more = self._lines[self._at]
            if not plain or more.number != line.number + 1 or _NO_TEXT.search(more.text):
                raise Unread("This line does not belong to a value that is read.")
            parts.append(more.text.strip(" \t"))
            place = Place(" ".join(parts), place.start, more.start + len(more.text.rstrip(" \t")))
            line = more
            self._at += 1
        return place

    def _across(self, line: _Line, at: int, parent: int) -> Place:
        """A text in quotes that goes on below, as programs write long ones."""
        start = line.start + at
        value, end = yaml_scalars.quoted_lines(self.text, start, self._end)
        first = line.number - self._raw[0].number + 1
        for below in self._raw[first:]:
            if below.start >= end:
                break
            if below.text.strip(" \t") and below.indent <= parent:
                raise Unread("Quotes that do not end are not read.")
            line = below
        if not yaml_scalars.rest_is_comment(line.text, end - line.start):
            raise Unread("There is more text behind the end of the value.")
        while self._at < len(self._lines) and self._lines[self._at].start < end:
            self._at += 1
        return Place(value, start, end)

    def _folded(self, line: _Line, at: int, parent: int) -> Place:
        match = _BLOCK.fullmatch(line.text, at)
        if match is None:
            raise Unread("This head of a block of text is not read.")
        first = line.number - self._raw[0].number + 1
        body: list[str] = []
        end = line.start + len(line.text)
        size = parent + int(match["size"]) if match["size"] else 0
        for below in self._raw[first:]:
            filled = bool(below.text.strip(" "))
            if filled and not size:
                size = below.indent
            if filled and (below.indent <= parent or below.indent < size):
                break
            body.append(below.text[size:] if filled else "")
            end = below.start + len(below.text) if filled else end
        while self._at < len(self._lines) and self._lines[self._at].start < end:
            self._at += 1
        text = _joined(body, folded=match["style"] == ">").rstrip("\n")
        value = text if match["chomp"] == "-" or not text else f"{text}\n"
        return Place(value, line.start + at, end)

    def _moved(self, found: Scanned, by: int) -> Place:
        """Places on a line as places in the text."""

        def there(place: Place) -> Place:
            return Place(place.value, place.start + by, place.end + by)

        for start, inner in found.inner.items():
            self._inner[start + by] = (
                [there(p) for p in inner]
                if isinstance(inner, list)
                else {key: there(p) for key, p in inner.items()}
            )
        return there(found.place)

    def _kept(self, place: Place, inner: list[Place] | dict[str, Place]) -> Place:
        self._inner[place.start] = inner
        return place

    def _line_end(self, at: int) -> int:
        newline = self.text.find("\n", at, self._end)
        end = self._end if newline < 0 else newline
        return end - 1 if end > at and self.text[end - 1] == "\r" else end

    def _newline(self, near: int) -> str:
        newline = self.text.find("\n", near)
        if newline < 0:
            newline = self.text.rfind("\n", 0, near)
        return "\r\n" if newline > 0 and self.text[newline - 1] == "\r" else "\n"


def _is_note(text: str) -> bool:
    return text.lstrip(" \t").startswith("#")


def _is_dash(text: str, column: int) -> bool:
    return text[column : column + 1] == "-" and text[column + 1 : column + 2] in ("", " ")


def _key(text: str, column: int) -> tuple[str, int] | None:
    """The key that begins here, and where its colon ends; None when it is none."""
    sign = text[column]
    if sign == "\t":
        raise Unread("A tab as indentation is not read.")
    if sign in "\"'":
        try:
            key, end = yaml_scalars.quoted(text, column)
        except Unread:
            return None
        after = text[end:].lstrip(" \t")
        colon = len(text) - len(after)
        return (key, colon + 1) if _COLON.match(text, colon) else None
    if sign in "[{:#" or sign in yaml_scalars.INDICATORS or _is_dash(text, column):
        return None
    match = _COLON.search(text, column)
    if match is None or _COMMENT.search(text, column, match.start()):
        return None
    return text[column : match.start()].rstrip(" \t"), match.end()


def _joined(lines: list[str], *, folded: bool) -> str:
    if not folded:
        return "\n".join(lines)
    text = ""
    for line in lines:
        if not line:
            text += "\n"
        elif text and not text.endswith("\n"):
            text += f" {line}"
        else:
            text += line
    return text
