"""`untildone stop`: now, after the iteration, after the story."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import failed

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def test_stop_now_is_the_default(bench: Bench) -> None:
    bench.plan({}, default=[["write", "half.txt", "x"], ["sleep", 600]])
    live = bench.begin()
    bench.wait_call(1)
    bench.run("stop", "demo").ok()
    result = live.wait(10).ok(6)
    assert result.outcomes() == ["interrupted"]
    assert result.one("complete")["reason"] == "stopped"
    assert bench.state()["status"] == "stopped"
    assert bench.processes() == []


def test_stop_without_a_name_stops_the_loop_of_this_worktree(bench: Bench) -> None:
    bench.plan({}, default=[["sleep", 600]])
    live = bench.begin()
    bench.wait_call(1)
    bench.run("stop", "--now").ok()
    live.wait(10).ok(6)


def test_stop_after_iteration(bench: Bench) -> None:
    bench.plan({1: [["wait", bench.gate("go")], ["say", failed("no")]]})
    live = bench.begin()
    bench.wait_call(1)
    bench.run("stop", "demo", "--after-iteration").ok()
    bench.open_gate("go")
    result = live.wait().ok(6)
    assert result.outcomes() == ["failed"]
    assert len(bench.calls()) == 1
    assert bench.state()["status"] == "stopped"
    bench.run("resume", "demo", "--json").ok()
    assert bench.state()["status"] == "done"


def test_stop_after_story(bench: Bench) -> None:
    bench.plan({1: [["wait", bench.gate("go")], ["say", failed("no")]]})
    live = bench.begin()
    bench.wait_call(1)
    bench.run("stop", "demo", "--after-story").ok()
    bench.open_gate("go")
    result = live.wait().ok(6)
    assert result.outcomes() == ["failed", "complete"]
    assert bench.subjects("feature/x..ralph/demo") == ["initial state", "checkpoint: 1"]
    assert bench.state()["status"] == "stopped"


def test_stop_during_a_wait(bench: Bench) -> None:
    bench.install_claude()
    bench.plan({}, default=[["limit", 3600]])
    live = bench.begin("--agent", "claude")
    live.wait_event("waiting")
    bench.run("stop", "demo").ok()
    live.wait(10).ok(6)
    assert bench.state()["status"] == "stopped"
