"""The loop's own checks from outside: levels, stories, and checks that misbehave."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench_repo import COMPLETE, DONE, TASKS, tasks_text

if TYPE_CHECKING:
    from tests.e2e.bench_repo import Bench

pytestmark = pytest.mark.e2e


def test_levels_are_shown_and_a_check_of_level_warn_blocks_nothing(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan()
    flags = ["--verify", "warn: echo ugly; exit 3", "--verify", "off: touch was-run"]
    result = bench.loop(*flags).ok()
    assert result.outcomes() == ["complete"]
    ended = result.one("verify_ended")
    assert (ended["level"], ended["passed"]) == ("warn", False)
    assert "ugly" in ended["reason"]
    assert "echo ugly; exit 3" in result.one("warning")["message"]
    assert not bench.path("was-run").exists()
    assert result.one("run_started")["verify"] == [flags[1], flags[3]]


def test_a_story_has_its_own_check(bench: Bench) -> None:
    heading = "## 2. Bravo greeting\n"
    bench.write(TASKS, tasks_text().replace(heading, f"{heading}\nVerify: `sh two.sh`\n"))
    bench.write("two.sh", "test -f bravo.txt\n")
    bench.write("untildone.toml", '[story_verify]\n3 = "test -f charlie.txt"\n')
    bench.commit("checks of stories")
    bench.plan({3: [["write", "bravo.txt", "x"], *DONE], 4: [["write", "charlie.txt", "x"], *DONE]})
    result = bench.loop().ok()
    assert result.outcomes() == ["complete", "verify_failed", "complete", "complete"]
    assert [e["command"] for e in result.named("verify_ended")] == [
        *("sh two.sh", "sh two.sh", "test -f charlie.txt")
    ]


def test_auto_runs_what_the_project_has(bench: Bench) -> None:
    bench.write("Makefile", "test:\n\ttest -f good.txt\n")
    bench.only_stories(1)
    bad, good = [["say", COMPLETE]], [["write", "good.txt", "x"], ["say", COMPLETE]]
    bench.plan({1: bad, 2: good})
    result = bench.loop("--verify", "auto").ok()
    assert result.one("run_started")["verify"] == ["make test"]
    assert result.outcomes() == ["verify_failed", "complete"]


def test_without_a_check_what_was_found_is_named_and_not_run(bench: Bench) -> None:
    bench.write("Makefile", "test:\n\ttouch was-run; false\n")
    bench.only_stories(1)
    bench.plan()
    result = bench.loop().ok()
    started = result.one("run_started")
    assert (started["verify"], started["verify_found"]) == ([], ["make test"])
    assert not result.named("verify_started")
    assert not bench.path("was-run").exists()


MISBEHAVING = {
    "hangs": "echo waiting; sleep 600",
    "floods": "yes",
    "forks": "@DAEMON@ & setsid @DAEMON@ & wait",
    "kills its parent": "kill -9 $PPID; sleep 600",
    "kills its group": "kill -9 0; sleep 600",
    "stops its parent": "kill -STOP $PPID; sleep 600",
}


@pytest.mark.parametrize("how", MISBEHAVING)
def test_a_check_that_misbehaves_fails_and_leaves_nothing(bench: Bench, how: str) -> None:
    bench.only_stories(1)
    daemon = [sys.executable, "-IS", "-c", "import time; time.sleep(600)", f"child-of:{bench.root}"]
    check = MISBEHAVING[how].replace("@DAEMON@", f"{shlex.join(daemon)} </dev/null >/dev/null 2>&1")
    bench.plan({}, default=DONE)
    flags = ["--verify", check, "--max-retries", "0", "--verify-timeout", "0.03"]
    result = bench.loop(*flags).ok(3)
    assert result.outcomes() == ["verify_failed"]
    reason = result.one("iteration_ended")["reason"]
    assert reason.startswith(f"The check `{check}` failed (")
    assert len(reason) < 5000
    assert bench.processes() == []
    assert bench.status() == []


def test_a_check_that_already_fails_is_named_before_the_first_call_and_leaves_no_file(
    bench: Bench,
) -> None:
    bench.only_stories(1)
    bench.plan({1: [["write", "good.txt", "x"], *DONE]})
    check = "date >> junk.log; test -f good.txt"
    result = bench.loop("--verify", check).ok()
    assert result.outcomes() == ["complete"]
    names = [event["event"] for event in result.events]
    first = next(e for e in result.events if e["event"] == "warning")
    assert f"already fails before the first story: `{check}`" in first["message"]
    assert names.index("warning") < names.index("iteration_started")
    assert "junk.log" not in bench.calls()[0].files


def test_a_start_without_the_first_look(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan()
    result = bench.loop("--verify", "date >> ../ran; test -f work-1.txt", "--no-verify-start").ok()
    assert result.named("checks_tried") == result.named("warning") == []
    assert len((bench.root / "ran").read_text().splitlines()) == 1


PYTEST_LIKE = """\
for name in old-a old-b new; do
    test -f "$name.ok" || { echo "FAILED tests/test_a.py::$name - no"; code=1; }
done
exit ${code:-0}
"""


def test_baseline_lets_old_failures_through_and_nothing_that_is_newly_broken(bench: Bench) -> None:
    bench.write("tests.sh", PYTEST_LIKE)
    bench.write("new.ok", "")
    bench.commit("two tests fail, one passes")
    breaks = [["delete", "new.ok"], ["say", COMPLETE]]
    mends = [["write", "old-a.ok", ""], ["say", COMPLETE]]
    breaks_again = [["delete", "old-a.ok"], ["say", COMPLETE]]
    bench.plan({1: breaks, 2: mends, 3: breaks_again})
    result = bench.loop("--verify", "sh tests.sh", "--baseline").ok()
    failed, complete = "verify_failed", "complete"
    assert result.outcomes() == [failed, complete, failed, complete, complete]
    old = ["tests/test_a.py::old-b"]
    ended = result.named("verify_ended")
    assert [e.get("let_through") for e in ended] == [None, old, None, old, old]
    reasons = [e["reason"] for e in result.named("iteration_ended")]
    assert reasons[0].startswith("Newly broken: tests/test_a.py::new\n")
    assert reasons[2].startswith("Newly broken: tests/test_a.py::old-a\n")
    warned = [e["message"] for e in result.named("warning")]
    assert "tests/test_a.py::old-a, tests/test_a.py::old-b" in warned[0]
    assert warned[1] == "Old failures of `sh tests.sh` were let through: tests/test_a.py::old-b"


@pytest.mark.parametrize("variant", ["stash", "worktree"])
def test_the_first_look_leaves_no_file_in_the_other_variants(bench: Bench, variant: str) -> None:
    bench.only_stories(1)
    bench.plan()
    check = "date >> junk.log; test -f work-1.txt"
    result = bench.loop("--verify", check, "--checkpoint", variant).ok()
    assert result.outcomes() == ["complete"]
    assert "junk.log" not in bench.calls()[0].files
