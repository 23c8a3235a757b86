"""`untildone add`: a story more in the plan, with and without a loop at work on it."""

from __future__ import annotations

import shlex
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.agent_calls import COMPLETE, failed
from tests.e2e.change import TASKS, tasks_text
from tests.e2e.command import COMMAND
from tests.e2e.test_lanes import Lanes

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

DELTA = "\n## 4. Delta page\n\n- [ ] 4.1 Write it\n- [ ] 4.2 Test it\n"


def stories_called(bench: Bench) -> list[str]:
    return [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()]


def test_a_story_is_written_as_the_others_are(bench: Bench) -> None:
    tasks = ("--task", "Write it", "--task", "Test it")
    added = bench.run("add", "demo", "Delta page", *tasks, "--json").ok().json()
    assert added == {
        "change_id": "demo",
        "story_id": "4",
        "title": "Delta page",
        "path": TASKS,
        "line": 18,
        "live": False,
    }
    assert bench.read(TASKS) == tasks_text() + DELTA
    said = bench.run("add", "demo", "Echo page", "--after", "1", "--depends", "4").ok().stdout
    assert f"Added story 5: {TASKS}:8" in said
    assert "untildone run demo" in said
    listed = bench.run("stories", "demo", "--json").ok().json()["stories"]
    assert [story["id"] for story in listed] == ["1", "5", "2", "3", "4"]
    assert listed[1]["depends_on"] == ["4"]


def test_what_is_refused_changes_nothing(bench: Bench) -> None:
    before = bench.snapshot()
    assert "did you mean `3`" in bench.run("add", "demo", "x", "--depends", "33").ok(2).stderr
    assert "no story `9`" in bench.run("add", "demo", "x", "--after", "9").ok(2).stderr
    assert "Did you mean `demo`" in bench.run("add", "dmo", "x").ok(2).stderr
    assert "has a title" in bench.run("add", "demo", " ").ok(2).stderr
    odd = bench.run("add", "demo", "Seven ##").ok(2).stderr
    assert "would not be read" in odd
    assert "with an editor" in odd
    assert bench.snapshot() == before


def test_where_stories_are_made_by_another_program_it_is_named(bench: Bench) -> None:
    shutil.rmtree(bench.path("openspec"))
    bench.write("backlog/tasks/task-1.md", "---\nid: TASK-1\ntitle: One\nstatus: To Do\n---\n")
    refused = bench.run("add", "backlog", "It's new").ok(2).stderr
    assert """backlog task create 'It'"'"'s new'""" in refused


def test_an_agent_cannot_give_itself_more_work(bench: Bench) -> None:
    bench.only_stories(1)
    from_inside = f"{shlex.quote(str(COMMAND))} add demo 'More work' 2> refused.txt; true"
    bench.plan({1: [["sh", from_inside], ["say", COMPLETE]]})
    bench.loop("--on-complete", "cleanup").ok()
    assert "belongs to the person" in bench.read("refused.txt")
    assert stories_called(bench) == ["1"]


@pytest.mark.parametrize("checkpoint", ["branch", "stash", "worktree"])
@pytest.mark.parametrize("word", [COMPLETE, failed("no luck")], ids=["kept", "put back"])
def test_beside_a_live_loop(bench: Bench, checkpoint: str, word: str) -> None:
    bench.only_stories(1)
    call: list[list[Any]] = [["wait", bench.gate("a")], ["write", "w.txt", "w\n"], ["say", word]]
    bench.plan({1: call})
    live = bench.begin("--checkpoint", checkpoint, "--on-complete", "cleanup", "--max-retries", "1")
    bench.wait_call(1)
    added = bench.run("add", "demo", "Delta page", "--task", "Write it", "--json").ok().json()
    assert (added["story_id"], added["live"]) == ("4", True)
    bench.open_gate("a")
    live.wait().ok()
    again = ["1"] * (word != COMPLETE)
    assert stories_called(bench) == ["1", *again, "4"]
    assert "- [x] 4.1 Write it" in bench.read(TASKS)


def test_beside_several_lanes(bench: Bench) -> None:
    lanes = Lanes(bench, 2)
    (bench.root / "story-1").write_text(
        f"while [ ! -e '{bench.root}/go' ]; do sleep 0.02; done; echo > w1.txt\n"
    )
    live = lanes.begin(2, "--on-complete", "keep")
    lanes.until_calls(2)
    added = bench.run("add", "demo", "Story 3", "--json").ok().json()
    assert (added["story_id"], added["live"]) == ("3", True)
    (bench.root / "go").touch()
    live.wait().ok()
    assert sorted(lanes.landed()) == ["1", "2", "3"]


def test_more_stories_than_calls_were_planned_for(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["wait", bench.gate("a")], ["say", COMPLETE]]})
    live = bench.begin("--max-retries", "0")
    bench.wait_call(1)
    bench.run("add", "demo", "Delta page").ok()
    bench.open_gate("a")
    live.wait().ok()
    assert stories_called(bench) == ["1", "4"]
