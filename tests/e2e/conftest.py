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
VARIANT = {"checkpoint", "variant"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A share of what `make test-full` tries is tried on every push.

    Each hazard with one checkpoint variant, in turns; one test of each row of the contract, and of
    each other file, with the command as it is installed.
    """
    cases: dict[tuple[str, ...], list[pytest.Item]] = {}
    for item in items:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        if "test_hazards_" in item.path.name and given.keys() & VARIANT:
            rest = (f"{name}={value}" for name, value in given.items() if name not in VARIANT)
            cases.setdefault((item.nodeid.partition("[")[0], *rest), []).append(item)
    for turn, same in enumerate(cases.values()):
        on_push = (turn + turn // len(same)) % len(same)
        for item in same[:on_push] + same[on_push + 1 :]:
            item.add_marker("full")
    subjects: dict[object, pytest.Item] = {}
    for item in items:
        if "bench" in getattr(item, "fixturenames", ()):
            row = ROW.match(item.name)
            subjects.setdefault(row[0] if row else item.path, item)
    for item in subjects.values():
        item.add_marker("installed")


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A fresh bench."""
    installed = request.node.get_closest_marker("installed") is not None
    made = new_bench(installed=installed or request.config.getoption("installed"))
    yield made
    made.close()
