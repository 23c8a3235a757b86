"""Real programs in two lanes: each in a slot of its own, and one limit for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agents.rows import for_programs
from tests.modelserver.script import Day

if TYPE_CHECKING:
    from tests.agents.conftest import MakeScene
    from tests.agents.scene import Scene

pytestmark = [pytest.mark.e2e, pytest.mark.agent]

LANES = ("--lanes", "2", "--optimistic")
# Each slot is a folder of its own, which the model of a story does not know.
WRITES = "echo $UNTILDONE_STORY_ID > work-$UNTILDONE_STORY_ID.txt"
programs_in_lanes = for_programs(("claude", "codex", "goose"))


def check_done(scene: Scene) -> None:
    """Both stories have landed, each with the work of its own slot."""
    for story in ("1", "2"):
        assert scene.bench.blob("ralph/demo", f"work-{story}.txt") == story
    assert scene.bench.git("rev-list", "--min-parents=2", "ralph/demo") == ""
    subjects = scene.bench.subjects("feature/x..ralph/demo")
    assert sorted(row for row in subjects if "checkpoint" in row) == [
        *("checkpoint: 1", "checkpoint: 2")
    ]
    scene.alone()


@programs_in_lanes
def test_two_stories_at_once(make_scene: MakeScene, name: str) -> None:
    scene = make_scene(name, command=WRITES)
    result = scene.run(*LANES).ok()
    check_done(scene)
    assert len(scene.server.main) == 2 * scene.program.turns
    assert {event["lane"] for event in result.named("iteration_started")} == {0, 1}


@programs_in_lanes
def test_a_dead_quota_costs_one_call_of_each_lane_at_most(make_scene: MakeScene, name: str) -> None:
    scene = make_scene(name, Day.RATE_LIMIT, reset_s=4, lasts_s=4, command=WRITES)
    result = scene.run(*LANES, "--max-retries", "0").ok()
    check_done(scene)
    refused = [seen for seen in scene.server.main if seen.day]
    assert 1 <= len(refused) <= 2 * scene.tries(Day.RATE_LIMIT)
    started = result.named("iteration_started")
    assert len(started) <= 4
    assert {event["attempt"] for event in started} == {1}
