"""`untildone status`."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, fails
from tests.e2e.waiting import until

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


# -- a loop that died ---------------------------------------------------------------------------


def _killed_at_work(bench: Bench) -> None:
    """The second story's agent is at work when the loop and its watchdog are killed."""
    bench.plan({2: [["say", "on it"], ["sleep", 600]]})
    live = bench.begin("--verify", "true")
    live.wait_event("agent_text", text="on it\n")
    live.kill_unguarded()


def test_a_killed_loop_is_shown_as_died_everywhere(bench: Bench) -> None:
    _killed_at_work(bench)
    (loop,) = bench.loops()
    assert (loop["status"], loop["phase"], loop["reason"]) == ("stopped", "died", "stopped")
    assert loop["last_sign"] == loop["died_at"] > loop["started_at"]
    state = bench.state()
    assert (state["phase"], state["died_at"]) == ("died", loop["died_at"])
    said = bench.run("status").ok().stdout
    assert "demo: died: its loop is gone without a word" in said
    assert "last sign of life: " in said
    assert "next: untildone resume demo" in said
    report = bench.run("report", "demo").ok().stdout
    assert re.search(r"Died after .*last sign of life: .*untildone resume demo.* goes on", report)
    doctor = bench.run("doctor", env={"PATH": None}).stdout
    assert re.search(r"The run of `demo` died \(last sign of life: .*\)", doctor)
    bench.run("resume", "demo", "--json").ok()
    (loop,) = bench.loops()
    assert (loop["status"], loop["phase"], "died_at" in loop) == ("done", "ended", False)


def test_what_is_noted_for_a_dead_loop_is_no_sign_of_life(bench: Bench) -> None:
    _killed_at_work(bench)
    (before,) = bench.loops()
    bench.run("guide", "demo", "Be brief.").ok()
    (after,) = bench.loops()
    assert (after["phase"], after["last_sign"]) == ("died", before["last_sign"])


@pytest.mark.parametrize("how", ["stop", "SIGTERM"])
def test_a_loop_that_was_asked_to_stop_has_not_died(bench: Bench, how: str) -> None:
    bench.plan({}, default=[["sleep", 600]])
    live = bench.begin()
    bench.wait_call(1)
    if how == "stop":
        bench.run("stop", "demo").ok()
    else:
        live.signal(signal.SIGTERM)
    live.wait()
    bench.run("guide", "demo", "Be brief.").ok()  # writes the state file of a loop that is gone
    (loop,) = bench.loops()
    assert (loop["status"], loop["phase"], "died_at" in loop) == ("stopped", "stopped", False)
    assert "died" not in bench.run("status").ok().stdout


def test_an_undone_run_has_not_died(bench: Bench) -> None:
    bench.plan({2: [["wait", bench.gate("go")], *DONE]})
    live = bench.begin()
    bench.wait_call(2)
    bench.run("stop", "demo", "--after-iteration").ok()
    bench.open_gate("go")
    live.wait().ok(6)
    undone = bench.run("undo", "demo", "--json").ok().json()
    assert undone["undone"]["name"] == "checkpoint"
    (loop,) = bench.loops()
    assert (loop["status"], loop["phase"]) == ("stopped", "stopped")


# -- in the morning ------------------------------------------------------------------------------


def test_status_in_the_morning_says_all_on_one_screen(bench: Bench) -> None:
    bench.plan({1: DONE}, default=fails("the disk is full"))
    bench.loop("--max-retries", "1", "--verify", "true").ok(3)
    said = bench.run("status").ok().stdout
    rows = [row.strip() for row in said.splitlines()]
    assert rows[0] == "demo: stuck, kept (not running)"
    for row in (
        "last story: 2 Bravo greeting, attempt 2",
        "why: a story has no retry left",
        "last failed call: 3, the agent gave up: the disk is full",
        "done: 1 of 3 stories, 1 verified by a check",
        "calls: 3 of at most 6, command",
        "tokens: unknown",
        "cost: unknown",
        "next: untildone resume demo",
    ):
        assert row in rows
    for label in ("started: ", "last sign of life: "):
        assert any(re.match(rf"{label}\d\d:\d\d:\d\d \(\d+s ago\)", row) for row in rows)
    assert len(rows) <= 24
    assert max(map(len, rows)) <= 120


def test_status_of_a_live_loop_names_the_story_and_its_title(bench: Bench) -> None:
    bench.plan({}, default=[["sleep", 600]])
    bench.begin()
    bench.wait_call(1)
    said = bench.run("status").ok().stdout
    assert "demo: running, the agent is at work\n  story: 1 Alpha greeting, attempt 1\n" in said
    assert "none verified by a check (no check was given: by the agent's word alone)" in said
    assert "next: untildone logs demo --follow" in said


@pytest.mark.parametrize("checkpoint", ["branch", "stash", "worktree"])
def test_status_after_cleanup_names_undo(bench: Bench, checkpoint: str) -> None:
    bench.only_stories(1)
    bench.plan()
    bench.loop("--checkpoint", checkpoint, "--on-complete", "cleanup").ok()
    assert "next: untildone undo (takes the cleanup back)" in bench.run("status").ok().stdout
    bench.run("undo").ok()
    assert "untildone undo" not in bench.run("status").ok().stdout


def test_status_after_the_cleanup_of_a_stuck_run_names_undo(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: fails()})
    bench.loop("--max-retries", "0").ok(3)
    bench.run("finish", "demo", "cleanup").ok()
    assert "next: untildone undo" in bench.run("status").ok().stdout


def test_status_is_watched(bench: Bench) -> None:
    bench.plan({1: [["wait", bench.gate("go")], ["say", COMPLETE]]})
    live = bench.begin()
    bench.wait_call(1)
    terminal = bench.terminal("status", "--watch")
    script = bench.start("status", "--watch", "--json")
    terminal.wait_text("demo: running, the agent is at work")
    bench.open_gate("go")
    live.wait().ok()
    terminal.wait_text("demo: done, kept (not running)")
    terminal.type("\x03")
    assert terminal.wait() == 130
    until(lambda: '"phase": "ended"' in script.stdout)
    script.signal(signal.SIGINT)
    rows = [json.loads(line) for line in script.wait().ok(130).stdout.splitlines()]
    states = [row["loops"][0]["status"] for row in rows]
    assert (states[0], states[-1]) == ("running", "done")


def test_the_end_and_the_status_name_what_is_not_done(bench: Bench) -> None:
    bench.plan({2: fails("no database")})
    flags = ("--agent-cmd", bench.agent, "--max-retries", "0", "--verify", "test -e work-1.txt")
    ended = bench.run("run", "demo", *flags).ok(3).stdout
    assert "Done: 1 of 3 stories, 1 verified by a check; 2 calls, cost unknown\n" in ended
    assert "  not done: 2 Bravo greeting\n  not done: 3 Charlie greeting\n" in ended
    page = bench.run("status").ok().stdout
    assert "not done: 2 Bravo greeting (failed), 3 Charlie greeting (not started)\n" in page
