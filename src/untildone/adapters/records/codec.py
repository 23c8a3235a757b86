"""Facts as JSON and back: dataclasses, enums, datetimes and tuples, by their type hints."""

import dataclasses
import enum
import types
import typing
from collections.abc import Callable
from datetime import datetime
from functools import cache

Json = dict[str, object]
Reader = Callable[[object], object]


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
    return _reader(kind)(data)


@cache
def _reader(kind: object) -> Reader:
    """How to read a type, found out once: a long journal has a hundred thousand values."""
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        inner = _reader(next(k for k in typing.get_args(kind) if k is not type(None)))
        return lambda data: None if data is None else inner(data)
    if origin is tuple:
        return _tuple_reader(typing.get_args(kind))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind
    if kind is datetime:
        return lambda data: datetime.fromisoformat(str(data))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _value_reader(kind)
    return lambda data: data


def _tuple_reader(args: tuple[object, ...]) -> Reader:
    def read(data: object) -> object:
        assert isinstance(data, list)
        readers = [first] * len(data) if endless else fixed
        return tuple(reader(item) for reader, item in zip(readers, data, strict=True))

    endless, first = args[-1] is ..., _reader(args[0])
    fixed = [] if endless else [_reader(arg) for arg in args]
    return read


def _value_reader(kind: type) -> Reader:
    def reader(name: str) -> Reader:
        # Only of fields that occur: to resolve the hints of a class costs start-up time.
        return readers.get(name) or readers.setdefault(name, _reader(hints[name]))

    def read(data: object) -> object:
        assert isinstance(data, dict)
        return kind(**{k: reader(k)(v) for k, v in data.items() if k in hints})

    hints = _hints(kind)
    readers: dict[str, Reader] = {}
    return read


@cache
def _hints(kind: type) -> dict[str, object]:
    names = {field.name for field in dataclasses.fields(kind) if field.init}
    return {k: v for k, v in typing.get_type_hints(kind).items() if k in names}


@cache
def _encoded_fields(kind: type) -> tuple[str, ...]:
    # A story book is read again by every process; in the journal it would make lines of megabytes.
    return tuple(f.name for f in dataclasses.fields(kind) if f.name != "book")
