"""JSON as text: values with the place where they stand, and edits that keep every other byte.

Values and places come from the standard library's own scanner, so the two cannot disagree.
"""

import json
from collections.abc import Iterable, Iterator

from msgspec import Struct

from untildone.domain.errors import StoriesError
from untildone.domain.regex import regex

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_BLANKS = regex(r"[ \t\n\r]*")
_SURROGATES = regex(r"[\ud800-\udfff]")
_MARK = "\ufeff"
# Objects as lists of their pairs: of the same key twice, both are there.
_PAIRS = json.JSONDecoder(object_pairs_hook=list)


class Place(Struct, frozen=True, gc=False):
    """A value and the part of the text that it takes."""

    value: Json
    start: int
    end: int


class Edit(Struct, frozen=True, gc=False):
    """New text for a part of the old one."""

    start: int
    end: int
    text: str


class NotJson(StoriesError):
    """The text is not what it should be; `line` says where."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


class PlacedText:
    """A text with places in it, which is edited by parts."""

    def __init__(self, data: bytes) -> None:
        # Bytes that are not UTF-8 become lone surrogates here, and those bytes again at the end.
        self.text = data.decode("utf-8", "surrogateescape")
        self._counted = (0, 1)

    def edited(self, edits: Iterable[Edit]) -> bytes:
        """The document with these edits; every other byte is the same."""
        parts, at = [], 0
        for edit in sorted(edits, key=lambda edit: edit.start):
            parts += [self.text[at : edit.start], edit.text]
            at = edit.end
        return "".join([*parts, self.text[at:]]).encode("utf-8", "surrogateescape")

    def line(self, at: int) -> int:
        """The number of the line at this position; cheap when asked in rising order."""
        position, line = self._counted if self._counted[0] <= at else (0, 1)
        line += self.text.count("\n", position, at)
        self._counted = (at, line)
        return line


class JsonText(PlacedText):
    """A JSON document that is read in parts and edited in place."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._decoder = json.JSONDecoder(parse_constant=_refuse)

    def root(self) -> Place:
        """The document's one value."""
        found = self._value(self._skip(1 if self.text.startswith(_MARK) else 0))
        rest = self._skip(found.end)
        if rest < len(self.text):
            raise NotJson(self.line(rest), "There is more text behind the end of the JSON value.")
        return found

    def elements(self, array: Place) -> Iterator[Place]:
        """The places of an array's values; an object with the same key twice is an error."""
        at = self._skip(array.start + 1)
        for value in array.value if isinstance(array.value, list) else ():
            pairs = self._value(at, _PAIRS)
            found = Place(value, at, pairs.end)
            if isinstance(value, dict) and _many(pairs.value) != len(value):
                self.members(found)
            yield found
            at = self._skip(found.end)
            if self.text[at] == ",":
                at = self._skip(at + 1)

    def members(self, thing: Place) -> dict[str, Place]:
        """The places of an object's values by key; the same key twice is an error."""
        found: dict[str, Place] = {}
        for key, _, behind, place in self._members(thing):
            if key in found:
                line = self.line(place.start - len(behind))
                raise NotJson(line, f"The key `{plain(key)}` stands here twice.")
            found[key] = place
        return found

    def value_at(self, start: int) -> Place:
        return self._value(start)

    def replaced(self, found: Place, value: Json) -> Edit:
        return Edit(found.start, found.end, _written(value))

    def inserted(self, thing: Place, key: str, value: Json) -> Edit:
        """The edit that adds a member at an object's end, laid out as the one before it."""
        layout = ("", ": ")
        end = thing.start + 1
        for _, before, behind, found in self._members(thing):
            layout, end = (before, behind), found.end
        before, behind = layout
        comma = "," if end > thing.start + 1 else ""
        return Edit(end, end, f"{comma}{before}{_written(key)}{behind}{_written(value)}")

    def _members(self, thing: Place) -> Iterator[tuple[str, str, str, Place]]:
        """Key, the blanks before it, what stands between it and its value, the value."""
        behind = thing.start + 1
        at = self._skip(behind)
        while self.text[at] != "}":
            key = self._value(at)
            found = self._value(self._skip(self._skip(key.end) + 1))
            yield str(key.value), self.text[behind:at], self.text[key.end : found.start], found
            at = self._skip(found.end)
            if self.text[at] == ",":
                behind = at + 1
                at = self._skip(behind)

    def _skip(self, at: int) -> int:
        match = _BLANKS.match(self.text, at)
        assert match is not None
        return match.end()

    def _value(self, at: int, decoder: json.JSONDecoder | None = None) -> Place:
        try:
            value, end = (decoder or self._decoder).raw_decode(self.text, at)
        except json.JSONDecodeError as error:
            raise NotJson(self.line(error.pos), f"This is not JSON: {error.msg}.") from None
        except RecursionError:
            raise NotJson(self.line(at), "The JSON is nested too deeply.") from None
        except ValueError as error:
            raise NotJson(self.line(at), f"The JSON holds a value that is none: {error}") from None
        return Place(value, at, end)


def plain(text: str) -> str:
    """Text that can be printed: halves of characters and foreign bytes are replaced."""
    if text.isascii() or not _SURROGATES.search(text):
        return text
    return _SURROGATES.sub("\ufffd", text)


def _many(pairs: Json) -> int:
    return len(pairs) if isinstance(pairs, list) else 0


def _refuse(name: str) -> Json:
    raise ValueError(f"{name} is no JSON number.")


def _written(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
