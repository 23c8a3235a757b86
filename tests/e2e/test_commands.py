"""Every command of the contract, from outside."""

# ruff: noqa: N802 - the ids of the requirement rows are part of the names
from __future__ import annotations

import datetime as dt
import json
import re
import shutil
import subprocess
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, failed, fails
from tests.e2e.change import STORIES, TASKS, tasks_text
from tests.e2e.command import COMMAND
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.e2e.bench import Bench
    from tests.e2e.command import Json

pytestmark = pytest.mark.e2e

COMMANDS = [
    "run",
    "status",
    "stop",
    "resume",
    "finish",
    "done",
    "attempts",
    "restore",
    "gc",
    "logs",
    "usage",
    "init",
    "doctor",
    "demo",
    "stories",
]


def values_of(value: Any, key: str) -> list[Any]:
    """All values of a key anywhere in a JSON value."""
    if isinstance(value, dict):
        own = [value[key]] if key in value else []
        return own + [found for item in value.values() for found in values_of(item, key)]
    if isinstance(value, list):
        return [found for item in value for found in values_of(item, key)]
    return []


# help and output


def test_status_names_a_command_that_can_go_on(bench: Bench) -> None:
    bench.plan(default=fails())
    bench.loop("--max-retries", "0").ok(3)
    assert "next: untildone resume demo" in bench.run("status").ok().stdout
    bench.run("finish", "demo", "cleanup").ok()
    assert "next: untildone run demo" in bench.run("status").ok().stdout


def test_help_names_every_command(bench: Bench) -> None:
    said = bench.run("--help").ok().stdout
    assert [name for name in COMMANDS if not re.search(rf"\b{name}\b", said)] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(bench: Bench, command: str) -> None:
    assert command in bench.run(command, "--help").ok().stdout


def test_S000_R1_S7_help_of_run_shows_three_retries(bench: Bench) -> None:
    said = bench.run("run", "--help", env={"COLUMNS": "200"}).ok().stdout
    assert re.search(r"--max-retries\b[^\n]*(\n\s[^\n]*)?\b3\b", said), said
    flags = (
        "--source --agent --agent-cmd --model --max-retries --max-iterations --done"
        " --stall-threshold --timeout --idle-timeout --verify --checkpoint --on-complete"
        " --json --quiet --no-color --task --task-file"
    )
    assert [flag for flag in flags.split() if flag not in said] == []


def test_version(bench: Bench) -> None:
    assert re.search(r"\d+\.\d+", bench.run("--version").ok().stdout)


def test_json_is_pure_and_the_sequence_has_no_gap(bench: Bench) -> None:
    bench.plan({2: [["err", "noise"], ["raw", "no newline"], ["say", failed("x")]]})
    events = bench.loop().ok().events
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert {event["v"] for event in events} == {1}
    times = [dt.datetime.fromisoformat(event["at"]) for event in events]
    assert times == sorted(times)
    assert all(moment.tzinfo for moment in times)
    names = [event["event"] for event in events]
    assert names[0] == "run_started"
    assert names[-1] == "finished"
    skeleton = [name for name in names if name not in ("agent_text", "agent_tool", "warning")]
    one = ["iteration_started", "iteration_ended", "checkpoint_saved"]
    assert [n for n in skeleton if n not in ("stories_loaded", "run_started")] == [
        *one,
        "iteration_started",
        "iteration_ended",
        "reverted",
        "retrying",
        *one,
        *one,
        "complete",
        "finished",
    ]
    assert "stories_loaded" in names


def test_quiet_prints_nothing_on_success(bench: Bench) -> None:
    # The agent ticks its own boxes: no warning is due.
    bench.plan({n: [["tick", str(n)], *DONE] for n in (1, 2, 3)})
    result = bench.run("run", "demo", "--quiet", "--agent-cmd", bench.agent).ok()
    assert (result.stdout, result.stderr) == ("", "")


def test_plain_lines_without_a_terminal(bench: Bench) -> None:
    bench.plan({1: fails("wrong colour")})
    said = bench.run("run", "demo", "--agent-cmd", bench.agent).ok()
    assert "\x1b" not in said.stdout + said.stderr
    for word in ("ralph/demo", STORIES[2], "wrong colour"):
        assert word in said.stdout, word


@pytest.mark.parametrize("way", ["variable", "flag"])
def test_no_color_on_a_terminal(bench: Bench, way: str) -> None:
    bench.plan()
    args = ["run", "demo", "--agent-cmd", bench.agent, "--on-complete", "keep"]
    if way == "flag":
        terminal = bench.terminal(*args, "--no-color")
    else:
        terminal = bench.terminal(*args, env={"NO_COLOR": "1"})
    assert terminal.wait() == 0
    colours = re.findall(rb"\x1b\[[0-9;]*m", terminal.raw)
    # Bold and dim are no colours.
    assert [c for c in colours if re.search(rb"\[(\d;)*(3|4|9|10)\d", c)] == []


def test_live_view_on_a_terminal_shows_the_stories(bench: Bench) -> None:
    bench.plan({2: [["say", "thinking hard"], ["wait", bench.gate("go")], *DONE]})
    args = ["run", "demo", "--agent-cmd", bench.agent, "--on-complete", "keep"]
    terminal = bench.terminal(*args)
    bench.wait_call(2)
    terminal.wait_text(STORIES[1])
    until(lambda: all(story in terminal.screen() for story in STORIES), 10, "the story list")
    bench.open_gate("go")
    assert terminal.wait() == 0


# status


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


# stop


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


# resume


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


# finish and done


def test_finish_cleanup_after_the_fact(bench: Bench) -> None:
    start = bench.sha()
    bench.plan()
    bench.loop("--on-complete", "keep").ok()
    bench.run("finish", "demo", "cleanup").ok()
    assert (bench.branch(), bench.sha()) == ("feature/x", start)
    assert bench.status() == [f" M {TASKS}", "?? work-1.txt", "?? work-2.txt", "?? work-3.txt"]
    assert not bench.has("refs/heads/ralph/demo")


def test_finish_saves_what_it_replaces(bench: Bench) -> None:
    bench.plan()
    bench.loop("--on-complete", "keep").ok()
    tip = bench.sha("ralph/demo")
    bench.run("finish", "demo", "cleanup").ok()
    kept = [r for r in bench.refs("refs/ralph/") if _contains(bench, r, tip)]
    assert kept, "the commits of the deleted branch are reachable from no ref"


def _contains(bench: Bench, ref: str, commit: str) -> bool:
    found = bench.git("for-each-ref", "--format=%(refname)", f"--contains={commit}", ref, ok=False)
    return bool(found)


def test_cleanup_takes_later_edits_of_the_user_along(bench: Bench) -> None:
    bench.plan()
    bench.loop("--on-complete", "keep").ok()
    bench.write("README.md", "edited later\n")
    bench.run("finish", "demo", "cleanup").ok()
    assert bench.read("README.md") == "edited later\n"
    assert bench.branch() == "feature/x"


def test_after_cleanup_nothing_of_ours_is_in_the_tree(bench: Bench) -> None:
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    assert [name for name in bench.refs("refs/heads/") if "ralph" in name] == []
    assert [p.name for p in bench.path(".git").glob("*.lock")] == []
    assert [line for line in bench.status() if ".claude" in line or "untildone" in line] == []


# attempts


def test_attempts_are_listed_shown_and_restored(bench: Bench) -> None:
    bench.plan({1: [["write", "idea.txt", "a good idea\n"], ["say", failed("too late")]]})
    bench.loop().ok()
    said = bench.run("attempts", "demo").ok().stdout
    assert "1/1" in said
    assert "too late" in said
    shown = bench.run("attempts", "demo", "--show", "1/1").ok().stdout
    for words in ("failed", "too late", "+1 -0  idea.txt", "--restore 1/1", "/logs/0001.log"):
        assert words in shown, words
    assert "a good idea" not in shown
    assert "+a good idea" in bench.run("attempts", "demo", "--diff", "1/1").ok().stdout
    head = bench.sha()
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert bench.read("idea.txt") == "a good idea\n"
    assert bench.sha() == head
    assert (bench.branch(), bench.staged()) == ("ralph/demo", "")


def test_attempts_restore_saves_what_it_replaces(bench: Bench) -> None:
    bench.plan({1: [["write", "README.md", "attempt\n"], ["say", failed("x")]]})
    bench.loop().ok()
    bench.write("README.md", "precious, uncommitted\n")
    result = bench.run("attempts", "demo", "--restore", "1/1")
    if result.code == 2:
        assert bench.read("README.md") == "precious, uncommitted\n"
        return
    result.ok()
    assert bench.read("README.md") == "attempt\n"
    refs = bench.refs("refs/ralph/")
    blobs = [bench.git("show", f"{ref}:README.md", ok=False) for ref in refs]
    assert "precious, uncommitted" in blobs


def test_attempts_restore_brings_back_a_nested_repository(bench: Bench) -> None:
    bench.plan({1: [["nested", "nested", True], ["say", failed("x")]]})
    bench.loop().ok()
    assert not bench.path("nested").exists()
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert bench.read("nested/inner.txt") == "inner\n"


def test_attempts_of_a_run_without_failures(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()
    assert "1/1" not in bench.run("attempts", "demo").ok().stdout


@pytest.mark.parametrize("flag", ["--show", "--diff", "--restore"])
def test_attempts_unknown_number(bench: Bench, flag: str) -> None:
    bench.plan({1: fails(), 2: fails()})
    bench.loop().ok()
    before = bench.snapshot()
    for words in ([flag, "7/9"], ["--diff", "1/1", "7/9"]):
        result = bench.run("attempts", "demo", *words)
        assert result.code == 2
        assert "7/9" in result.stderr
        assert "1/1, 1/2" in result.stderr
    assert bench.snapshot() == before


def test_attempts_flags_that_do_not_go_together(bench: Bench) -> None:
    for words in (
        ["--show", "1/1", "--restore", "1/1"],
        ["--show", "1/1", "1/2"],
        ["1/1"],
        ["--diff", "1/1", "--json"],
    ):
        assert bench.run("attempts", "demo", *words).code == 2, words


def test_attempts_show_as_json(bench: Bench) -> None:
    bench.plan(
        {
            1: [
                ["write", "idea.txt", "one\ntwo\n"],
                ["git", "add", "-A"],
                ["git", "commit", "-q", "-m", "an idea"],
                ["write", "README.md", "other\n"],
                ["sh", "printf '\\000\\001' > blob.bin"],
                ["say", failed("too late\nreally")],
            ]
        }
    )
    bench.loop().ok()
    value = bench.run("attempts", "demo", "--show", "1/1", "--json").ok().json()
    ref = "refs/ralph/attempts/demo/1/1"
    state = bench.state()
    assert value["reason"] == state["iterations"][0]["reason"]
    fields = ("attempt", "story_id", "outcome", "ref", "commit", "run_id", "log_file")
    assert [value[name] for name in fields] == [
        "1/1",
        "1",
        "failed",
        ref,
        bench.sha(ref),
        state["run_id"],
        state["iterations"][0]["log_file"],
    ]
    assert value["checkpoint"] == bench.sha(f"{ref}^1")
    assert [row["subject"] for row in value["commits"]] == ["an idea"]
    assert [row["commit"] for row in value["commits"]] == state["iterations"][0]["commits"]
    assert value["files"] == [
        {"path": "README.md", "added": 1, "deleted": 1},
        {"path": "blob.bin", "added": None, "deleted": None},
        {"path": "idea.txt", "added": 2, "deleted": 0},
    ]
    said = bench.run("attempts", "demo", "--show", "1/1").ok().stdout
    assert "an idea" in said
    assert "binary  blob.bin" in said


def patch_of(bench: Bench, *attempts: str) -> bytes:
    """The bytes that `--diff` prints; settings of the user must not change them."""
    args = [str(COMMAND), "attempts", "demo", "--diff", *attempts]
    done = subprocess.run(args, cwd=bench.repo, env=bench.env(), capture_output=True, check=True)
    return done.stdout


def apply_patch(bench: Bench, patch: bytes) -> None:
    """`git apply` in the working tree."""
    args = ["git", "apply", "--whitespace=nowarn"]
    subprocess.run(args, input=patch, cwd=bench.repo, env=bench.env(), check=True)


def test_attempts_diff_is_a_patch_for_git_apply(bench: Bench) -> None:
    odd = "sp ace \u00e9.txt"
    bench.plan(
        {
            1: [
                ["write", odd, "a\r\nb"],
                ["sh", "printf '\\000\\377\\n\\033[31m' > blob.bin; chmod +x README.md"],
                ["sh", "mv src/app.py src/moved.py; ln -s README.md link"],
                ["say", failed("x")],
            ],
            2: [["write", odd, "other"], ["say", failed("y")]],
        }
    )
    bench.loop("--max-retries", "1").ok(3)
    for name, value in (("diff.noprefix", "true"), ("color.ui", "always"), ("diff.external", "no")):
        bench.git("config", name, value)
    start = bench.contents()
    first = patch_of(bench, "1/1")
    assert first.startswith(b"diff --git a/")
    apply_patch(bench, first)
    assert bench.tree() == bench.tree_of("refs/ralph/attempts/demo/1/1")
    apply_patch(bench, patch_of(bench, "1/1", "1/2"))
    assert bench.tree() == bench.tree_of("refs/ralph/attempts/demo/1/2")
    assert bench.contents() != start
    assert patch_of(bench, "1/2", "1/2") == b""


def test_attempts_diff_on_a_terminal_is_coloured_and_safe(bench: Bench) -> None:
    bench.plan({1: [["write", "idea.txt", "\x1b]0;owned\x07idea\n"], ["say", failed("x")]]})
    bench.loop().ok()
    terminal = bench.terminal("attempts", "demo", "--diff", "1/1")
    assert terminal.wait() == 0
    assert b"\x1b[32m+idea" in terminal.raw
    assert b"owned" not in terminal.raw
    plain = bench.terminal("attempts", "demo", "--diff", "1/1", env={"NO_COLOR": "1"})
    assert plain.wait() == 0
    assert b"\x1b" not in plain.raw


def test_attempts_of_an_older_run_keep_their_story(bench: Bench) -> None:
    bench.plan({1: fails("first run"), 2: fails("again")})
    bench.loop("--on-complete", "cleanup").ok()
    bench.git("reset", "-q", "--hard")
    bench.git("clean", "-qfd")
    bench.plan({len(bench.calls()) + 1: fails("second run")})
    bench.loop().ok()
    assert "again" in bench.run("attempts", "demo", "--show", "1/2").ok().stdout
    assert "second run" in bench.run("attempts", "demo", "--show", "1/1").ok().stdout


# restore


def dirty_start(bench: Bench) -> None:
    """Staged, unstaged, both in one file, deleted, untracked, intent to add, exec bit."""
    bench.write("README.md", "# staged\n")
    bench.write("new.txt", "staged new\n")
    bench.git("add", "README.md", "new.txt")
    bench.write("README.md", "# staged and more\n")
    bench.path("src/app.py").unlink()
    bench.write("loose file.txt", "loose\n")
    bench.write("planned.txt", "planned\n")
    bench.git("add", "-N", "planned.txt")
    bench.path("run.sh").chmod(0o755)


def exact(bench: Bench) -> Json:
    """The user's exact state."""
    return {
        "branch": bench.branch(),
        "head": bench.sha(),
        "status": bench.status(),
        "staged": bench.staged(),
        "unstaged": bench.git("diff"),
        "index": bench.git("ls-files", "-s"),
        "files": bench.contents(),
    }


@pytest.mark.parametrize("ending", ["keep", "cleanup"])
def test_restore_brings_back_exactly_the_original_state(bench: Bench, ending: str) -> None:
    dirty_start(bench)
    before = exact(bench)
    bench.plan({1: [["write", "loose file.txt", "overwritten\n"], *DONE]})
    bench.loop("--on-complete", ending).ok()
    assert exact(bench) != before
    bench.run("restore", "demo").ok()
    assert exact(bench) == before


def test_restore_of_a_detached_start(bench: Bench) -> None:
    bench.git("checkout", "-q", "--detach")
    dirty_start(bench)
    before = exact(bench)
    bench.plan()
    bench.loop().ok()
    bench.run("restore", "demo").ok()
    assert exact(bench) == before
    assert before["branch"] == "HEAD"


def test_restore_after_kill_9(bench: Bench) -> None:
    dirty_start(bench)
    before = exact(bench)
    bench.plan({}, default=[["write", "README.md", "broken\n"], ["sleep", 600]])
    live = bench.begin()
    bench.wait_call(1)
    live.process.kill()
    live.wait()
    bench.run("restore", "demo").ok()
    assert exact(bench) == before
    assert bench.processes() == []


def test_restore_saves_what_it_replaces(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()
    tip = bench.sha("ralph/demo")
    bench.write("later.txt", "precious\n")
    bench.run("restore", "demo").ok()
    refs = bench.refs()
    assert any(_contains(bench, ref, tip) for ref in refs)
    blobs = [bench.git("show", f"{ref}:later.txt", ok=False) for ref in refs]
    assert "precious" in blobs or bench.path("later.txt").exists()


def test_backup_ref_is_there_before_the_first_call(bench: Bench) -> None:
    dirty_start(bench)
    bench.plan({}, default=[["sleep", 600]])
    bench.begin()
    bench.wait_call(1)
    assert len(bench.refs("refs/ralph/backup/demo/")) == 1


# logs


def test_logs_of_one_iteration(bench: Bench) -> None:
    bench.plan({1: [["say", "first words"], *DONE], 2: [["say", "second words"], *DONE]})
    bench.loop().ok()
    first = bench.run("logs", "demo", "--iteration", "1").ok().stdout
    assert "first words" in first
    assert "second words" not in first
    whole = bench.run("logs", "demo").ok().stdout
    assert "second words" in whole


def test_logs_keep_bytes_that_are_no_text(bench: Bench) -> None:
    bench.plan({1: [["hex", "6f6bff0a"], *DONE]})
    bench.loop().ok()
    assert "ok" in bench.run("logs", "demo", "--iteration", "1").ok().stdout
    name = bench.state()["iterations"][0]["log_file"]
    path = Path(name) if Path(name).is_absolute() else bench.repo / name
    assert b"ok\xff" in path.read_bytes()


def test_logs_follow_a_live_run_to_its_end(bench: Bench) -> None:
    bench.plan({1: [["say", "early words"], ["wait", bench.gate("go")], *DONE]})
    live = bench.begin()
    live.wait_event("agent_text")
    follower = bench.start("logs", "demo", "--follow")
    until(lambda: "early words" in follower.stdout, what="the early words")
    assert follower.alive()
    bench.open_gate("go")
    live.wait().ok()
    follower.wait(15).ok()


# usage, init, doctor, demo


def test_usage_sums_what_the_agent_reported(bench: Bench) -> None:
    bench.install_claude()
    bench.plan()
    bench.loop("--agent", "claude").ok()
    value = bench.run("usage", "--json").ok().json()
    assert set(values_of(value, "input_tokens")) == {7200}
    assert set(values_of(value, "output_tokens")) == {270}
    assert set(values_of(value, "total_tokens")) == {7470}
    later = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).isoformat()
    empty = bench.run("usage", "--json", "--since", later).ok().json()
    assert set(values_of(empty, "total_tokens")) <= {0}
    assert "7470" in re.sub(r"[,. ]", "", bench.run("usage").ok().stdout)


def test_usage_counts_what_run_and_session_file_both_tell_once(bench: Bench) -> None:
    bench.install_claude()
    bench.plan()
    bench.loop("--agent", "claude").ok()
    changes = bench.run("usage", "--by", "change", "--json").ok().json()
    assert [(row["change"], row["total_tokens"]) for row in changes["rows"]] == [("demo", 7470)]
    sessions = re.findall(r'"session_id": ?"([^"]+)"', bench.run("logs", "--raw").ok().stdout)
    folder = bench.home / ".claude" / "projects" / "any"
    folder.mkdir(parents=True)
    used = {"input_tokens": 10, "output_tokens": 1}
    for name in {*sessions, "a-session-of-my-own"}:
        data = {"timestamp": "2026-03-01T12:00:00Z", "sessionId": name, "requestId": name}
        entry = {**data, "message": {"id": name, "model": "claude-haiku-4-5", "usage": used}}
        (folder / f"{name}.jsonl").write_text(json.dumps(entry) + "\n")
    value = bench.run("usage", "--by", "agent", "--json").ok().json()
    assert value["total_tokens"] == 11 * (len(set(sessions)) + 1)
    assert bench.run("usage", "--by", "change", "--json").ok().json()["rows"] == changes["rows"]


def test_usage_counts_a_call_without_a_session_once(bench: Bench) -> None:
    bench.install_usage("1000")
    bench.only_stories(1)
    bench.plan({1: [["meter", "1750"], *DONE]})
    bench.loop().ok()
    assert bench.run("usage", "--json").ok().json()["total_tokens"] == 750
    folder = bench.home / ".claude" / "projects" / "any"
    folder.mkdir(parents=True)
    for at, cwd, tokens in (
        (bench.state()["iterations"][0]["started"], str(bench.repo), 700),
        ("2026-03-01T12:00:00Z", "/elsewhere", 7),
    ):
        used = {"input_tokens": tokens, "output_tokens": 0}
        data = {"timestamp": at, "sessionId": cwd, "cwd": cwd, "message": {"usage": used}}
        with (folder / "s.jsonl").open("a") as file:
            file.write(json.dumps(data) + "\n")
    assert bench.run("usage", "--json").ok().json()["total_tokens"] == 707


def test_usage_refuses_a_time_that_is_none(bench: Bench) -> None:
    result = bench.run("usage", "--since", "yesterday-ish")
    assert result.code == 2
    assert "yesterday-ish" in result.stderr


def test_init_writes_a_commented_file_that_is_valid(bench: Bench) -> None:
    bench.run("init").ok()
    text = bench.read("untildone.toml")
    tomllib.loads(text)
    assert text.count("#") >= 5
    bench.plan()
    bench.loop().ok()


def test_init_does_not_overwrite(bench: Bench) -> None:
    bench.write("untildone.toml", "max_retries = 1\n")
    result = bench.run("init")
    assert result.code == 2
    assert "untildone.toml" in result.stderr
    assert bench.read("untildone.toml") == "max_retries = 1\n"


def test_an_agent_by_flag_over_a_command_in_the_file(bench: Bench) -> None:
    bench.write("untildone.toml", 'agent_cmd = "false"\n')
    bench.commit("config")
    bench.install_claude()
    bench.only_stories(1)
    bench.plan()
    assert bench.loop("--agent", "claude").ok().one("iteration_started")["agent"] == "claude"
    assert len(bench.calls()) == 1


def test_settings_flag_over_environment_over_file(bench: Bench) -> None:
    bench.write("untildone.toml", "max_retries = 2\n")
    bench.commit("config")
    bench.plan({}, default=[["say", "off"]])

    def allowed(*args: str, **env: str) -> int:
        result = bench.loop(*args, "--on-complete", "cleanup", env=env).ok(3)
        count: int = result.named("iteration_started")[0]["attempts_allowed"]
        return count

    assert allowed() == 3
    assert allowed(UNTILDONE_MAX_RETRIES="1") == 2
    assert allowed("--max-retries", "0", UNTILDONE_MAX_RETRIES="1") == 1


def test_doctor_of_a_healthy_repository(bench: Bench) -> None:
    bench.install_claude()
    before = bench.snapshot()
    said = bench.run("doctor").ok().stdout
    for word in ("git", "claude", "demo"):
        assert word in said, word
    assert bench.snapshot() == before


def test_doctor_fix_leaves_runs_that_can_be_resumed(bench: Bench) -> None:
    bench.plan({2: [["write", "half.txt", "x"], ["sleep", 600]]})
    live = bench.begin()
    bench.wait_call(2)
    live.process.kill()
    live.wait()
    assert "demo" in bench.run("doctor").stdout
    bench.run("doctor", "--fix")
    assert bench.has("refs/heads/ralph/demo")
    bench.plan()
    bench.run("resume", "demo", "--json").ok()
    assert bench.state()["status"] == "done"


def test_doctor_fix_abandon_ends_the_run_and_keeps_the_users_files(bench: Bench) -> None:
    bench.write("mine.txt", "mine\n")
    bench.plan({2: [["sleep", 600]]})
    live = bench.begin()
    bench.wait_call(2)
    live.process.kill()
    live.wait()
    bench.run("doctor", "--fix", "--abandon", "demo").ok()
    assert bench.read("mine.txt") == "mine\n"
    assert bench.processes() == []
    assert bench.run("resume", "demo").code == 2


def test_demo_runs_without_a_key_a_network_or_a_home(bench: Bench) -> None:
    empty = bench.root / "nowhere"
    empty.mkdir()
    before = bench.snapshot()
    bare_home = bench.root / "bare-home"
    bare_home.mkdir()
    env = {"HOME": str(bare_home)}
    began = time.monotonic()
    result = bench.run("demo", cwd=empty, env=env, timeout=60).ok()
    assert time.monotonic() - began < 30
    assert result.stdout
    assert list(empty.iterdir()) == []
    assert bench.snapshot() == before


# stories


def test_stories_as_a_table(bench: Bench) -> None:
    bench.only_stories(2, 3)
    said = bench.run("stories", "demo").ok().stdout
    assert [story for story in STORIES if story not in said] == []


def test_stories_as_json(bench: Bench) -> None:
    bench.only_stories(2, 3)
    lines = bench.read(TASKS).splitlines()
    value = bench.run("stories", "demo", "--json").ok().json()
    assert set(value) >= {"change", "source", "tasks", "stories", "ignored"}
    assert (value["change"], value["source"], value["ignored"]) == ("demo", "openspec", [])
    assert value["tasks"] == {"total": 6, "complete": 2}
    assert [(s["id"], s["title"], s["depends_on"]) for s in value["stories"]] == [
        (str(n), title, []) for n, title in enumerate(STORIES, 1)
    ]
    first, second, _ = value["stories"]
    assert first["state"] != second["state"]
    # The text may carry the number or not.
    for task in first["tasks"]:
        task["text"] = task["text"].removeprefix(f"{task['id']} ")
    assert first["tasks"] == [
        {
            "id": f"1.{k}",
            "text": text,
            "done": True,
            "line": lines.index(f"- [x] 1.{k} {text}") + 1,
        }
        for k, text in ((1, "Write the alpha file"), (2, "Check the alpha file"))
    ]


def test_stories_changes_nothing(bench: Bench) -> None:
    before = bench.snapshot()
    bench.run("stories", "demo").ok()
    assert bench.snapshot() == before


def test_file_without_groups_makes_every_task_a_story(bench: Bench) -> None:
    bench.write(TASKS, "# Tasks\n\n- [ ] first thing\n  - detail\n- [ ] second thing\n")
    bench.commit("flat")
    bench.plan()
    bench.loop().ok()
    first, second = (call.prompt for call in bench.calls())
    assert "first thing" in first
    assert "detail" in first
    assert "second thing" not in first
    assert "second thing" in second
    assert bench.read(TASKS) == "# Tasks\n\n- [x] first thing\n  - detail\n- [x] second thing\n"


def test_ticking_keeps_every_other_byte(bench: Bench) -> None:
    text = "# Tasks\r\n\r\n## 1. Alpha\r\n\r\n* [ ] 1.1 one  \r\n\t* [ ] 1.2 two\r\n\r\ntail"
    bench.path(TASKS).write_bytes(text.encode())
    bench.commit("odd bytes")
    bench.plan()
    bench.loop().ok()
    assert bench.path(TASKS).read_bytes() == text.replace("[ ]", "[x]").encode()


# run without a name, and other starts


def test_run_without_change_takes_the_only_open_one(bench: Bench) -> None:
    bench.write("openspec/changes/closed/tasks.md", tasks_text([1, 2, 3]))
    bench.write("openspec/changes/closed/proposal.md", "# Closed\n")
    bench.commit("closed")
    bench.plan()
    bench.run("run", "--json", "--agent-cmd", bench.agent).ok()
    assert bench.state()["change_id"] == "demo"


def test_run_on_an_all_done_change_changes_nothing(bench: Bench) -> None:
    bench.write(TASKS, tasks_text([1, 2, 3]))
    bench.commit("all done")
    before = bench.snapshot()
    result = bench.run("run", "demo", "--agent-cmd", bench.agent).ok()
    assert "done" in (result.stdout + result.stderr).lower()
    assert bench.snapshot() == before
    assert bench.calls() == []


def test_root_tasks_file_as_a_story_source(bench: Bench) -> None:
    shutil.rmtree(bench.path("openspec"))
    bench.write("tasks.md", tasks_text())
    bench.commit("root tasks")
    bench.plan()
    args = ["--source", "tasks-md", "--json", "--agent-cmd", bench.agent]
    bench.run("run", "todo", *args).ok()
    assert len(bench.calls()) == 3
    assert bench.read("tasks.md") == tasks_text([1, 2, 3])
    assert bench.branch() == "ralph/todo"


def test_earlier_side_branch_is_archived(bench: Bench) -> None:
    bench.git("checkout", "-q", "-b", "ralph/demo")
    bench.write("old.txt", "old\n")
    old = bench.commit("an old run")
    bench.git("checkout", "-q", "feature/x")
    bench.plan()
    result = bench.run("run", "demo", "--agent-cmd", bench.agent).ok()
    archived = bench.refs("refs/ralph/archive/demo/")
    assert list(archived.values()) == [old]
    assert "refs/ralph/archive/demo/" in result.stdout + result.stderr
    assert not bench.path("old.txt").exists()


def test_no_hooks_run_and_nothing_is_signed(bench: Bench) -> None:
    hooks = bench.path(".git/hooks")
    hooks.mkdir(exist_ok=True)
    mark = bench.root / "hook-ran"
    for name in (
        "pre-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "post-checkout",
        "post-merge",
        "post-index-change",
        "reference-transaction",
    ):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {mark}\nexit 1\n")
        (hooks / name).chmod(0o755)
    bench.git("config", "commit.gpgsign", "true")
    bench.git("config", "gpg.program", "/nonexistent/gpg")
    before = {p.name: p.read_bytes() for p in hooks.iterdir()}
    config = bench.read(".git/config")
    # The fake agent's own questions run no hook.
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    assert not mark.exists(), mark.read_text()
    assert {p.name: p.read_bytes() for p in hooks.iterdir()} == before
    assert bench.read(".git/config") == config


def test_commits_carry_the_users_identity(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()
    form = "%an <%ae> %cn <%ce>"
    who = set(bench.git("log", f"--format={form}", "feature/x..ralph/demo").splitlines())
    assert who == {"Ada Bench <ada@bench.invalid> Ada Bench <ada@bench.invalid>"}


def test_no_identity_is_no_obstacle(bench: Bench) -> None:
    (bench.home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    bench.plan()
    bench.loop("--on-complete", "cleanup").ok()
    assert bench.branch() == "feature/x"


def test_inherited_git_variables_are_ignored(bench: Bench) -> None:
    alien = bench.root / "alien"
    bench.git("init", "-q", str(alien))
    start = bench.sha()
    bench.plan()
    env = {
        "GIT_DIR": str(alien / ".git"),
        "GIT_WORK_TREE": str(alien),
        "GIT_INDEX_FILE": str(bench.root / "alien-index"),
    }
    bench.loop(env=env).ok()
    assert len(bench.subjects(f"{start}..ralph/demo")) == 4
    assert bench.git("for-each-ref", cwd=alien) == ""
    assert not (bench.root / "alien-index").exists()
    assert {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"} & set(bench.calls()[0].env) == set()


@pytest.mark.parametrize("text", ["\n", "!.env\n", "other\n"])
def test_ignored_files_survive_a_rewritten_ignore_file(bench: Bench, text: str) -> None:
    start = bench.sha()
    bench.plan(
        {
            1: [["write", ".gitignore", text], ["say", failed("x")]],
            2: [["write", ".gitignore", text], *DONE],
        }
    )
    bench.loop("--on-complete", "keep").ok()
    assert (bench.read(".env"), bench.read("build/cache.bin")) == ("SECRET=1\n", "cache\n")
    names = bench.git("log", "--all", "--format=", "--name-only", f"^{start}").split()
    assert not {".env", "build/cache.bin"} & set(names)


def test_remotes_tags_and_other_branches_stay(bench: Bench) -> None:
    bench.git("tag", "v1")
    bench.git("branch", "other")
    bench.git("update-ref", "refs/remotes/origin/main", "HEAD")
    before = bench.refs()
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    after = {name: sha for name, sha in bench.refs().items() if not name.startswith("refs/ralph/")}
    assert after == before


def test_rate_limit_is_waited_for_and_is_no_attempt(bench: Bench) -> None:
    bench.install_claude()
    bench.only_stories(1)
    bench.plan({1: [["limit", 2]]})
    live = bench.begin("--agent", "claude", "--max-retries", "0")
    waiting = live.wait_event("waiting")
    assert dt.datetime.fromisoformat(waiting["until"]).tzinfo is not None
    assert waiting["why"]
    assert bench.state()["status"] == "running"
    result = live.wait().ok()
    assert len(bench.calls()) == 2
    assert bench.calls()[1].stdin == bench.calls()[0].stdin
    assert {event["attempt"] for event in result.named("iteration_started")} == {1}
    assert result.named("error") == []
    assert bench.state()["status"] == "done"


def test_stop_during_a_wait(bench: Bench) -> None:
    bench.install_claude()
    bench.plan({}, default=[["limit", 3600]])
    live = bench.begin("--agent", "claude")
    live.wait_event("waiting")
    bench.run("stop", "demo").ok()
    live.wait(10).ok(6)
    assert bench.state()["status"] == "stopped"


def test_stubborn_children_do_not_outlive_a_good_attempt(bench: Bench) -> None:
    bench.plan({1: [["child", "stubborn"], ["say", COMPLETE]]})
    bench.loop().ok()
    assert bench.processes() == []


def test_prompt_holds_the_proposal_the_checks_and_the_two_promises(bench: Bench) -> None:
    bench.plan()
    bench.loop("--verify", "test -d src").ok()
    prompt = bench.calls()[0].prompt
    for word in ("proposal.md", "test -d src", COMPLETE, "<promise>FAILED:"):
        assert word in prompt, word
