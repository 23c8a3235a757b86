"""Values as plain data that JSON can hold, whatever kind of class they are made of."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping, Set
from datetime import datetime


def dump(value: object) -> object:
    """A value with the names of its classes and fields; only the module of a class is left out."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if (names := fields_of(value)) is not None:
        return {"class": type(value).__name__} | {n: dump(getattr(value, n)) for n in names}
    if isinstance(value, Mapping):
        pairs = [[dump(key), dump(item)] for key, item in value.items()]
        return sorted(pairs, key=lambda pair: json.dumps(pair[0]))
    if isinstance(value, Set):
        return sorted(map(dump, value), key=json.dumps)
    if isinstance(value, list | tuple):
        return [dump(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"no plain form: {value!r}")


def fields_of(value: object) -> tuple[str, ...] | None:
    """The names of the fields of a dataclass or a msgspec.Struct; None for anything else."""
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return tuple(field.name for field in dataclasses.fields(value))
    names = getattr(type(value), "__struct_fields__", None)
    return None if names is None else tuple(names)


def text(value: object, like: str = "") -> str:
    """The dump of a value as a file, a line per field; the order of fields does not matter.

    With the file of an earlier release, the fields that came after it are left out.
    """
    data = dump(value)
    assert isinstance(data, dict)
    if like:
        data = _pruned(data, json.loads(like))
    assert isinstance(data, dict)
    rows = (f"{json.dumps(name)}: {_line(data[name])}" for name in sorted(data))
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _pruned(now: object, then: object) -> object:
    if isinstance(now, dict) and isinstance(then, dict):
        return {name: _pruned(now[name], then[name]) for name in now if name in then}
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        return [_pruned(one, other) for one, other in zip(now, then, strict=True)]
    return now


def _line(data: object) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True)
