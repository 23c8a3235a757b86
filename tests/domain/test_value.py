"""No value of the domain can be changed: what a fact says, it says for ever."""

import importlib
import pkgutil
from collections.abc import Iterator

import pytest
from msgspec import Struct

import untildone.domain
from untildone.domain.run.plan import Limits


def modules() -> Iterator[object]:
    for found in pkgutil.walk_packages(untildone.domain.__path__, "untildone.domain."):
        yield importlib.import_module(found.name)


def values() -> set[type[Struct]]:
    found = (value for module in modules() for value in vars(module).values())
    return {v for v in found if isinstance(v, type) and issubclass(v, Struct) and v is not Struct}


def test_every_public_value_is_frozen() -> None:
    names = {value.__name__ for value in values() if not value.__struct_config__.frozen}
    assert {name for name in names if not name.startswith("_")} == set()
    assert len(values()) > 60


def test_an_assignment_is_refused() -> None:
    with pytest.raises(AttributeError):
        Limits().max_retries = 9  # type: ignore[misc]  # what is tested
