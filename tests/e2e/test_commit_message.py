"""`commit_message`: what the commits of stories are called, and that nothing depends on it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, fails
from tests.e2e.test_lanes import Lanes

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

TEMPLATE = "feat({change}): {title} ({id}, attempt {attempt})"
NAMED = [
    "initial state",
    "feat(demo): Alpha greeting (1, attempt 1)",
    "feat(demo): Bravo greeting (2, attempt 2)",
    "feat(demo): Charlie greeting (3, attempt 1)",
]


def test_commits_are_called_by_the_template_and_keep_their_trailers(bench: Bench) -> None:
    bench.write("untildone.toml", f'commit_message = "{TEMPLATE}"\n')
    start = bench.commit("settings")
    bench.plan({2: fails()})
    run_id = bench.loop().ok().one("run_started")["run_id"]
    assert bench.subjects(f"{start}..ralph/demo") == NAMED
    body = bench.git("log", "-1", "--format=%b", "ralph/demo~1").splitlines()
    assert body == [f"Untildone-Run: {run_id}", "Untildone-Story: 2", "Untildone-Attempt: 2"]


def test_a_run_that_was_killed_goes_on_without_reading_subjects(bench: Bench) -> None:
    start = bench.sha()
    bench.plan({2: [["wait", bench.gate("never")]]})
    live = bench.begin("--commit-message", "{title}")
    bench.wait_call(2)
    live.signal(signal.SIGKILL)
    live.wait()
    bench.plan()
    bench.run("resume", "demo", "--json").ok()
    subjects = ["initial state", "Alpha greeting", "Bravo greeting", "Charlie greeting"]
    assert bench.subjects(f"{start}..ralph/demo") == subjects


def test_lanes_land_with_the_same_template(bench: Bench) -> None:
    lanes = Lanes(bench, 3)
    lanes.run(3, "--commit-message", "{title} ({id})").ok()
    landed = bench.subjects("feature/x..ralph/demo")[1:]
    assert sorted(landed) == ["Story 1 (1)", "Story 2 (2)", "Story 3 (3)"]
    assert bench.git("log", "-1", "--format=%gs", "-g", "ralph/demo") == landed[-1]


def test_a_plain_loop_has_the_task_for_a_title(bench: Bench) -> None:
    bench.plan({1: [["write", "a.txt", "a\n"], ["say", COMPLETE]]})
    args = ("--task", "Polish it\nall", "--done", "promise", "--commit-message", "{title}: {id}")
    bench.loop(*args).ok()
    assert bench.subjects("feature/x..HEAD")[1:] == ["Polish it all: iteration-1"]


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{titel}", "knows {id}, {title}, {change}, {attempt}, and not {titel}"),
        ("", "must be one line"),
        ("two\nlines", "must be one line"),
    ],
)
def test_a_template_that_cannot_work_is_refused_at_the_start(
    bench: Bench, template: str, said: str
) -> None:
    before = bench.snapshot()
    result = bench.loop("--commit-message", template).ok(2)
    assert said in " ".join(result.stderr.split())
    assert bench.snapshot() == before
