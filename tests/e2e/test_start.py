"""How `untildone run` starts: which change, which file, which branch, which prompt."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE
from tests.e2e.change import TASKS, tasks_text

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def test_run_without_change_takes_the_only_open_one(bench: Bench) -> None:
    bench.write("openspec/changes/closed/tasks.md", tasks_text([1, 2, 3]))
    bench.write("openspec/changes/closed/proposal.md", "# Closed\n")
    bench.commit("closed")
    bench.plan()
    bench.run("run", "--json", "--agent-cmd", bench.agent).ok()
    assert bench.state()["change_id"] == "demo"


def test_run_on_an_all_done_change_changes_nothing(bench: Bench) -> None:
    bench.write(TASKS, tasks_text([1, 2, 3]))
    bench.commit("all done")
    before = bench.snapshot()
    result = bench.run("run", "demo", "--agent-cmd", bench.agent).ok()
    assert "done" in (result.stdout + result.stderr).lower()
    assert bench.snapshot() == before
    assert bench.calls() == []


def test_root_tasks_file_as_a_story_source(bench: Bench) -> None:
    shutil.rmtree(bench.path("openspec"))
    bench.write("tasks.md", tasks_text())
    bench.commit("root tasks")
    bench.plan()
    args = ["--source", "tasks-md", "--json", "--agent-cmd", bench.agent]
    bench.run("run", "todo", *args).ok()
    assert len(bench.calls()) == 3
    assert bench.read("tasks.md") == tasks_text([1, 2, 3])
    assert bench.branch() == "ralph/todo"


def test_earlier_side_branch_is_archived(bench: Bench) -> None:
    bench.git("checkout", "-q", "-b", "ralph/demo")
    bench.write("old.txt", "old\n")
    old = bench.commit("an old run")
    bench.git("checkout", "-q", "feature/x")
    bench.plan()
    result = bench.run("run", "demo", "--agent-cmd", bench.agent).ok()
    archived = bench.refs("refs/ralph/archive/demo/")
    assert list(archived.values()) == [old]
    assert "refs/ralph/archive/demo/" in result.stdout + result.stderr
    assert not bench.path("old.txt").exists()


def test_prompt_holds_the_proposal_the_checks_and_the_two_promises(bench: Bench) -> None:
    bench.plan()
    bench.loop("--verify", "test -d src").ok()
    prompt = bench.calls()[0].prompt
    for word in ("proposal.md", "test -d src", COMPLETE, "<promise>FAILED:"):
        assert word in prompt, word
