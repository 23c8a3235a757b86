"""`untildone resume`, and `run` where a run can go on."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, fails

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def test_resume_after_stuck_renews_the_retries_and_keeps_the_flags(bench: Bench) -> None:
    bench.plan({1: DONE}, default=fails())
    bench.loop("--max-retries", "1", "--max-iterations", "7").ok(3)
    assert len(bench.calls()) == 3
    bench.plan({4: fails()})
    result = bench.run("resume", "demo", "--json").ok()
    # Attempts may be counted on or anew; what is left of them tells the renewed retries.
    left = [
        (e["story_id"], e["attempts_allowed"] - e["attempt"])
        for e in result.named("iteration_started")
    ]
    assert left == [("2", 1), ("2", 0), ("3", 1)]
    state = bench.state()
    assert (state["max_iterations"], state["status"]) == (10, "done")
    assert [entry["n"] for entry in state["iterations"]] == [1, 2, 3, 4, 5, 6]
    assert bench.subjects("feature/x..ralph/demo") == [
        "initial state",
        "checkpoint: 1",
        "checkpoint: 2",
        "checkpoint: 3",
    ]


def test_resume_flags_override(bench: Bench) -> None:
    bench.plan({}, default=fails())
    bench.loop("--max-retries", "1").ok(3)
    bench.run("resume", "demo", "--json", "--max-retries", "0").ok(3)
    assert len(bench.calls()) == 3


def test_resume_without_a_name(bench: Bench) -> None:
    bench.plan({}, default=fails())
    bench.loop("--max-retries", "0").ok(3)
    bench.plan()
    bench.run("resume", "--json").ok()
    assert bench.state()["status"] == "done"


def test_resume_after_a_stall(bench: Bench) -> None:
    bench.plan({}, default=[["say", "nothing"]])
    bench.loop("polish", "--task", "Polish").ok(4)
    bench.plan({3: DONE}, default=[["say", "nothing"]])
    bench.run("resume", "polish", "--json").ok(4)
    assert len(bench.calls()) == 5
    assert bench.calls()[2].stdin == bench.calls()[0].stdin


def test_run_on_the_side_branch_goes_on_with_that_run(bench: Bench) -> None:
    bench.plan({1: DONE}, default=fails())
    bench.loop("--max-retries", "0").ok(3)
    run_id = bench.state()["run_id"]
    bench.plan()
    bench.loop().ok()
    state = bench.state()
    assert (state["run_id"], state["original_branch"]) == (run_id, "feature/x")
    assert bench.subjects("feature/x..ralph/demo") == [
        "initial state",
        "checkpoint: 1",
        "checkpoint: 2",
        "checkpoint: 3",
    ]


@pytest.mark.parametrize(
    "checkpoint",
    ["branch", *(pytest.param(name, marks=pytest.mark.full) for name in ("stash", "worktree"))],
)
def test_a_start_that_was_cut_short_is_started_again_with_its_flags(
    bench: Bench, checkpoint: str
) -> None:
    bench.only_stories(1, 2)
    bench.plan()
    real, armed = shutil.which("git"), bench.root / "armed"
    armed.touch()
    kills = f'case " $* " in *" add "*) [ -e {armed} ] && kill -9 $PPID;; esac'
    bench.program("git", f'#!/bin/sh\n{kills}\nexec {real} "$@"\n')
    flags = ("--checkpoint", checkpoint, "--max-retries", "7", "--on-complete", "cleanup")
    assert bench.loop(*flags).code != 0
    assert bench.calls() == []
    armed.unlink()
    ended = bench.run("resume", "demo", "--json").ok()
    [started] = ended.named("run_started")
    assert started["max_retries"] == 7
    assert len(bench.calls()) == 2
    assert bench.branch() == "feature/x"
    assert bench.read("work-1.txt") == "work 1\n"
    assert bench.state()["status"] == "done"
