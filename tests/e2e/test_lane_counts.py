"""Runs with another number of lanes than before, and beside each other."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.e2e.change import TASKS
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


def test_a_second_run_in_lanes_is_refused_while_the_slots_are_taken(bench: Bench) -> None:
    gate = bench.gate("go")
    lanes = Lanes(bench, 2, {"any": f"while [ ! -f {gate} ]; do sleep 0.02; done; {WORK}"})
    bench.write(TASKS.replace("demo", "other"), bench.read(TASKS))
    bench.commit("other")
    live = lanes.begin(2)
    lanes.until_calls(2)
    refused = bench.run("run", "other", *lanes.args(2)).ok(2)
    assert "Another loop works in the slot of lane 0" in refused.stderr
    assert "--checkpoint worktree --lanes 1" in refused.stderr
    bench.open_gate("go")
    live.wait().ok()
    lanes.assert_whole(2)
    bench.run("run", "other", "--json", *lanes.args(2)).ok()
