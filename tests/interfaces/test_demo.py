"""`demo`, from outside."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.bench import Bench
from tests.e2e.command import COMMAND, Json

pytestmark = pytest.mark.e2e
CHANGE = "better-greetings"


def demo_events(folder: Path) -> list[Json]:
    (journal,) = folder.glob(".git/untildone/runs/*/journal.jsonl")
    rows: list[Json] = [json.loads(line) for line in journal.read_text().splitlines()]
    return [row for row in rows if "event" in row]


def prompts(folder: Path) -> list[str]:
    paths = sorted(folder.glob(".git/untildone/runs/*/logs/*.prompt.md"))
    return [path.read_text() for path in paths]


def test_demo_shows_a_pass_a_failure_a_lie_and_a_crash(bench: Bench) -> None:
    folder = bench.root / "kept"
    result = bench.run("demo", "--fast", "--keep", str(folder)).ok()
    assert "check: sh check.sh (from the demo)" in result.stdout
    ended = [event for event in demo_events(folder) if event["event"] == "iteration_ended"]
    assert [event["outcome"] for event in ended] == [
        *("complete", "failed", "complete", "verify_failed", "complete", "agent_error", "complete")
    ]
    lie = next(e for e in demo_events(folder) if e["event"] == "verify_ended" and not e["passed"])
    assert "not ok: tests/evening.test" in lie["reason"]
    asked = prompts(folder)
    assert "words.txt does not exist" not in asked[1]
    assert "words.txt does not exist" in asked[2]
    assert "not ok: tests/evening.test" in asked[4]
    assert asked[5] == asked[6]
    assert result.stderr == ""


def test_demo_sums_up_and_leaves_the_work_uncommitted(bench: Bench) -> None:
    folder = bench.root / "kept"
    said = bench.run("demo", "--fast", "--keep", str(folder)).ok().stdout
    for word in ("checkpoint: 4", "initial state", "15.5k", str(folder)):
        assert word in said, word
    for attempt in ("2/1", "3/1", "4/1"):
        assert f"refs/ralph/attempts/{CHANGE}/{attempt}" in said
    assert said.endswith("next: cd your-repo && untildone init\n")
    assert bench.branch(cwd=folder) == "main"
    assert bench.git("log", "--format=%an <%ae> %s", cwd=folder) == (
        "Demo <demo@localhost> a program that says hello"
    )
    assert " M greet.sh" in bench.status(cwd=folder)
    loud = {"GREET_LOUD": "1", "GREET_TIME": "evening"}
    greeted = subprocess.run(
        ["sh", "greet.sh", "Ada"], cwd=folder, env=bench.env(loud), capture_output=True, check=True
    )
    assert greeted.stdout == b"GOOD EVENING, ADA!\n"


def test_demo_does_not_touch_a_folder_with_files(bench: Bench) -> None:
    before = bench.snapshot()
    assert "not empty" in bench.run("demo", "--keep", str(bench.repo)).ok(2).stderr
    assert bench.snapshot() == before


def test_demo_needs_no_home_no_stdin_and_nothing_of_the_persons_settings(bench: Bench) -> None:
    home, temp = bench.root / "empty", bench.root / "temp"
    home.mkdir()
    temp.mkdir()
    env = bench.env({"HOME": str(home), "TMPDIR": str(temp), "UNTILDONE_MAX_RETRIES": "0"})
    closed = f"exec {COMMAND} demo --fast <&-"
    done = subprocess.run(
        ["sh", "-c", closed], cwd=home, env=env, capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"next: cd your-repo && untildone init" in done.stdout
    assert (list(home.iterdir()), list(temp.iterdir())) == ([], [])


@pytest.mark.parametrize(("word", "branch"), [("c", "main"), ("keep", f"ralph/{CHANGE}")])
def test_demo_asks_at_a_terminal(bench: Bench, word: str, branch: str) -> None:
    folder = bench.root / "kept"
    terminal = bench.terminal("demo", "--fast", "--keep", str(folder))
    terminal.wait_text("cleanup, keep or later?")
    terminal.type(f"{word}\n")
    terminal.wait_text("next: cd your-repo && untildone init")
    assert terminal.wait() == 0
    assert bench.branch(cwd=folder) == branch
    assert terminal.titles[-1] == f"Ralph: {CHANGE} [done]"


def test_demo_is_gone_after_an_interrupt(bench: Bench) -> None:
    temp = bench.root / "temp"
    temp.mkdir()
    terminal = bench.terminal("demo", env={"TMPDIR": str(temp)})
    terminal.wait_text("iteration 2")
    terminal.type("\x03")
    assert terminal.wait() == 130
    assert list(temp.iterdir()) == []


@pytest.mark.slow
def test_demo_can_be_followed_and_takes_less_than_15_seconds(bench: Bench) -> None:
    began = time.monotonic()
    bench.run("demo", cwd=bench.root).ok()
    assert 4 < time.monotonic() - began < 15
