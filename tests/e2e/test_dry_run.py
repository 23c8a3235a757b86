"""`run --dry-run`: the plan and the first prompt, and not a byte is written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.agent_calls import COMPLETE, fails
from tests.e2e.change import TASKS, tasks_text

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def everything(*tops: Path) -> dict[str, tuple[Any, ...]]:
    """Every file, folder and link with its mode, times and bytes; access times aside."""
    found: dict[str, tuple[Any, ...]] = {}
    for top in tops:
        for path in [top, *top.rglob("*")]:
            stat = path.lstat()
            content: object = None
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_file():
                content = path.read_bytes()
            found[str(path)] = (stat.st_mode, stat.st_ino, stat.st_mtime_ns, content)
    return found


def dry(bench: Bench, *more: str, code: int = 0) -> Any:
    """The JSON object of a dry run; nothing on the machine has changed by it."""
    places = (bench.repo, bench.home, bench.root / "tmp", bench.root / "calls")
    before = everything(*places)
    result = bench.loop("--dry-run", *more).ok(code)
    text = bench.run(*[a for a in bench.loop_args("--dry-run", *more) if a != "--json"]).ok(code)
    assert everything(*places) == before
    if not result.stdout:
        assert text.stdout == ""
        return result.stderr
    found = result.json()
    assert found["prompt"].rstrip("\n") in text.stdout
    return found


def test_the_plan_and_the_prompt_of_a_new_run_are_true(bench: Bench) -> None:
    bench.write("notes.txt", "untracked\n")
    bench.path("README.md").write_text("# Edited\n")
    os.utime(bench.path("src/app.py"), (1, 1))  # git would like to refresh its index
    bench.git("config", "user.useConfigOnly", "true")
    flags = ("--verify", "touch checked", "--max-retries", "1", "--model", "m1")
    found = dry(bench, *flags)
    assert found["would"] == "start"
    assert [(row["id"], row["state"]) for row in found["stories"]] == [
        ("1", "next"),
        ("2", "open"),
        ("3", "open"),
    ]
    assert found["agent"]["argv"] == [str(bench.bin / "agent")]
    assert found["plan"]["limits"]["max_iterations"] == 6
    assert bench.calls() == []
    bench.plan()
    bench.loop(*flags).ok()
    assert bench.calls()[0].prompt == found["prompt"]
    text = bench.run("run", "demo", "--dry-run", "--agent-cmd", bench.agent).ok().stdout
    assert "All stories of `demo` are done" in text


def test_all_done_a_plain_task_and_the_worktree_variant(bench: Bench) -> None:
    assert dry(bench, "--task", "Be quick")["prompt"].startswith("Be quick")
    assert dry(bench, "--checkpoint", "worktree")["next"]["story_id"] == "1"
    assert dry(bench, "--checkpoint", "stash")["next"]["story_id"] == "1"
    bench.only_stories()
    found = dry(bench)
    assert found["would"] == "call_nobody"
    assert "are done" in found["message"]
    assert {row["state"] for row in found["stories"]} == {"done"}


def test_an_existing_run_would_go_on_with_the_reason_of_its_failure(bench: Bench) -> None:
    bench.plan({1: fails("the colour is wrong")}, default=fails("still wrong"))
    bench.loop("--max-retries", "1").ok(3)
    found = dry(bench)
    assert (found["would"], found["next"]["n"]) == ("go_on", 3)
    assert "still wrong" in found["prompt"]
    bench.plan()
    bench.run("resume", "demo").ok()
    assert bench.calls()[2].prompt == found["prompt"]
    assert "are done" in dry(bench)["message"]


def test_a_live_loop_is_named_and_not_disturbed(bench: Bench) -> None:
    bench.plan({1: [["wait", bench.gate("go")], ["say", COMPLETE]]})
    live = bench.begin()
    bench.wait_call(1)
    live.wait_event("iteration_started")
    found = dry(bench, code=2)
    assert (found["would"], found["next"]["attempt"]) == ("be_refused", 2)
    assert "already running" in found["refused"]
    bench.run("stop", "--after-story").ok()
    dry(bench, code=2)  # the message is for the loop: it must not be taken away
    bench.open_gate("go")
    assert live.wait().code == 6
    assert len(bench.calls()) == 1


@pytest.mark.parametrize("trouble", ["agent", "change", "flagged", "merge", "story file"])
def test_a_preflight_error_is_the_same_as_of_a_real_run(bench: Bench, trouble: str) -> None:
    flags: list[str] = []
    match trouble:
        case "agent":
            flags = ["--agent", "goose", "--permissions", "edits"]
        case "change":
            bench.path(TASKS).parent.rename(bench.repo / "openspec" / "changes" / "other")
        case "flagged":
            bench.write("id_rsa", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n")
        case "merge":
            bench.path(".git/MERGE_HEAD").write_text(bench.sha() + "\n")
        case _:
            bench.write(TASKS, tasks_text() + tasks_text())
    said = dry(bench, *flags, code=2)
    assert said == bench.loop(*flags).ok(2).stderr
