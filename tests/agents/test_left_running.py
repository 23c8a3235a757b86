"""A tool of a real program that never ends does not outlive a stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agents.rows import programs_with_tools
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.agents.conftest import MakeScene

pytestmark = [pytest.mark.e2e, pytest.mark.agent]


@programs_with_tools
def test_a_stop_ends_the_program_and_its_running_tool(make_scene: MakeScene, name: str) -> None:
    scene = make_scene(name, command="tail -f /dev/null")
    live = scene.start()
    until(lambda: any("tail -f /dev/null" in words for words in scene.living()), what="the tool")
    scene.bench.run("stop", "demo").ok()
    live.wait(15).ok(6)
    assert scene.living() == []
    # droid takes the end of its tool for an answer, and may ask once more before it goes.
    steps = [seen.step for seen in scene.server.main]
    assert steps[0] == ("Alpha greeting", 0)
    assert len(steps) <= (2 if name == "droid" else 1)
    assert scene.bench.state()["status"] == "stopped"
