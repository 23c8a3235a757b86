"""S000: the loop goes story by story, puts back, retries, and offers the choice."""

# ruff: noqa: N802 - the ids of the requirement rows are part of the names
from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, failed, fails
from tests.e2e.change import STORIES, TASKS, tasks_text
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

NO_WORD: Actions = [["write", "mess.txt", "mess\n"], ["say", "I am off."]]


def test_S000_R1_three_stories_with_failures_put_backs_and_checkpoints(bench: Bench) -> None:
    start = bench.sha()
    bench.plan({2: fails("wrong colour"), 4: NO_WORD})
    result = bench.loop().ok()
    assert result.outcomes() == ["complete", "failed", "complete", "no_promise", "complete"]
    assert bench.subjects(f"{start}..ralph/demo") == [
        "initial state",
        "checkpoint: 1",
        "checkpoint: 2",
        "checkpoint: 3",
    ]
    assert [
        (e["n"], e["story_id"], e["attempt"], e["attempts_allowed"])
        for e in result.named("iteration_started")
    ] == [(1, "1", 1, 4), (2, "2", 1, 4), (3, "2", 2, 4), (4, "3", 1, 4), (5, "3", 2, 4)]
    assert [(e["story_id"], e["commit"]) for e in result.named("checkpoint_saved")] == [
        (str(n), bench.sha(f"ralph/demo~{3 - n}")) for n in (1, 2, 3)
    ]
    assert [e["story_id"] for e in result.named("reverted")] == ["2", "3"]
    assert result.one("finished")["status"] == "done"
    assert [p.name for p in sorted(bench.repo.glob("work-*"))] == [
        "work-1.txt",
        "work-3.txt",
        "work-5.txt",
    ]
    assert not list(bench.repo.glob("mess*"))


def test_S000_R1_S1_start_makes_side_branch_and_calls_one_agent_for_story_1(bench: Bench) -> None:
    start = bench.sha()
    bench.plan({1: [["child", "plain"], *DONE]})
    bench.loop().ok()
    call = bench.calls()[0]
    assert (call.branch, call.subject, call.parent) == ("ralph/demo", "initial state", start)
    assert call.cwd == str(bench.repo)
    assert STORIES[0] in call.prompt
    assert "1.1 Write the alpha file" in call.prompt
    assert "1.2 Check the alpha file" in call.prompt
    assert "bravo file" not in call.prompt
    assert "charlie file" not in call.prompt
    assert len(bench.calls()) == 3
    assert bench.processes() == []


def test_S000_R1_S1_first_incomplete_story_comes_first(bench: Bench) -> None:
    bench.only_stories(2, 3)
    bench.plan()
    result = bench.loop().ok()
    assert [e["story_id"] for e in result.named("iteration_started")] == ["2", "3"]
    assert STORIES[1] in bench.calls()[0].prompt
    assert "alpha file" not in bench.calls()[0].prompt


def test_S000_R1_S2_each_complete_makes_a_checkpoint_and_the_next_call_starts_there(
    bench: Bench,
) -> None:
    start = bench.sha()
    bench.plan()
    bench.loop().ok()
    commits = bench.git("rev-list", "--reverse", f"{start}..ralph/demo").splitlines()
    assert [call.head for call in bench.calls()] == commits[:3]
    assert [call.status for call in bench.calls()] == ["", "", ""]
    trailers = (
        "%(trailers:key=Untildone-Story,valueonly)%(trailers:key=Untildone-Attempt,valueonly)"
    )
    assert bench.git("log", "-1", f"--format={trailers}", commits[2]).split() == ["2", "1"]
    run = bench.git("log", "-1", "--format=%(trailers:key=Untildone-Run,valueonly)", commits[2])
    assert run.strip() == bench.state()["run_id"]


def test_S000_R1_S2_story_list_is_read_again(bench: Bench) -> None:
    start = bench.sha()
    more = "\n## 4. Delta greeting\n\n- [ ] 4.1 Write the delta file\n"
    bench.plan({1: [["append", TASKS, more], *DONE]})
    bench.loop().ok()
    assert bench.subjects(f"{start}..ralph/demo")[-1] == "checkpoint: 4"
    assert len(bench.calls()) == 4
    assert "4.1 Write the delta file" in bench.calls()[3].prompt


def test_S000_R1_S2_boxes_are_ticked_for_the_agent_and_the_story_never_runs_again(
    bench: Bench,
) -> None:
    bench.plan()
    bench.loop().ok()
    assert bench.blob("ralph/demo~2", TASKS) + "\n" == tasks_text([1])
    assert bench.blob("ralph/demo", TASKS) + "\n" == tasks_text([1, 2, 3])
    assert len(bench.calls()) == 3


def test_S000_R1_S2_boxes_ticked_without_a_promise_are_a_retry(bench: Bench) -> None:
    bench.plan({1: [["tick", "1"], ["say", "ticked"]]})
    result = bench.loop().ok()
    assert result.outcomes() == ["no_promise", "complete", "complete", "complete"]
    assert "1.1 Write the alpha file" in bench.calls()[1].prompt


def test_S000_R1_S3_complete_event_with_options_then_waits_for_the_choice(bench: Bench) -> None:
    bench.plan()
    live = bench.begin("--on-complete", "ask")
    complete = live.wait_event("complete")
    assert complete["reason"] == "success"
    assert sorted(complete["options"]) == ["cleanup", "keep"]
    branches = bench.refs("refs/heads/")
    time.sleep(1)
    assert live.alive()
    assert bench.refs("refs/heads/") == branches
    assert bench.state()["status"] == "done"
    bench.run("finish", "demo", "keep").ok()
    result = live.wait().ok()
    assert result.one("complete") == complete
    finished = result.one("finished")
    assert (finished["choice"], finished["status"]) == ("keep", "done")


@pytest.mark.parametrize(
    ("keys", "branch"), [("keep\r", "ralph/demo"), ("c\r", "feature/x"), ("cleanup\r", "feature/x")]
)
def test_S000_R1_S3_choice_is_asked_on_a_terminal(bench: Bench, keys: str, branch: str) -> None:
    bench.plan()
    terminal = bench.terminal("run", "demo", "--agent-cmd", bench.agent)
    until(lambda: (bench.root / "calls" / "3.end").exists())
    until(lambda: bench.state()["status"] == "done", what="status done")
    terminal.wait_text("cleanup")
    terminal.type(keys)
    assert terminal.wait() == 0
    assert bench.branch() == branch


def test_S000_R1_S4_no_extra_commit_before_the_agent(bench: Bench) -> None:
    start = bench.sha()
    bench.plan({1: fails(), 3: NO_WORD})
    bench.loop().ok()
    assert bench.git("rev-list", "--count", f"{start}..ralph/demo") == "4"


@pytest.mark.parametrize("word", ["I am off.", COMPLETE])
def test_S000_R1_S4_side_branch_is_active_again_before_the_next_agent(
    bench: Bench, word: str
) -> None:
    bench.plan({1: [["git", "checkout", "-q", "-b", "other"], *DONE[:1], ["say", word]]})
    bench.loop().ok()
    assert [call.branch for call in bench.calls()[:2]] == ["ralph/demo", "ralph/demo"]
    assert bench.calls()[1].status == ""
    assert bench.branch() == "ralph/demo"


def test_S000_R1_S5_dirty_tree_is_put_back_and_same_story_retried(bench: Bench) -> None:
    bench.plan(
        {
            2: [
                ["append", "README.md", "more\n"],
                ["write", "new/file.txt", "new\n"],
                ["git", "add", "README.md"],
                ["say", "no word"],
            ]
        }
    )
    result = bench.loop().ok()
    first, second, third = bench.calls()[:3]
    assert second.head != first.head
    assert third.place == ("ralph/demo", second.head, "")
    assert third.files == second.files
    assert third.prompt == second.prompt
    retrying = result.one("retrying")
    assert (retrying["story_id"], retrying["attempt"], retrying["attempts_allowed"]) == ("2", 2, 4)


@pytest.mark.parametrize(
    "reason",
    [
        "no access to database",
        "HTTP: 503: try http://x.invalid/y?a=b",
        """it's "quoted" and `ticked` & $HOME <b> \\n 100%""",
        "ünïcode → ✗",
    ],
)
def test_S000_R1_S6_failure_reason_is_in_the_next_prompt_only(bench: Bench, reason: str) -> None:
    bench.only_stories(1)
    bench.plan({1: [["say", failed(reason)]], 2: NO_WORD})
    result = bench.loop().ok()
    first, second, third = (call.prompt for call in bench.calls())
    assert reason not in first
    assert reason in second
    assert third == first
    assert result.named("iteration_ended")[0]["reason"] == reason
    assert bench.state()["iterations"][0]["reason"] == reason


def test_S000_R1_S6_multi_line_reason(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["say", failed("first line: bad\nsecond `line`\nthird line")]]})
    bench.loop().ok()
    prompt = bench.calls()[1].prompt
    for line in ("first line: bad", "second `line`", "third line"):
        assert line in prompt


def test_S000_R1_S7_retries_used_up_gives_error_event_and_the_choice(bench: Bench) -> None:
    start = bench.sha()
    bench.plan({}, default=fails("still broken"))
    result = bench.loop("--max-retries", "2").ok(3)
    assert len(bench.calls()) == 3
    assert all(STORIES[0] in call.prompt for call in bench.calls())
    error = result.one("error")
    assert (error["story_id"], error["reason"]) == ("1", "still broken")
    assert error["message"]
    assert error["hint"]
    assert "refs/ralph/attempts/demo/1/3" in json.dumps(error)
    complete = result.one("complete")
    assert complete["reason"] == "max_retries"
    assert sorted(complete["options"]) == ["cleanup", "keep"]
    assert result.one("finished")["status"] == "stuck"
    assert bench.state()["status"] == "stuck"
    assert bench.subjects(f"{start}..ralph/demo") == ["initial state"]
    assert bench.status() == []


@pytest.mark.parametrize(
    ("args", "count"),
    [
        ((), 4),
        (("--max-retries", "0"), 1),
        (("--max-retries", "1"), 2),
        (("--max-retries", "3"), 4),
    ],
)
def test_S000_R1_S7_number_of_calls_is_one_plus_retries(
    bench: Bench, args: tuple[str, ...], count: int
) -> None:
    bench.plan({}, default=[["say", failed("no")]])
    result = bench.loop(*args).ok(3)
    assert len(bench.calls()) == count
    assert {e["attempts_allowed"] for e in result.named("iteration_started")} == {count}
    assert [e["attempt"] for e in result.named("iteration_started")] == list(range(1, count + 1))


def test_S000_R1_S7_choice_is_waited_for_after_retries_are_used_up(bench: Bench) -> None:
    bench.plan({}, default=fails())
    live = bench.begin("--max-retries", "0", "--on-complete", "ask")
    live.wait_event("complete", reason="max_retries")
    assert live.alive()
    bench.run("finish", "demo", "cleanup").ok()
    result = live.wait().ok(3)
    assert result.one("finished")["choice"] == "cleanup"
    assert bench.branch() == "feature/x"


ABNORMAL: dict[str, tuple[Actions, list[str], str]] = {
    "exit 137": ([["say", "working"], ["exit", 137]], [], "agent_error"),
    "killed": ([["write", "mess.txt", "x"], ["die", 9]], [], "agent_error"),
    "empty output": ([], [], "no_promise"),
    "garbage output": ([["hex", "fffe00c328a0a1f09f" * 400 + "0a"]], [], "no_promise"),
    "time-out": ([["say", "zzz"], ["sleep", 30]], ["--timeout", "0.02"], "timeout"),
    "silence": ([["sleep", 30]], ["--idle-timeout", "0.02"], "idle_timeout"),
}


@pytest.mark.parametrize("case", ABNORMAL)
def test_S000_R1_S8_abnormal_end_is_retried_with_the_same_prompt(bench: Bench, case: str) -> None:
    actions, args, outcome = ABNORMAL[case]
    bench.only_stories(1)
    bench.plan({1: actions})
    result = bench.loop(*args).ok()
    first, second = bench.calls()
    assert second.stdin == first.stdin
    assert second.place == first.place
    assert second.files == first.files
    assert result.outcomes() == [outcome, "complete"]


def test_S000_R1_S8_agent_that_cannot_be_started_is_an_attempt(bench: Bench) -> None:
    # The file is there and executable, its interpreter is not: only the start itself fails.
    broken = bench.program("broken", "#!/nonexistent/interpreter\n")
    result = bench.loop("--agent-cmd", str(broken), "--max-retries", "1").ok(3)
    assert result.outcomes() == ["agent_error", "agent_error"]
    assert bench.state()["status"] == "stuck"


def test_S000_R2_S1_cleanup_returns_to_the_original_branch_with_uncommitted_changes(
    bench: Bench,
) -> None:
    start = bench.sha()
    bench.plan()
    result = bench.loop("--on-complete", "cleanup").ok()
    assert (bench.branch(), bench.sha()) == ("feature/x", start)
    assert bench.status() == [
        f" M {TASKS}",
        "?? work-1.txt",
        "?? work-2.txt",
        "?? work-3.txt",
    ]
    finished = result.one("finished")
    assert (finished["choice"], finished["status"]) == ("cleanup", "done")


def test_S000_R2_S2_keep_stays_on_the_side_branch(bench: Bench) -> None:
    start = bench.sha()
    bench.plan()
    bench.loop("--on-complete", "keep").ok()
    assert bench.branch() == "ralph/demo"
    assert bench.status() == []
    assert bench.sha("feature/x") == start


def test_S000_R2_S2_without_a_terminal_and_without_a_flag_it_keeps(bench: Bench) -> None:
    bench.plan()
    assert bench.loop().ok().one("finished")["choice"] == "keep"


def test_S000_R2_S3_partial_work_is_recovered_after_max_retries(bench: Bench) -> None:
    bench.plan({1: DONE}, default=fails())
    result = bench.loop("--max-retries", "1", "--on-complete", "cleanup").ok(3)
    assert result.one("finished")["choice"] == "cleanup"
    assert bench.branch() == "feature/x"
    assert bench.status() == [f" M {TASKS}", "?? work-1.txt"]
    assert bench.read(TASKS) == tasks_text([1])
    assert not bench.has("refs/heads/ralph/demo")
    assert bench.state()["status"] == "stuck"


BREAKS: dict[str, Actions] = {
    "equal stories": [["write", TASKS, f"{tasks_text()}\n## 1. Again\n\n- [ ] 1.1 Twice\n"]],
    "no file": [["sh", "rm -r openspec/changes/demo"]],
    "a folder": [["sh", f"rm {TASKS} && mkdir {TASKS}"]],
    "no UTF-8": [["sh", f"printf '\\377\\376a\\0' > {TASKS}"]],
}


@pytest.mark.parametrize("how", BREAKS)
def test_S000_R2_S3_options_still_come_when_the_story_source_breaks(bench: Bench, how: str) -> None:
    broken = [["write", "half.txt", "half\n"], *BREAKS[how], ["say", COMPLETE]]
    bench.plan({2: broken})
    result = bench.loop("--on-complete", "cleanup").ok(3)
    complete = result.one("complete")
    assert complete["reason"] == "error"
    assert sorted(complete["options"]) == ["cleanup", "keep"]
    assert result.named("error")
    assert bench.branch() == "feature/x"
    assert bench.read("work-1.txt") == "work 1\n"
    assert bench.state()["status"] == "stuck"
    # The attempt that broke it is put back and saved, as any other that failed.
    assert not bench.path("half.txt").exists()
    assert bench.read(TASKS) == tasks_text([1])
    entry = bench.state()["iterations"][-1]
    assert (entry["outcome"], len(bench.calls())) == ("verify_failed", 2)
    assert bench.git("show", f"{entry['saved_ref']}:half.txt") == "half"
