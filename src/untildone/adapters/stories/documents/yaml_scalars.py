"""What stands on one line of YAML: scalars, quoted or not, and flow collections."""

import json
import re

from msgspec import Struct

from untildone.adapters.stories.documents.json_text import Json, Place, plain

_DEEPEST = 20
_BLANKS = re.compile(r"[ \t]*")
_DOUBLE = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_SINGLE = re.compile(r"'(?:[^']|'')*+'")
# A line end is a blank, empty lines are line ends; in double quotes a line end can be escaped.
_FOLD = r"[ \t]*\r?\n(?P<empty>(?:[ \t]*\r?\n)*)[ \t]*"
_SINGLE_FOLD = re.compile(_FOLD)
_DOUBLE_FOLD = re.compile(rf"(?P<nothing>\\\r?\n[ \t]*)|(?P<sign>\\.)|{_FOLD}")
_COMMENT = re.compile(r"(?:^|[ \t])#|$")
_FLOW_END = re.compile(r"[,\[\]{}]|:(?=[ \t,\[\]{}]|$)|[ \t]#|$")
_INT = re.compile(r"[-+]?[0-9]{1,15}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,15}\.[0-9]{0,15}|\.[0-9]{1,15})(?:[eE][-+]?[0-9]{1,3})?")
# What JSON does not know; as JSON writes it.
_ESCAPES = {"\\'": "'", "\\ ": " ", "\\_": "\xa0", "\\\t": "\t"} | {
    f"\\{name}": f"\\u00{code:02x}" for name, code in (("0", 0), ("a", 7), ("v", 11), ("e", 27))
}
_ESCAPE = re.compile(r"\\.")
_DASH = re.compile(r"-(?:[ \t]|$)")
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ ./()-]*(?<! )")
_WORDS: dict[str, Json] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
INDICATORS = "&*!|>%`,]}?"


class Unread(ValueError):
    """A construct that is not read; the message says which."""


class Scanned(Struct, frozen=True):
    """A value on one line with the places of what is in it, by where they start."""

    place: Place
    inner: dict[int, list[Place] | dict[str, Place]]


def resolved(plain: str) -> Json:
    """What a scalar without quotes means."""
    if plain in _WORDS:
        return _WORDS[plain]
    if _INT.fullmatch(plain):
        return int(plain)
    return float(plain) if _FLOAT.fullmatch(plain) else plain


def written(value: Json, like: str = "") -> str:
    """The scalar as text, in the quotes of the one it is to replace."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    text = str(value)
    if like.startswith("'"):
        return "'" + text.replace("'", "''") + "'"
    if like.startswith('"') or not _SAFE.fullmatch(text) or resolved(text) != value:
        return json.dumps(text, ensure_ascii=False)
    return text


def quoted(text: str, at: int) -> tuple[str, int]:
    """A scalar in quotes, and where it ends."""
    pattern = _DOUBLE if text[at] == '"' else _SINGLE
    match = pattern.match(text, at)
    if match is None:
        raise Unread("Quotes that do not end on their line are not read.")
    inside = match[0]
    if text[at] == "'":
        return inside[1:-1].replace("''", "'"), match.end()
    inside = _ESCAPE.sub(lambda match: _ESCAPES.get(match[0], match[0]), inside)
    try:
        return str(json.loads(inside, strict=False)), match.end()
    except ValueError:
        raise Unread("An escape in these quotes is not read.") from None


def ends_here(text: str, at: int) -> bool:
    """The quotes that begin here end on this line."""
    return bool((_DOUBLE if text[at] == '"' else _SINGLE).match(text, at))


def quoted_lines(text: str, at: int, end: int) -> tuple[str, int]:
    """A scalar in quotes that goes over several lines, and where it ends."""
    match = (_DOUBLE if text[at] == '"' else _SINGLE).match(text, at, end)
    if match is None:
        raise Unread("Quotes that do not end are not read.")
    if text[at] == "'":
        inside = _SINGLE_FOLD.sub(lambda m: "\n" * m["empty"].count("\n") or " ", match[0])
    else:
        inside = _DOUBLE_FOLD.sub(_unfolded, match[0])
    return quoted(inside, 0)[0], match.end()


def _unfolded(found: re.Match[str]) -> str:
    if found["empty"] is None:
        return found["sign"] or ""
    return "\\n" * found["empty"].count("\n") or " "


def rest_is_comment(text: str, at: int) -> bool:
    """Nothing but a comment follows."""
    end = _blanks(text, at)
    return end == len(text) or (text[end] == "#" and (end > at or at == 0))


def scalar(text: str, at: int) -> Scanned:
    """The value that begins here and ends with the line."""
    if text[at] in "[{":
        found = flow(text, at)
    elif text[at] in "\"'":
        value, end = quoted(text, at)
        found = Scanned(Place(value, at, end), {})
    else:
        return _plain(text, at)
    if not rest_is_comment(text, found.place.end):
        raise Unread("There is more text behind the end of the value.")
    return found


def flow(text: str, at: int, depth: int = 0) -> Scanned:
    """A list or an object in brackets."""
    if depth > _DEEPEST:
        raise Unread("The brackets are nested too deeply.")
    is_list = text[at] == "["
    inner: dict[int, list[Place] | dict[str, Place]] = {}
    items: list[Place] = []
    keyed: dict[str, Place] = {}
    key = ""
    cursor = _blanks(text, at + 1)
    closing = "]" if is_list else "}"
    while text[cursor : cursor + 1] != closing:
        if not is_list:
            key, cursor = _flow_key(text, cursor)
            if key in keyed:
                raise Unread(f"The key `{plain(key)}` stands here twice.")
        item = _flow_value(text, cursor, depth)
        inner |= item.inner
        if is_list:
            items.append(item.place)
        else:
            keyed[key] = item.place
        cursor = _blanks(text, item.place.end)
        if text[cursor : cursor + 1] == ",":
            cursor = _blanks(text, cursor + 1)
        elif text[cursor : cursor + 1] != closing:
            raise Unread("Brackets that do not end on their line are not read.")
    value: Json = [p.value for p in items] if is_list else {k: p.value for k, p in keyed.items()}
    inner[at] = items if is_list else keyed
    return Scanned(Place(value, at, cursor + 1), inner)


def _flow_key(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] in ('"', "'"):
        key, end = quoted(text, at)
    else:
        end = _end(_FLOW_END, text, at)
        key = text[at:end].strip(" \t")
    end = _blanks(text, end)
    if text[end : end + 1] != ":" or not key or _is_odd(text[at:]):
        raise Unread("A key in brackets has no value.")
    return key, _blanks(text, end + 1)


def _flow_value(text: str, at: int, depth: int) -> Scanned:
    sign = text[at : at + 1]
    if not sign:
        raise Unread("Brackets that do not end on their line are not read.")
    if sign in "[{":
        return flow(text, at, depth + 1)
    if sign in "\"'":
        value, end = quoted(text, at)
        return Scanned(Place(value, at, end), {})
    end = _end(_FLOW_END, text, at)
    plain = text[at:end].rstrip(" \t")
    if not plain or _is_odd(plain) or text[end : end + 1] in (":", "[", "{"):
        raise Unread("This value in brackets is not read; put it in quotes.")
    return Scanned(Place(resolved(plain), at, at + len(plain)), {})


def _is_odd(text: str) -> bool:
    return text[0] in INDICATORS or text[0] == "#" or bool(_DASH.match(text))


def _plain(text: str, at: int) -> Scanned:
    if text[at] in INDICATORS or _DASH.match(text, at):
        raise Unread(f"A value that begins with `{text[at]}` is not read; put it in quotes.")
    end = _end(_COMMENT, text, at)
    plain = text[at:end].rstrip(" \t")
    if re.search(r":(?=[ \t]|$)", plain):
        raise Unread("A value with a colon and a blank in it is not read; put it in quotes.")
    return Scanned(Place(resolved(plain), at, at + len(plain)), {})


def _blanks(text: str, at: int) -> int:
    return _end(_BLANKS, text, at, behind=True)


def _end(pattern: re.Pattern[str], text: str, at: int, *, behind: bool = False) -> int:
    match = pattern.match(text, at) if behind else pattern.search(text, at)
    assert match is not None
    return match.end() if behind else match.start()
