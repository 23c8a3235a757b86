"""Fixtures of the fleet's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fleet.scene import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """A server that is up, and nothing else."""
    made = Fleet()
    try:
        made.up()
        yield made
    finally:
        made.close()
