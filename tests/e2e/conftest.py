"""Fixtures of the black-box tests."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench import Bench

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A fresh bench; a short path of letters and digits, so that agents' path slugs are plain."""
    root = Path(tempfile.gettempdir()).resolve() / f"ud{secrets.token_hex(6)}"
    made = Bench(root)
    yield made
    made.close()
