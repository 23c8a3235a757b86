"""A run that goes on with another number of lanes: open work is settled where it was begun."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.e2e.test_lanes import BRANCH, WORK, Lanes
from tests.e2e.users_tree import linked
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

HALF = "echo half > half.txt; while :; do sleep 0.05; done"


def test_one_lane_after_a_kill_of_two_has_all_that_landed(bench: Bench) -> None:
    lanes = Lanes(bench, 4, {"1-1": HALF, "any": WORK})
    live = lanes.begin(2)
    live.wait_event("landed", story_id="4")
    half = next(call[3] for call in lanes.calls() if call[0] == "1")
    until((bench.path(half) / "half.txt").exists, what="half of a story")
    live.signal(signal.SIGKILL)
    live.wait()
    before = bench.git("rev-parse", BRANCH)
    bench.run("resume", "demo", "--json", "--lanes", "1").ok()
    lanes.assert_whole(4)
    assert bench.git("merge-base", before, BRANCH) == before
    assert bench.git("show", "refs/ralph/attempts/demo/1/1:half.txt") == "half"
    assert [call[0] for call in lanes.calls()].count("1") == 2


def test_several_lanes_after_a_kill_of_one_keep_no_half_of_a_story(bench: Bench) -> None:
    lanes = Lanes(bench, 4, {"1-1": HALF, "any": WORK})
    live = lanes.begin(1, "--checkpoint", "worktree")
    until(lambda: (linked(bench) / "half.txt").exists(), what="half of a story")
    live.signal(signal.SIGKILL)
    live.wait()
    bench.run("resume", "demo", "--json", "--lanes", "3").ok()
    lanes.assert_whole(4)
    assert "half.txt" not in bench.git("ls-tree", "--name-only", BRANCH)
    assert bench.git("show", "refs/ralph/attempts/demo/1/1:half.txt") == "half"
    assert {call[2] for call in lanes.calls()} == {"", "0", "1", "2"}
