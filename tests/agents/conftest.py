"""Fixtures of the tests with real agent programs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.install import EVERY_PUSH, pins
from tests.agents.loopback import only_loopback
from tests.agents.programs import PROGRAMS
from tests.agents.scene import Scene
from tests.e2e.bench import new_bench
from tests.e2e.conftest import bench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    MakeScene = Callable[..., Scene]

__all__ = ["bench"]


@pytest.fixture
def make_scene() -> Iterator[MakeScene]:
    """Builds the scene of one program, out of reach of any network where the machine allows it."""
    made: list[Scene] = []

    def make(name: str, *about: Any, **more: Any) -> Scene:
        if why := pins()[name].missing():
            needed = os.environ.get("CI") == "true" and name in EVERY_PUSH
            pytest.fail(why) if needed else pytest.skip(why)
        made.append(Scene(new_bench(installed=True), PROGRAMS[name], *about, **more))
        made[-1].server.__enter__()
        return made[-1]

    with only_loopback():
        yield make
        for scene in made:
            scene.server.__exit__()
            scene.bench.close()
