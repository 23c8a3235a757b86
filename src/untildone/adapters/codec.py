"""Facts as JSON and back: dataclasses, enums, datetimes and tuples, by their type hints."""

import dataclasses
import enum
import types
import typing
from datetime import datetime
from functools import cache

Json = dict[str, object]


def encode(value: object) -> object:
    """A value as plain JSON data."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = _encoded_fields(type(value))
        return {name: encode(getattr(value, name)) for name in names}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    return value


def stamp(at: datetime) -> str:
    """ISO 8601 with milliseconds and the zone."""
    return at.isoformat(timespec="milliseconds")


def decode(kind: object, data: object) -> object:
    """Plain JSON data as a value of this type; unknown fields are passed over."""
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        if data is None:
            return None
        return decode(next(k for k in typing.get_args(kind) if k is not type(None)), data)
    if origin is tuple:
        assert isinstance(data, list)
        args = typing.get_args(kind)
        kinds = [args[0]] * len(data) if args[-1] is ... else args
        return tuple(decode(k, item) for k, item in zip(kinds, data, strict=True))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(data)
    if kind is datetime:
        return datetime.fromisoformat(str(data))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        assert isinstance(data, dict)
        hints = _hints(kind)
        return kind(**{k: decode(hints[k], v) for k, v in data.items() if k in hints})
    return data


@cache
def _hints(kind: type) -> dict[str, object]:
    names = {field.name for field in dataclasses.fields(kind) if field.init}
    return {k: v for k, v in typing.get_type_hints(kind).items() if k in names}


@cache
def _encoded_fields(kind: type) -> tuple[str, ...]:
    # A story book is read again by every process; in the journal it would make lines of megabytes.
    return tuple(f.name for f in dataclasses.fields(kind) if f.name != "book")
