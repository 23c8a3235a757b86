"""Each real program drives a change to done against the scripted model, and every token counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agents.rows import every_program
from tests.agents.scene import TITLES

if TYPE_CHECKING:
    from tests.agents.conftest import MakeScene

pytestmark = [pytest.mark.e2e, pytest.mark.agent]


@every_program
def test_two_stories_to_done(make_scene: MakeScene, name: str) -> None:
    scene = make_scene(name)
    result = scene.run().ok()
    assert result.outcomes() == ["complete", "complete"]
    for word in ("alpha", "bravo"):
        assert scene.bench.blob("ralph/demo", f"{word}.txt") == f"Hello from {word}."
    turns = [(title, n) for title in TITLES for n in range(scene.program.turns)]
    assert [seen.step for seen in scene.server.main] == turns
    assert scene.bench.state()["status"] == "done"
    scene.check_tokens()
    scene.alone()
