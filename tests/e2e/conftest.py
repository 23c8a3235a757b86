"""Fixtures of the black-box tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import new_bench

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bench import Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A fresh bench."""
    made = new_bench()
    yield made
    made.close()
