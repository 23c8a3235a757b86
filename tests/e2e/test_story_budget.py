"""`Budget:` in a story's text: what the work on this story may cost, as the person wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, fails
from tests.e2e.change import TASKS
from tests.e2e.test_story_agents import named

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

RUN = ("run", "demo", "--agent", "claude", "--json", "--on-complete", "keep")


@pytest.fixture
def paid(bench: Bench) -> Bench:
    """A bench whose agent says that each call took 2490 tokens and 0.01252 USD."""
    bench.install_claude()
    return bench


@pytest.mark.parametrize(
    ("line", "calls", "name"),
    [
        ("Budget: iterations=2", 2, "story-iterations"),
        ("Budget: cost=0.02, tokens=90k", 2, "story-cost"),
        ("- **Budget:** story-tokens=7k", 3, "story-tokens"),
    ],
)
def test_the_work_on_a_story_stops_at_its_own_budget(
    paid: Bench, line: str, calls: int, name: str
) -> None:
    paid.write(TASKS, named((2, line)))
    paid.commit("a budget")
    paid.plan({1: DONE}, default=fails())
    result = paid.run(*RUN, "--max-retries", "9", "--no-learnings").ok(6)
    assert len(paid.calls()) == 1 + calls
    (error,) = [event for event in result.named("error") if event.get("budget")]
    assert (error["budget"], "story 2" in error["message"]) == (name, True)
    paid.plan()
    paid.run("resume", "demo", "--json").ok(2)
    paid.run("resume", "demo", "--json", "--budget", f"{name}=off").ok()
    assert len(paid.calls()) == 1 + calls + 2


def test_of_the_line_and_the_flag_the_smaller_counts(paid: Bench) -> None:
    paid.write(TASKS, named((1, "Budget: iterations=1"), (2, "Budget: iterations=5")))
    paid.commit("budgets")
    paid.plan({2: DONE}, default=fails())
    more = ("--max-retries", "9", "--budget", "story-iterations=2")
    paid.run(*RUN, *more).ok(6)
    assert len(paid.calls()) == 1
    paid.run("resume", "demo", "--json", "--budget", "story-iterations=3").ok(6)
    # The word of the person holds for all: story 1 has had its two calls, story 2 gets three.
    assert len(paid.calls()) == 5


def test_no_attempt_gives_itself_more(paid: Bench) -> None:
    paid.write(TASKS, named((2, "Budget: iterations=1")))
    paid.commit("a budget")
    richer = named((2, "Budget: iterations=9"))
    paid.plan({1: DONE, 2: [["write", TASKS, richer], *fails()]}, default=fails())
    paid.run(*RUN, "--max-retries", "9").ok(6)
    assert len(paid.calls()) == 2


def test_what_the_line_cannot_hold_is_told_before_the_run(bench: Bench) -> None:
    bench.write(TASKS, named((1, "Budget: cost=1"), (2, "Budget: 45 minutes")))
    bench.commit("budgets")
    refused = bench.loop().ok(2).stderr
    assert f"story 1 ({TASKS}:3)" in refused
    assert bench.calls() == []
    found = bench.run("lint", "demo", "--json").ok(3).json()["findings"]
    (told,) = [row for row in found if row["rule"] == "no-budget"]
    assert (told["level"], told["story_id"]) == ("error", "2")
    assert "Budget: cost=2" in told["message"]


def test_lanes_keep_to_it(paid: Bench) -> None:
    lines = [(n, f"Touches: work-{n}.txt") for n in (1, 2, 3)]
    paid.write(TASKS, named(*lines, (2, "Budget: iterations=1")))
    paid.commit("a budget")
    paid.plan(default=fails())
    paid.run(*RUN, "--lanes", "2", "--max-retries", "2").ok(6)
    assert [c.env["UNTILDONE_STORY_ID"] for c in paid.calls()].count("2") == 1
