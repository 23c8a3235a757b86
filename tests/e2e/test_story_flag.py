"""`run --story ID`: only some stories of a change, and an ending that says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import fails
from tests.e2e.change import TASKS, tasks_text
from tests.e2e.test_lanes import Lanes

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def stories_called(bench: Bench) -> list[str]:
    return [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()]


def depending(bench: Bench) -> None:
    """Story 3 depends on 2."""
    bench.write(TASKS, tasks_text().replace("3.1 Write", "3.1 Write\n  Depends: 2\n"))
    bench.commit("plan")


def test_only_the_asked_story_is_run_and_the_change_is_not_called_done(bench: Bench) -> None:
    bench.plan()
    ended = bench.loop("--story", "2", "--on-complete", "keep").ok(6)
    assert stories_called(bench) == ["2"]
    assert bench.state()["status"] == "stopped"
    (said,) = [e["message"] for e in ended.named("warning") if "asked for" in e["message"]]
    assert said.startswith("Done as asked for: 2. 2 other stories are open")
    assert bench.read(TASKS) == tasks_text([2])
    assert [e["status"] for e in ended.named("finished")] == ["stopped"]


def test_cleanup_brings_the_story_home_and_the_next_run_does_the_rest(bench: Bench) -> None:
    bench.plan()
    bench.loop("--story", "3", "--story", "1", "--on-complete", "cleanup").ok(6)
    assert stories_called(bench) == ["1", "3"]
    assert bench.branch() == "feature/x"
    assert bench.read(TASKS) == tasks_text([1, 3])
    bench.commit("two stories")
    bench.loop("--on-complete", "cleanup").ok()
    assert stories_called(bench) == ["1", "3", "2"]


def test_the_last_open_story_ends_the_change(bench: Bench) -> None:
    bench.only_stories(2)
    bench.plan()
    bench.loop("--story", "2").ok()
    assert bench.state()["status"] == "done"


def test_resume_keeps_the_selection_until_it_is_given_another(bench: Bench) -> None:
    bench.plan({1: fails()})
    bench.loop("--story", "2", "--max-retries", "0").ok(3)
    bench.run("resume", "demo", "--json").ok(6)
    assert stories_called(bench) == ["2", "2"]
    assert "Done already: 2" in bench.run("resume", "demo").ok(2).stderr
    bench.run("resume", "demo", "--json", "--story", "all").ok()
    assert stories_called(bench) == ["2", "2", "1", "3"]


def test_what_it_depends_on_is_asked_for_or_taken_along(bench: Bench) -> None:
    depending(bench)
    bench.plan()
    refused = bench.run("run", "demo", "--story", "3", "--agent-cmd", bench.agent).ok(2).stderr
    assert "Story 3 depends on 2" in refused
    assert "--with-deps" in refused
    assert bench.branch() == "feature/x"
    bench.loop("--story", "3", "--with-deps").ok(6)
    assert stories_called(bench) == ["2", "3"]


def test_unknown_stories_are_refused_with_near_names(bench: Bench) -> None:
    before = bench.snapshot()
    refused = bench.run("run", "demo", "--story", "33", "--agent-cmd", bench.agent).ok(2).stderr
    assert "no story `33`" in refused
    assert "did you mean `3`" in refused
    plain = ("run", "--task", "x", "--story", "1", "--agent-cmd", bench.agent)
    assert "this run has none" in bench.run(*plain).ok(2).stderr
    assert bench.snapshot() == before


def test_in_lanes(bench: Bench) -> None:
    lanes = Lanes(bench, 4)
    lanes.run(2, "--story", "2", "--story", "4", "--on-complete", "keep").ok(6)
    assert sorted(lanes.landed()) == ["2", "4"]
