"""The loop's own checks from outside: levels, stories, and checks that misbehave."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE
from tests.e2e.change import TASKS, tasks_text
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

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
    flags = ["--verify", check, "--max-retries", "0", "--verify-timeout", "0.01"]
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
    said = [
        e["message"] for e in result.events[: names.index("iteration_started")] if "message" in e
    ]
    assert [m for m in said if f"already fails before the first story: `{check}`" in m]
    assert "junk.log" not in bench.calls()[0].files


def test_a_start_without_the_first_look(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan()
    result = bench.loop("--verify", "date >> ../ran; test -f work-1.txt", "--no-verify-start").ok()
    assert result.named("checks_tried") == []
    assert not [e for e in result.named("warning") if "already fails" in e["message"]]
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


HARM: dict[str, tuple[Actions, str]] = {
    "changes it": ([["write", "check.sh", "exit 0\n"]], "check.sh (changed)"),
    "commits the change": (
        [["write", "check.sh", "exit 0\n"], ["commit", "mine"]],
        "check.sh (changed)",
    ),
    "hides the change": (
        [["git", "update-index", "--skip-worktree", "check.sh"], ["write", "check.sh", "exit 0\n"]],
        "check.sh (changed)",
    ),
    "deletes a test": ([["delete", "tests/a.txt"]], "tests/a.txt (deleted or renamed)"),
    "renames a test": (
        [["rename", "tests/a.txt", "tests/b.txt"]],
        "tests/a.txt (deleted or renamed)",
    ),
    "makes it executable": (
        [["chmod", "check.sh", 0o755]],
        "check.sh (was file, is executable)",
    ),
}


WAYS = [*(("branch", how) for how in HARM), ("stash", "commits the change")]
WAYS += [("stash", "hides the change"), ("worktree", "deletes a test")]


@pytest.mark.parametrize(("variant", "how"), WAYS)
def test_an_attempt_that_touches_a_protected_file_fails_before_any_check(
    bench: Bench, variant: str, how: str
) -> None:
    harm, named = HARM[how]
    bench.write("check.sh", "echo ran >> ../ran\ntest -f good.txt\n")
    bench.write("tests/a.txt", "a test\n")
    bench.only_stories(1)
    good: Actions = [["write", "good.txt", "x"], ["write", "tests/new.txt", "x"], *DONE]
    bench.plan({1: [*harm, ["write", "good.txt", "x"], ["say", COMPLETE]], 2: good})
    flags = ["--verify", "sh check.sh", "--protect", "tests/**", "--checkpoint", variant]
    result = bench.loop(*flags, "--no-verify-start").ok()
    assert result.one("run_started")["protected"][:2] == ["tests/**", "check.sh"]
    assert result.outcomes() == ["verify_failed", "complete"]
    assert f"- {named}" in result.named("iteration_ended")[0]["reason"]
    assert len(result.named("verify_started")) == 1
    assert (bench.root / "ran").read_text() == "ran\n"
    first, second = (call.prompt for call in bench.calls())
    assert "- `check.sh`" in first
    assert named in second


def test_a_protected_file_that_git_ignores_is_watched_and_the_truth_is_told(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan(
        {1: [["write", ".env", "SECRET=2\n"], *DONE], 2: [["write", ".env", "SECRET=1\n"], *DONE]}
    )
    result = bench.loop("--protect", ".env").ok()
    assert result.outcomes() == ["verify_failed", "complete"]
    reason = result.named("iteration_ended")[0]["reason"]
    assert ".env (changed; it is not in git, so it was not put back)" in reason


def test_what_a_check_only_looks_at_and_what_the_person_allows_may_be_changed(bench: Bench) -> None:
    bench.write("check.sh", "grep -q done result.txt\n")
    bench.write("result.txt", "open\n")
    bench.only_stories(1)
    bench.plan({1: [["append", "check.sh", "true\n"], ["write", "result.txt", "done\n"], *DONE]})
    checks = ["--verify", "grep -q done result.txt", "--verify", "sh check.sh"]
    result = bench.loop(*checks, "--no-protect-checks").ok()
    assert result.outcomes() == ["complete"]
    assert result.one("run_started")["protected"] == []


def test_evidence_asks_for_a_change_outside_the_task_list(bench: Bench) -> None:
    heading = "## 2. Bravo greeting\n"
    bench.write(TASKS, tasks_text().replace(heading, f"{heading}\nAllow empty: yes\n"))
    bench.commit("story 2 may be empty")
    bench.plan(
        {1: [["tick", "1"], ["say", COMPLETE]], 3: [["say", COMPLETE]], 4: [["say", COMPLETE]]}
    )
    result = bench.loop("--evidence", "--max-retries", "1").ok()
    assert result.outcomes() == [
        *("verify_failed", "complete", "complete", "verify_failed", "complete")
    ]
    assert "nothing was changed outside the task list" in bench.calls()[1].prompt


@pytest.mark.parametrize("allowed", [["--allow-empty-story"], ["--allow-empty-story", "1"]])
def test_a_story_may_be_allowed_to_be_empty(bench: Bench, allowed: list[str]) -> None:
    bench.only_stories(1)
    bench.plan({1: [["say", COMPLETE]]})
    assert bench.loop("--evidence", *allowed).ok().outcomes() == ["complete"]


@pytest.mark.parametrize("variant", ["branch", "stash", "worktree"])
def test_a_clean_room_has_only_what_would_be_committed(bench: Bench, variant: str) -> None:
    bench.only_stories(1)
    hidden: Actions = [["write", "build/helper.txt", "x"], ["write", "work.txt", "x"]]
    bench.plan({1: [*hidden, ["say", COMPLETE]], 2: [["write", "helper.txt", "x"], *DONE]})
    # Without the room the first attempt would pass: its helper is there, but git ignores it.
    seen = (
        'pwd -P > "$ROOM"; git ls-files | grep -q "^work" && cat build/helper.txt || cat helper.txt'
    )
    flags = ["--verify", seen, "--clean-room", "--checkpoint", variant, "--no-verify-start"]
    before = bench.git("worktree", "list")
    result = bench.loop(*flags, env={"ROOM": str(bench.root / "room")}).ok()
    assert result.outcomes() == ["verify_failed", "complete"]
    room = Path((bench.root / "room").read_text().strip())
    assert room.parent == (bench.root / "tmp").resolve()
    assert not room.exists()
    if variant != "worktree":
        assert bench.git("worktree", "list").split()[0] == before.split()[0]
        assert len(bench.git("worktree", "list").splitlines()) == 1


def test_a_clean_room_of_a_killed_loop_is_removed_when_the_run_goes_on(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({}, default=DONE)
    live = bench.begin(
        "--verify", "test -f ../../go || sleep 60", "--clean-room", "--no-verify-start"
    )
    live.wait_event("verify_started")
    room = until(lambda: next((bench.root / "tmp").glob("untildone-room-*"), None))
    live.signal(signal.SIGKILL)
    live.wait()
    assert room.exists()
    (bench.root / "go").write_text("")
    bench.run("resume", "demo", "--json").ok()
    assert not list((bench.root / "tmp").glob("untildone-room-*"))
    assert bench.git("worktree", "list").splitlines()[1:] == []


@pytest.mark.parametrize("ignored", [False, True], ids=["tracked", "ignored"])
def test_boxes_that_an_agent_ticked_before_the_loop_was_killed_do_not_count(
    bench: Bench, ignored: bool
) -> None:
    if ignored:
        bench.git("rm", "-rq", "--cached", "openspec")
        bench.write(".gitignore", ".env\nbuild/\nopenspec/\n")
        bench.commit("the stories are not in git")
    bench.plan({1: [["tick_all"], ["say", "ticked"], ["sleep", 60]]})
    live = bench.begin()
    live.wait_event("agent_text")
    live.signal(signal.SIGKILL)
    live.wait()
    result = bench.run("resume", "demo", "--json").ok()
    assert [e["story_id"] for e in result.named("checkpoint_saved")] == ["1", "2", "3"]


@pytest.mark.parametrize("variant", ["branch", "stash"])
def test_a_stop_while_the_checks_are_tried_is_obeyed_and_leaves_no_file(
    bench: Bench, variant: str
) -> None:
    bench.only_stories(1)
    bench.plan()
    check = "touch junk.log ../trying; test -f ../go || sleep 60"
    live = bench.begin("--verify", check, "--checkpoint", variant)
    live.wait_event("checks_tried")
    until((bench.root / "trying").exists)
    live.signal(signal.SIGTERM)
    result = live.wait(10).ok(143)
    assert result.named("iteration_started") == []
    assert bench.state()["status"] == "stopped"
    assert not bench.path("junk.log").exists()
    (bench.root / "go").write_text("")
    again = bench.run("resume", "demo", "--json").ok()
    assert len(again.named("checks_tried")) == 1
    assert again.outcomes() == ["complete"]


NO_X = "! grep -q x a.txt"
ADDS_X = "grep -q x a.txt || echo x >> a.txt"
CHANGES_FILES: dict[str, tuple[list[str], int, bool]] = {
    "a check that ran before would fail": ([NO_X, ADDS_X], 3, False),
    "a formatter": (["grep -q a a.txt", ADDS_X], 0, True),
    "a formatter first": ([ADDS_X, "grep -q x a.txt"], 0, True),
    "other bytes each time": (["date +%N >> a.txt"], 0, False),
    "new files that are there at the start": (["date +%N > made.txt", "test -f a.txt"], 0, True),
    "an ignored file": (["mkdir -p cache; date +%N > cache/x", "test -f a.txt"], 0, True),
}


@pytest.mark.parametrize(
    ("how", "variant"), [*zip(CHANGES_FILES, ["branch", "stash", "worktree"] * 2, strict=True)]
)
def test_checks_that_change_files_prove_what_is_saved(bench: Bench, how: str, variant: str) -> None:
    checks, code, verified = CHANGES_FILES[how]
    bench.only_stories(1)
    bench.write("a.txt", "x\n")
    bench.write(".gitignore", "cache/\n")
    bench.commit("a file")
    bench.plan({}, default=[["write", "a.txt", "a\n"], *DONE])
    flags = [word for check in checks for word in ("--verify", check)]
    result = bench.loop(*flags, "--checkpoint", variant, "--max-retries", "0").ok(code)
    if code:
        reason = result.one("iteration_ended")["reason"]
        said = f"Files changed while the check `{ADDS_X}` ran: a.txt\nThe check `{NO_X}` failed"
        assert reason.startswith(said)
        return
    assert result.one("checkpoint_saved")["verified"] is verified
    unsettled = [e for e in result.named("warning") if "each time they run" in e["message"]]
    assert bool(unsettled) is not verified
    bench.run("finish", "demo", "cleanup").ok()
    assert ("x" in bench.read("a.txt")) is (ADDS_X in checks)


def test_in_a_clean_room_no_check_sees_what_another_one_changed(bench: Bench) -> None:
    bench.only_stories(1)
    bench.write("a.txt", "a\n")
    bench.commit("a file")
    bench.plan({}, default=[["write", "b.txt", "b"], *DONE])
    checks = [ADDS_X, "touch installed", NO_X, "test -f installed"]
    flags = [word for check in checks for word in ("--verify", check)]
    assert bench.loop(*flags, "--clean-room").ok().one("checkpoint_saved")["verified"]
    assert bench.read("a.txt") == "a\n"
