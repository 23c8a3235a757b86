"""`untildone status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def test_status_without_any_loop(bench: Bench) -> None:
    assert bench.run("status", "--json").ok().json() == {"loops": []}
    assert bench.run("status").ok().stdout


def test_status_of_a_live_loop(bench: Bench) -> None:
    bench.plan({}, default=[["sleep", 600]])
    live = bench.begin()
    bench.wait_call(1)
    (loop,) = bench.loops()
    assert loop.items() >= bench.state().items()
    assert (loop["worktree"], loop["alive"], loop["pid"]) == (str(bench.repo), True, live.pid)
    assert (loop["status"], loop["story_id"], loop["current_iteration"]) == ("running", "1", 1)
    said = bench.run("status").ok().stdout
    assert "demo" in said
    assert "running" in said


def test_status_sees_the_loops_of_all_worktrees(bench: Bench) -> None:
    linked = bench.root / "linked"
    bench.git("worktree", "add", "-q", "-b", "feature/y", str(linked))
    bench.plan({}, default=[["say", "nothing"]])
    bench.loop("one", "--task", "One").ok(4)
    bench.loop("two", "--task", "Two", cwd=linked).ok(4)
    found = {loop["worktree"]: loop["change_id"] for loop in bench.loops()}
    assert found == {str(bench.repo): "one", str(linked): "two"}


def test_status_changes_nothing(bench: Bench) -> None:
    before = bench.snapshot()
    bench.run("status").ok()
    assert bench.snapshot() == before
