"""The screens of `untildone ui` at 60, 80 and 120 columns, as they were looked at."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.interfaces.tui.frames import SCENES, drawn, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", SCENES)
def test_a_screen_is_as_it_was(tmp_path: Path, name: str) -> None:
    found = drawn(SCENES[name], tmp_path / "repo")
    known = {width: path_of(name, width).read_text(encoding="utf-8") for width in found}
    assert found == known, "`python -m tests.interfaces.tui.frames` writes it again"
