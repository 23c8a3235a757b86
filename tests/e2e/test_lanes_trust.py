"""What a run in lanes owes its user like any other: checks, the plan, private files, money."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE
from tests.e2e.change import TASKS
from tests.e2e.test_lanes import BRANCH, WORK, Lanes

if TYPE_CHECKING:
    from tests.e2e.bench import Bench
    from tests.e2e.command import Result

pytestmark = pytest.mark.e2e

CHECK = "test -f bravo.txt"
TESTS = "ls test_*.py | wc -l | sed 's/$/ passed in 1s/'\n"


def ends(result: Result) -> list[tuple[str, str]]:
    """Story and outcome of each call, sorted: lanes end in any order."""
    return sorted((e["story_id"], e["outcome"]) for e in result.named("iteration_ended"))


def reasons(result: Result) -> str:
    return "\n".join(event["reason"] for event in result.named("iteration_ended"))


def other_worktree(bench: Bench) -> Path:
    """Where the run is, and where a person edits its plan."""
    return bench.repo.with_name(f"{bench.repo.name}-ralph-demo")


def test_a3_in_lanes_the_check_of_another_story_stays_as_it_was(bench: Bench) -> None:
    scripts = {
        "1": f"{WORK}; sed -i 's/{CHECK}/true/' {TASKS}",
        "2-1": WORK,
        "2-2": "echo x > bravo.txt",
    }
    lanes = Lanes(bench, 2, scripts)
    heading = "## 2. Story 2\n"
    bench.write(TASKS, bench.read(TASKS).replace(heading, f"{heading}\nVerify: `{CHECK}`\n"))
    bench.commit("a check of story 2")
    result = lanes.run(2, "--max-retries", "1").ok()
    assert ends(result) == [("1", "complete"), ("2", "complete"), ("2", "verify_failed")]
    assert f"Verify: `{CHECK}`" in lanes.shown(TASKS)
    assert lanes.shown("bravo.txt") == "x"


def test_a4_in_lanes_who_changes_the_script_of_the_check_or_deletes_tests_is_not_done(
    bench: Bench,
) -> None:
    bench.write("check.sh", TESTS)
    for name in "abc":
        bench.write(f"test_{name}.py", "")
    scripts = {"1-1": f"{WORK}; echo true > check.sh", "2-1": f"{WORK}; rm test_b.py"}
    lanes = Lanes(bench, 3, scripts)
    result = lanes.run(3, "--verify", "sh check.sh").ok()
    assert ends(result) == [
        *[("1", "complete"), ("1", "verify_failed")],
        *[("2", "complete"), ("2", "verify_failed"), ("3", "complete")],
    ]
    assert "check.sh (changed)" in reasons(result)
    assert "with fewer tests" in reasons(result)
    assert lanes.shown("check.sh") == TESTS.strip()
    assert "test_b.py" in bench.git("ls-tree", "--name-only", BRANCH)


def test_a6_in_lanes_a_story_that_is_added_is_run_and_a_renamed_one_is_not_run_again(
    bench: Bench,
) -> None:
    plan = other_worktree(bench) / TASKS
    edits = (
        f"sed -i 's/2. Story 2/2. Second story/' {plan}; "
        rf"printf '\n## 9. Delta\n\n- [ ] 9.1 Write the delta file\n' >> {plan}"
    )
    done = (
        f"until git -C {bench.repo} log --format=%s {BRANCH} | grep -q ': 1$'; do sleep 0.1; done"
    )
    lanes = Lanes(bench, 2, {"1": f"{edits}; {WORK}", "2": f"{done}; sleep 0.5; {WORK}"})
    lanes.run(2).ok()
    assert sorted(story for story, *_ in lanes.calls()) == ["1", "2", "9"]
    assert sorted(lanes.landed()) == ["1", "2", "9"]
    assert "## 2. Second story" in lanes.shown(TASKS)
    assert "[ ]" not in lanes.shown(TASKS)


def test_a7_in_lanes_nothing_is_lost_to_a_git_gc_in_the_users_repository(bench: Bench) -> None:
    prune = f"git -C {bench.repo} gc -q --prune=now; git -C {bench.repo} prune"
    lanes = Lanes(bench, 4, {"any": f"{WORK}; {prune} || true"})
    # One after the other: what is pruned in the instant in which another lane stores it is in
    # docs/plan.md.
    text = bench.path(TASKS).read_text()
    for n in (2, 3, 4):
        text = text.replace(f"own-{n}.txt\n", f"own-{n}.txt\nDepends: {n - 1}\n")
    bench.write(TASKS, text)
    bench.commit("one after the other")
    lanes.run(2).ok()
    assert sorted(lanes.landed()) == ["1", "2", "3", "4"]
    assert "missing" not in bench.git("fsck", "--no-dangling", ok=False)


def test_a5_in_lanes_folders_and_records_are_private(bench: Bench) -> None:
    lanes = Lanes(bench, 2)
    lanes.run(2).ok()
    (slots,) = Path(bench.env()["HOME"], ".cache/untildone/slots").iterdir()
    runs = bench.path(f".git/worktrees/{other_worktree(bench).name}/untildone/runs")
    folders = [*slots.glob("lane-*"), runs, *runs.iterdir()]
    assert len(folders) > 3
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in folders} == {"0o700"}
    (run,) = runs.iterdir()
    files = [path for path in (*run.glob("*"), *run.glob("logs/*")) if path.is_file()]
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in files} == {"0o600"}


def test_a8_in_lanes_an_agent_that_lingers_after_its_result_has_finished_its_work(
    bench: Bench,
) -> None:
    bench.install_claude()
    bench.plan(default=[*DONE, ["linger", 600]])
    result = bench.loop("--agent", "claude", "--lanes", "2", "--idle-timeout", "0.05").ok()
    assert ends(result) == [("1", "complete"), ("2", "complete"), ("3", "complete")]
    assert bench.processes() == []


def test_a9_in_lanes_passing_trouble_after_real_work_has_a_limit(bench: Bench) -> None:
    bench.install_claude()
    bench.only_stories(1)
    cut = ["api_error", "overloaded", 529, "API Error: 529 Overloaded, try again in 1s"]
    bench.plan(default=[["write", "half.txt", "x"], ["say", "Half of it is done."], cut])
    flags = ("--lanes", "2", "--max-retries", "0", "--trouble-budget", "calls=2")
    result = bench.loop("--agent", "claude", *flags).ok(3)
    assert len(bench.calls()) == 2
    assert "passing trouble has ended 2 calls" in result.one("error")["reason"]
