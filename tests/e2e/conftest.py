"""Fixtures of the black-box tests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import new_bench

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bench import Bench


ROW = re.compile(r"test_S\d+(_[A-Z]\d+)*")
# What is tried besides the hazard itself: the checkpoint, the agent's last word, what comes after.
AXES = {"checkpoint", "variant", "promise", "words"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A share of what `make test-full` tries is tried on every push.

    Each hazard once, with the checkpoint variants in turns; one test of each row of the contract,
    and of each other file, with the command as it is installed.
    """
    hazards: dict[tuple[str, ...], list[pytest.Item]] = {}
    for item in items:
        if key := _hazard(item):
            hazards.setdefault(key, []).append(item)
    for turn, same in enumerate(hazards.values()):
        on_push = same[(turn + turn // len(same)) % len(same)]
        for item in same:
            if item is not on_push:
                item.add_marker("full")
    subjects: dict[object, pytest.Item] = {}
    for item in items:
        if "bench" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("full"):
            row = ROW.match(item.name)
            subjects.setdefault(row[0] if row else item.path, item)
    for item in subjects.values():
        item.add_marker("installed")


def _hazard(item: pytest.Item) -> tuple[str, ...]:
    """The same for tests of one hazard; empty for tests that have no such company."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    if "_put_back_to_the_" in item.name:
        return "put back", given["case"]  # with a side branch in one file, with stashes in another
    if "test_hazards_" not in item.path.name or not given.keys() & AXES:
        return ()
    rest = (f"{name}={value}" for name, value in given.items() if name not in AXES)
    return item.nodeid.partition("[")[0], *rest


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A fresh bench."""
    installed = request.node.get_closest_marker("installed") is not None
    made = new_bench(installed=installed or request.config.getoption("installed"))
    yield made
    made.close()
