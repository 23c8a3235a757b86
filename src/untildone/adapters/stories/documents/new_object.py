"""A new story in a list of a JSON or YAML document, with the fields of the one before it."""

import json
from collections.abc import Iterator, Mapping, Sequence

from untildone.adapters.stories.documents.json_text import Edit, Json, JsonText
from untildone.adapters.stories.documents.story_objects import (
    ACCEPTANCE,
    DEPENDENCIES,
    GROUP,
    IDS,
    TITLES,
    Entry,
    States,
)
from untildone.adapters.stories.documents.yaml_text import YamlText, written
from untildone.domain.errors import StoriesError
from untildone.domain.regex import regex
from untildone.domain.stories.story import NewStory

_LAST_NUMBER = regex(r"(?P<before>.*?)(?P<number>[0-9]+)$")
_FIRST_MEMBER = regex(r"\{\s*\n(?P<indent>[ \t]*)")
_TITLES = tuple(key for key in TITLES if key != "description")
# They say which story comes first; a new one comes last, unless it was to follow another.
_ORDER = ("priority", GROUP)


def new_object(
    text: JsonText | YamlText,
    entries: Sequence[Entry],
    states: States,
    at: int,
    new: NewStory,
) -> Edit:
    """The edit that puts the new story behind the entry `at`."""
    entry = entries[at]
    if entry.name:
        raise StoriesError("The stories of this file have names in place of a list")
    value = _value(entries, states, entry, new)
    return (
        _in_json(text, entry, value) if isinstance(text, JsonText) else _in_yaml(text, entry, value)
    )


def _value(entries: Sequence[Entry], states: States, like: Entry, new: NewStory) -> dict[str, Json]:
    others = [entry.value for entry in entries if entry.phase == like.phase]
    title = _field(like, _TITLES) or "title"
    wanted: dict[str, Json] = {title: new.title, **states.fresh()}
    if own := _field(like, IDS):
        wanted[own] = _next_id(like.value[own], [other.get(own) for other in others])
    for keys, given in ((ACCEPTANCE, new.tasks), (DEPENDENCIES, new.depends)):
        key = _field(like, keys)
        if key or given:
            wanted[key or keys[0]] = list(given)
    wanted.update(_order(others, like, new))
    order = dict.fromkeys([*like.value, *wanted])
    return {key: wanted[key] for key in order if key in wanted}


def _field(like: Entry, names: Sequence[str]) -> str:
    """The field of these that it has."""
    return next((name for name in names if name in like.value), "")


def _order(
    others: Sequence[Mapping[str, Json]], like: Entry, new: NewStory
) -> Iterator[tuple[str, Json]]:
    """With the one that it is to follow, or behind all."""
    for key in _ORDER:
        numbers = [n for other in others if isinstance(n := other.get(key), int | float)]
        if isinstance(here := like.value.get(key), int | float):
            yield key, here if new.after else max(numbers) + 1


def _next_id(like: Json, others: Sequence[Json]) -> Json:
    """The next number behind the same word, as wide as the others are."""
    found = _LAST_NUMBER.fullmatch(str(like))
    if not found:
        raise StoriesError(f"No next id follows from the one before it: {like}")
    same = (_LAST_NUMBER.fullmatch(str(other)) for other in others)
    newest = max(int(m["number"]) for m in same if m and m["before"] == found["before"])
    name = f"{found['before']}{newest + 1:0{len(found['number'])}}"
    return int(name) if isinstance(like, int) else name


def _in_json(text: JsonText, like: Entry, value: dict[str, Json]) -> Edit:
    start, end = like.place.start, like.place.end
    before = text.text[len(text.text[:start].rstrip()) : start]
    own = text.text[start:end]
    newline = "\r\n" if "\r\n" in text.text else "\n"
    inner = _FIRST_MEMBER.match(own)
    if inner:
        outer = before.rpartition("\n")[2]
        step = inner["indent"].removeprefix(outer) or "  "
        rows = json.dumps(value, indent=step, ensure_ascii=False).split("\n")
    else:
        outer, rows = "", [json.dumps(value, ensure_ascii=False)]
    return Edit(end, end, f",{before or ' '}" + f"{newline}{outer}".join(rows))


def _in_yaml(text: YamlText, like: Entry, value: dict[str, Json]) -> Edit:
    start = like.place.start
    line = text.text.rfind("\n", 0, start) + 1
    dash = text.text[line:start]
    if text.text[start] == "{" or dash.strip() != "-":
        raise StoriesError("The stories of this file are not written in lines of their own")
    newline = "\r\n" if "\r\n" in text.text else "\n"
    blanks = " " * len(dash)
    rows: list[str] = []
    for key, each in value.items():
        if isinstance(each, list):
            rows += [f"{key}:" if each else f"{key}: []"]
            rows += [f"  - {written(item)}" for item in each]
        else:
            rows.append(f"{key}: {written(each)}")
    at = text.line_end(like.place.end)
    return Edit(at, at, newline + dash + f"{newline}{blanks}".join(rows))
