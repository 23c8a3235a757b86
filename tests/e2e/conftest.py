"""Fixtures of the black-box tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import new_bench

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bench import Bench


VARIANT = {"checkpoint", "variant"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every hazard with one checkpoint variant on each push, in turns; `make test-full` has all."""
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


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A fresh bench."""
    made = new_bench()
    yield made
    made.close()
