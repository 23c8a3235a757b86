"""What a check hides: exit codes behind a pipe, scripts and targets that are not there yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE
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
