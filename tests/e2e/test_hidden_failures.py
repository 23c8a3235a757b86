"""What a check hides: exit codes behind a pipe, scripts and targets that are not there yet."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE
from tests.e2e.change import TASKS, tasks_text
from tests.e2e.test_strict import PYTEST, project, wrong

if TYPE_CHECKING:
    from tests.e2e.bench import Bench
    from tests.e2e.command import Result

pytestmark = pytest.mark.e2e

COUNTED = "exit code 0, but its runner counted 1 failed: a pipe or `|| true` hides its exit code"


def warned(result: Result, words: str) -> list[str]:
    """The warnings that say this."""
    return [e["message"] for e in result.named("warning") if words in e["message"]]


@pytest.mark.parametrize("more", ["| tail -3", "; echo done", "|| true"])
def test_a4_a_runner_that_counts_failures_is_believed_over_an_exit_code(
    bench: Bench, more: str
) -> None:
    project(bench)
    bench.plan({1: wrong()}, default=[["write", "n.py", "x = 1\n"], *DONE])
    result = bench.loop("--verify", f"{PYTEST} {more}", "--max-retries", "1").ok()
    assert result.outcomes() == ["verify_failed", "complete"]
    assert COUNTED in result.named("iteration_ended")[0]["reason"]
    assert result.one("checkpoint_saved")["verified"]


@pytest.mark.parametrize("tail", ["tail -3", "tail -1"], ids=["named", "counted"])
def test_a4_a_hidden_failure_of_before_is_let_through_and_a_new_one_is_not(
    bench: Bench, tail: str
) -> None:
    project(bench)
    bench.write("test_old.py", "def test_old():\n    assert False\n")
    bench.commit("a test that fails")
    bench.plan({1: wrong()}, default=[["write", "n.py", "x = 1\n"], *DONE])
    result = bench.loop("--verify", f"{PYTEST} | {tail}", "--baseline").ok()
    assert result.outcomes() == ["verify_failed", "complete"]


def test_a4_a_hidden_failure_of_a_check_that_blocks_nothing_is_told(bench: Bench) -> None:
    project(bench)
    bench.plan({1: wrong()})
    result = bench.loop("--verify", f"warn: {PYTEST} | tail -3").ok()
    assert warned(result, "exit code 0, but its runner counted 1 failed")


HIDES = {
    "nosuch | cat": "bash -o pipefail -c 'nosuch | cat'",
    "git --version; echo done": "`&&` instead of `;`",
    "git --version || true": "Leave out the `||`",
}


@pytest.mark.parametrize("check", HIDES)
def test_a9_a_check_whose_exit_code_is_hidden_is_named_at_the_start(
    bench: Bench, check: str
) -> None:
    bench.only_stories(1)
    bench.plan()
    result = bench.loop("--verify", check).ok()
    (said,) = warned(result, "hides its exit code")
    assert f"`{check}`" in said
    assert HIDES[check] in said


MAKE_TEST = "test: unit\n\tsh t.sh\n\nunit:\n\tgrep -q good m.txt\n"


@pytest.mark.parametrize("made", ["touch test", "mkdir test", "touch unit test"])
def test_a4_an_attempt_cannot_make_the_file_that_lets_make_do_nothing(
    bench: Bench, made: str
) -> None:
    bench.only_stories(1)
    bench.write("Makefile", MAKE_TEST)
    bench.write("t.sh", "exit 0\n")
    bench.commit("a target without .PHONY")
    good: list[list[object]] = [["write", "m.txt", "good\n"], *DONE]
    cheats: list[list[object]] = [["sh", f"{made}; touch test/x || true"], *DONE]
    bench.plan({1: cheats, 2: good})
    result = bench.loop("--verify", "make test").ok()
    assert result.outcomes() == ["verify_failed", "complete"]
    assert "- test (new)" in result.named("iteration_ended")[0]["reason"]
    assert result.one("checkpoint_saved")["verified"]


def test_a4_a_phony_target_is_no_file_that_matters(bench: Bench) -> None:
    bench.only_stories(1)
    bench.write("Makefile", f".PHONY: test unit\n{MAKE_TEST}")
    bench.write("t.sh", "exit 0\n")
    bench.commit("a target with .PHONY")
    bench.plan({1: [["write", "test/m.txt", ""], ["write", "m.txt", "good\n"], *DONE]})
    assert bench.loop("--verify", "make test").ok().outcomes() == ["complete"]


@pytest.mark.parametrize("path", ["inc.mk", "t.sh", "more.mk"])
def test_a4_what_a_makefile_includes_and_its_variables_name_cannot_be_rewritten(
    bench: Bench, path: str
) -> None:
    bench.only_stories(1)
    bench.write("Makefile", "-include more.mk\ninclude inc.mk\n.PHONY: test\ntest:\n\t$(CMD)\n")
    bench.write("inc.mk", "SCRIPT = t.sh\nCMD = sh $(SCRIPT)\n")
    bench.write("t.sh", "test -f good.txt\n")
    bench.commit("a Makefile of two files")
    cheat = "exit 0\n" if path == "t.sh" else "override CMD = true\n"
    good: list[list[object]] = [["write", "good.txt", "x"], *DONE]
    bench.plan({1: [["write", path, cheat], *DONE], 2: good})
    result = bench.loop("--verify", "make test").ok()
    assert result.outcomes() == ["verify_failed", "complete"]
    assert f"- {path} (" in result.named("iteration_ended")[0]["reason"]


def test_a4_the_configuration_is_not_for_an_attempt_to_change(bench: Bench) -> None:
    bench.only_stories(1)
    cheat: list[list[object]] = [["write", "untildone.toml", 'verify = ["true"]\n'], *DONE]
    bench.plan({1: cheat}, default=DONE)
    result = bench.loop("--verify", "test -d .").ok()
    assert result.outcomes() == ["verify_failed", "complete"]
    assert "- untildone.toml (new)" in result.named("iteration_ended")[0]["reason"]
    assert warned(result, "`Touches: PATH`")
    assert not bench.path("untildone.toml").exists()


def test_a4_the_configuration_may_be_changed_by_a_story_that_says_so(bench: Bench) -> None:
    touches(bench, "untildone.toml")
    bench.plan({1: [["write", "untildone.toml", 'verify = ["true"]\n'], *DONE]})
    assert bench.loop("--verify", "test -d .").ok().outcomes() == ["complete"]


def touches(bench: Bench, path: str) -> None:
    """Only story 1 is open, and may change this file."""
    heading = "## 1. Alpha greeting\n"
    text = tasks_text(stories=("Alpha greeting",))
    bench.write(TASKS, text.replace(heading, f"{heading}\nTouches: `{path}`\n"))
    bench.commit(f"story 1 changes {path}")


SCRIPT = "sh run-tests.sh"


def test_a4_a_story_that_writes_the_script_of_its_check_is_not_verified(bench: Bench) -> None:
    bench.only_stories(1, 2)
    writes: list[list[object]] = [["write", "run-tests.sh", "exit 0\n"], *DONE]
    again: list[list[object]] = [["write", "run-tests.sh", "true\n"], *DONE]
    bench.plan({1: writes, 2: again})
    result = bench.loop("--verify", SCRIPT).ok()
    assert warned(result, "runs `run-tests.sh`, which is not there")
    assert result.outcomes() == ["complete", "verify_failed", "complete"]
    assert [e["verified"] for e in result.named("checkpoint_saved")] == [False, True]
    assert warned(result, "not counted as verified; `--strict`")
    assert "- run-tests.sh (changed)" in result.named("iteration_ended")[1]["reason"]


def test_a4_a_story_may_write_the_script_of_its_check_if_it_says_so(bench: Bench) -> None:
    touches(bench, "run-tests.sh")
    bench.plan({1: [["write", "run-tests.sh", "exit 0\n"], *DONE]})
    assert bench.loop("--verify", SCRIPT).ok().one("checkpoint_saved")["verified"]


def test_a4_strict_finds_a_test_at_the_top_of_a_project_without_settings(bench: Bench) -> None:
    project(bench)
    bench.path("pyproject.toml").unlink()
    bench.commit("no settings")
    bench.program(
        "pytest", f'#!/bin/sh\nexec {sys.executable} -m pytest -p no:cacheprovider "$@"\n'
    )
    bench.plan({1: wrong()}, default=[["write", "n.py", "x = 1\n"], *DONE])
    result = bench.loop("--strict").ok()
    assert result.outcomes() == ["verify_failed", "complete"]
    assert result.one("checkpoint_saved")["verified"]
    assert not warned(result, "found no tests")


@pytest.mark.parametrize("check", ["true", "test -f work-1.txt"])
def test_a4_a_check_that_only_looks_is_told_as_such_at_the_start(bench: Bench, check: str) -> None:
    bench.only_stories(1)
    bench.plan()
    assert f"`{check}`" in warned(bench.loop("--verify", check).ok(), "only looks")[0]


def test_the_reason_of_a_check_that_prints_nothing_says_so(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan()
    result = bench.loop("--verify", "test -f nowhere", "--max-retries", "0").ok(3)
    reason = result.named("iteration_ended")[0]["reason"]
    assert reason == "The check `test -f nowhere` failed (exit code 1); it printed nothing"
