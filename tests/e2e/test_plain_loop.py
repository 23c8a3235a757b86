"""The plain loop: `run --task`, one prompt, work is kept between iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

WORK: Actions = [["write", "work-{n}.txt", "work\n"], ["say", "more to do"]]
IDLE: Actions = [["say", "nothing to do"]]


def test_stall_after_two_idle_iterations_is_exit_4(bench: Bench) -> None:
    bench.plan({}, default=IDLE)
    result = bench.loop("polish", "--task", "Polish the greeting").ok(4)
    assert len(bench.calls()) == 2
    assert [e["seq"] for e in result.events] == list(range(1, len(result.events) + 1))
    assert result.one("complete")["reason"] == "stalled"
    error = result.one("error")
    assert "2 iterations in a row left no commit" in error["message"]
    assert "untildone resume polish" in error["hint"]
    state = bench.state()
    assert (state["status"], state["change_id"], state["max_iterations"]) == (
        "stalled",
        "polish",
        10,
    )
    assert "Polish the greeting" in state["task"]
    assert bench.subjects("feature/x..ralph/polish") == ["initial state"]


@pytest.mark.parametrize("boxes", [False, True], ids=["manual", "tasks"])
def test_a_stall_is_said_in_quiet_mode_too(bench: Bench, *, boxes: bool) -> None:
    if boxes:
        bench.write("tasks.md", "- [ ] a\n")
    bench.plan({}, default=IDLE)
    args = ("--task", "Polish", "--quiet", "--agent-cmd", bench.agent)
    result = bench.run("run", "polish", *args).ok(4)
    assert result.stdout == ""
    assert "error: 2 iterations in a row left no commit" in result.stderr
    assert "untildone resume polish" in result.stderr


def test_a_commit_starts_the_stall_count_again(bench: Bench) -> None:
    bench.plan({2: WORK, 4: WORK}, default=IDLE)
    bench.loop("polish", "--task", "Polish").ok(4)
    assert len(bench.calls()) == 6
    assert bench.subjects("feature/x..ralph/polish") == [
        "initial state",
        "checkpoint: iteration-2",
        "checkpoint: iteration-4",
    ]


def test_stall_threshold_is_adjustable(bench: Bench) -> None:
    bench.plan({}, default=IDLE)
    bench.loop("polish", "--task", "Polish", "--stall-threshold", "3").ok(4)
    assert len(bench.calls()) == 3


def test_agent_commit_counts_against_a_stall(bench: Bench) -> None:
    own: Actions = [["write", "own-{n}.txt", "own\n"], ["commit", "own {n}"], ["say", "x"]]
    bench.plan({1: own, 2: own}, default=IDLE)
    bench.loop("polish", "--task", "Polish").ok(4)
    assert len(bench.calls()) == 4
    assert [len(entry["commits"]) for entry in bench.state()["iterations"]] == [1, 1, 0, 0]


def test_cap_is_stuck_and_exit_3(bench: Bench) -> None:
    bench.plan({}, default=WORK)
    result = bench.loop("polish", "--task", "Polish", "--max-iterations", "3").ok(3)
    assert len(bench.calls()) == 3
    assert result.one("complete")["reason"] == "max_iterations"
    assert bench.state()["status"] == "stuck"
    assert bench.subjects("feature/x..ralph/polish") == [
        "initial state",
        "checkpoint: iteration-1",
        "checkpoint: iteration-2",
        "checkpoint: iteration-3",
    ]
    assert bench.status() == []


def test_prompt_is_the_same_every_iteration_and_work_is_kept(bench: Bench) -> None:
    bench.plan({}, default=WORK)
    bench.loop("polish", "--task", "Polish the greeting", "--max-iterations", "3").ok(3)
    first, second, third = bench.calls()
    assert first.stdin == second.stdin == third.stdin
    assert "Polish the greeting" in first.prompt
    assert {"work-1.txt", "work-2.txt"} <= set(third.files)


def test_promises_do_not_end_it(bench: Bench) -> None:
    bench.plan({}, default=[*WORK, ["say", COMPLETE]])
    bench.loop("polish", "--task", "Polish", "--max-iterations", "2").ok(3)
    assert [entry["outcome"] for entry in bench.state()["iterations"]] == ["complete", "complete"]


def test_done_promise_ends_at_complete(bench: Bench) -> None:
    bench.plan({1: WORK, 2: [*WORK, ["say", COMPLETE]]})
    result = bench.loop("polish", "--task", "Polish", "--done", "promise").ok()
    assert len(bench.calls()) == 2
    assert result.one("complete")["reason"] == "success"
    assert bench.state()["status"] == "done"


def test_done_promise_needs_the_checks_to_pass(bench: Bench) -> None:
    bench.plan({}, default=[*WORK, ["say", COMPLETE]])
    bench.loop("polish", "--task", "P", "--done", "promise", "--verify", "test -f work-2.txt").ok()
    assert [entry["outcome"] for entry in bench.state()["iterations"]] == [
        "verify_failed",
        "complete",
    ]
    assert bench.read("work-1.txt") == "work\n"


def test_done_command_ends_a_live_manual_loop(bench: Bench) -> None:
    bench.plan({1: [*WORK, ["wait", bench.gate("go")]]}, default=IDLE)
    live = bench.begin("polish", "--task", "Polish")
    bench.wait_call(1)
    bench.run("done", "polish").ok()
    bench.open_gate("go")
    live.wait().ok()
    assert bench.state()["status"] == "done"


def test_time_out_keeps_the_work(bench: Bench) -> None:
    bench.plan({1: [["write", "half.txt", "half\n"], ["sleep", 600]]}, default=IDLE)
    bench.loop("polish", "--task", "Polish", "--timeout", "0.02").ok(4)
    assert "half.txt" in bench.calls()[1].files
    assert bench.subjects("feature/x..ralph/polish")[1] == "checkpoint: iteration-1"
    assert bench.state()["iterations"][0]["timed_out"] is True


def test_default_name_is_a_slug_of_the_text(bench: Bench) -> None:
    bench.plan({}, default=IDLE)
    bench.loop("--task", "Polish the greeting").ok(4)
    name = bench.state()["change_id"]
    assert name.startswith("polish")
    assert bench.branch() == f"ralph/{name}"


def test_task_file_with_the_text(bench: Bench) -> None:
    text = bench.root / "task.txt"
    text.write_text("Polish from a file\n")
    bench.plan({}, default=IDLE)
    args = ["--task-file", str(text), "--json", "--agent-cmd", bench.agent]
    bench.run("run", "polish", *args).ok(4)
    assert "Polish from a file" in bench.calls()[0].prompt


@pytest.mark.parametrize("ending", ["keep", "cleanup"])
def test_choice_after_a_stall(bench: Bench, ending: str) -> None:
    bench.plan({1: WORK}, default=IDLE)
    bench.loop("polish", "--task", "Polish", "--on-complete", ending).ok(4)
    if ending == "cleanup":
        assert (bench.branch(), bench.status()) == ("feature/x", ["?? work-1.txt"])
    else:
        assert (bench.branch(), bench.status()) == ("ralph/polish", [])


def test_story_loop_does_not_stall_while_retries_are_left(bench: Bench) -> None:
    bench.plan({}, default=IDLE)
    result = bench.run("run", "demo", "--json", "--agent-cmd", bench.agent).ok(3)
    assert len(bench.calls()) == 4
    assert result.one("complete")["reason"] == "max_retries"


def test_story_loop_cap_over_all_stories(bench: Bench) -> None:
    bench.plan({1: IDLE})
    result = bench.loop("--max-iterations", "2").ok(3)
    assert len(bench.calls()) == 2
    assert result.one("complete")["reason"] == "max_iterations"
    assert bench.state()["status"] == "stuck"


def test_cap_is_seen_before_the_next_call_starts(bench: Bench) -> None:
    bench.plan({}, default=WORK)
    live = bench.begin("polish", "--task", "P", "--max-iterations", "1", "--on-complete", "ask")
    live.wait_event("complete")
    assert not (bench.root / "calls" / "2.call").exists()
    bench.run("finish", "polish", "keep").ok()
    live.wait().ok(3)
    until(lambda: not bench.processes(), 2)


def test_a_run_is_not_taken_for_that_of_another_task(bench: Bench) -> None:
    bench.plan({}, default=IDLE)
    bench.loop("polish", "--task", "Polish the greeting").ok(4)
    refs = bench.refs()
    result = bench.loop("polish", "--task", "Paint the fence").ok(2)
    assert "its task is another one: Polish the greeting" in result.stderr
    assert "hint: `untildone resume polish`" in result.stderr
    assert (bench.refs(), len(bench.calls())) == (refs, 2)
    bench.loop("polish", "--task", "Polish the greeting").ok(4)
    assert len(bench.calls()) == 4
    bench.git("checkout", "-q", "feature/x")
    bench.loop("polish", "--task", "Paint the fence").ok(4)
    assert "Paint the fence" in bench.calls()[-1].stdin


def test_a_tasks_file_without_boxes_is_not_done(bench: Bench) -> None:
    bench.write("tasks.md", "# Notes\n")
    bench.commit("notes")
    bench.plan(
        {2: [["write", "tasks.md", "# Notes\n\n- [x] all\n"], ["say", "done"]]}, default=WORK
    )
    bench.loop("polish", "--task", "Polish").ok()
    assert len(bench.calls()) == 2
