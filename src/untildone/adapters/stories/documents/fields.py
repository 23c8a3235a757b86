"""Fields of a story as people write them: a text or a list, a number or a word."""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import lru_cache

from untildone.adapters.stories.checklists import grouping, naming
from untildone.adapters.stories.documents.json_text import Json, plain
from untildone.domain.checks import checks
from untildone.domain.regex import regex

BODY_LIMIT = 8000
TITLE_LIMIT = 200
_LEGAL_ID = regex(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]|\.(?=[A-Za-z0-9_-])){0,79}")
_CAPITAL = regex(r"(?<=[a-z0-9])(?=[A-Z])|[_-]+")
_NUMBER = regex(r"[pP]?([0-9]{1,6}(?:\.[0-9]{1,6})?)")
_PRIORITIES = {
    **dict.fromkeys(("critical", "urgent", "highest", "blocker"), 0),
    **dict.fromkeys(("high", "must", "important"), 1),
    **dict.fromkeys(("medium", "normal", "should", "moderate"), 2),
    **dict.fromkeys(("low", "could", "minor"), 3),
    **dict.fromkeys(("lowest", "trivial", "backlog"), 4),
}

Object = Mapping[str, Json]


def text(value: Json) -> str:
    """A scalar as text that can be printed; anything else is no text."""
    if isinstance(value, str):
        return plain(value).strip()
    if isinstance(value, bool) or value is None or isinstance(value, list | dict):
        return ""
    return str(value)


def first(thing: Object, keys: Iterable[str]) -> str:
    """The first of these fields that holds a text."""
    return next((found for key in keys if (found := text(thing.get(key)))), "")


def texts(value: Json) -> tuple[str, ...]:
    """A list as texts: of its scalars, and of what its objects say."""
    if isinstance(value, str):
        return tuple(line.strip(" \t-*•") for line in plain(value).splitlines() if line.strip())
    if not isinstance(value, list):
        return ()
    return tuple(found for item in value if (found := _said(item)))


def ids(value: Json) -> tuple[str, ...]:
    """The ids in a list of ids, of objects with one, or in a text with commas."""
    if isinstance(value, str):
        return tuple(part for part in re.split(r"[,;\s]+", plain(value)) if part)
    if not isinstance(value, list):
        return (text(value),) if text(value) else ()
    named = (text(v) if not isinstance(v, dict) else first(v, ("id", "number")) for v in value)
    return tuple(name for name in named if name)


def story_id(raw: str) -> str:
    """An id as it is written, if git accepts it as part of a ref; else a name made of it."""
    if _LEGAL_ID.fullmatch(raw) and not raw.endswith(".lock"):
        return raw
    return naming.slug(raw)


def title(value: str) -> str:
    """The first line of a text, bounded."""
    line = naming.normal(next((part for part in value.splitlines() if part.strip()), ""))
    return line if len(line) <= TITLE_LIMIT else f"{line[: TITLE_LIMIT - 1]}…"


def priority(value: Json) -> float | None:
    """A number, or a word for one; lower comes first. A whole number is an `int`."""
    if isinstance(value, bool) or value is None or isinstance(value, list | dict):
        return None
    if isinstance(value, int | float):
        return _whole(value) if abs(value) < 10**9 else None
    number = _NUMBER.fullmatch(value.strip())
    return _whole(float(number[1])) if number else _PRIORITIES.get(value.strip().lower())


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number


def body(thing: Object, used: Set[str]) -> str:
    """What the object says beside the fields that are used elsewhere, as text for a prompt."""
    parts = [
        part for key, value in thing.items() if key not in used for part in _section(key, value)
    ]
    return bounded("\n\n".join(parts))


def bounded(long: str) -> str:
    """The text, cut at a line end when it is too long."""
    return grouping.bounded(long, BODY_LIMIT)


def _section(key: str, value: Json) -> Iterator[str]:
    if key.lower() == "description":
        yield from filter(None, [text(value)])
        return
    if not value:
        return
    if isinstance(value, list):
        listed = texts(value)
        if listed:
            yield "\n".join([f"{_label(key)}:", *(f"- {line}" for line in listed)])
    elif found := text(value):
        # A setting begins its own line.
        between = "\n" if "\n" in found or checks.is_setting(found) else " "
        yield f"{_label(key)}:{between}{found}"


@lru_cache(maxsize=64)  # every story of a file has the same fields
def _label(key: str) -> str:
    return _CAPITAL.sub(" ", plain(key)).strip().capitalize() or "Also"


def _said(item: Json) -> str:
    if isinstance(item, dict):
        named = first(item, ("description", "text", "criterion", "title", "name", "value"))
        return named or ", ".join(f"{plain(k)}: {text(v)}" for k, v in item.items() if text(v))
    return text(item)
