"""With `--resume-session` a retry goes on with the conversation, and every token counts once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agents.rows import programs_that_go_on
from tests.agents.scene import TITLES

if TYPE_CHECKING:
    from tests.agents.conftest import MakeScene

pytestmark = [pytest.mark.e2e, pytest.mark.agent]


@programs_that_go_on
def test_a_retry_goes_on_and_the_next_story_begins_anew(make_scene: MakeScene, name: str) -> None:
    scene = make_scene(name)
    flag = scene.bench.home / "checked"
    # It is tried once before the first call.
    check = f"test ! -e alpha.txt || test -e '{flag}' || {{ touch '{flag}'; exit 1; }}"
    result = scene.run("--resume-session", "--verify", check).ok()
    assert result.outcomes() == ["verify_failed", "complete", "complete"]
    alpha, bravo = TITLES
    calls = [title for title in (alpha, alpha, bravo) for _ in range(scene.program.turns)]
    assert [seen.step[0] for seen in scene.server.main] == calls
    # How often a story stood in the first request of each call: aider says it twice.
    first, again, new = (seen.place.prompts for seen in scene.server.main[:: scene.program.turns])
    assert (again > first, new) == (True, first)
    scene.check_tokens()
    scene.alone()
