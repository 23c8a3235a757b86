"""What an agent writes down for later calls: shown, carried on, never part of the work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, failed
from tests.e2e.change import TASKS, tasks_text

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def told(prompt: str) -> str:
    """The file that a prompt names."""
    (path,) = re.findall(r"`(\S*learnings\S*)`", prompt)
    return str(path)


def notes(bench: Bench, text: str) -> list[object]:
    return ["append", str(bench.repo / ".untildone-learnings-demo.md"), text]


@pytest.mark.parametrize("variant", ["branch", "stash"])
def test_learnings_go_from_story_to_story_and_into_no_commit(bench: Bench, variant: str) -> None:
    bench.plan(
        {
            1: [notes(bench, "Use make.\n"), *DONE],
            2: [notes(bench, "Not npm.\n"), ["git", "add", "-A"], ["say", failed("no port")]],
        }
    )
    bench.loop("--checkpoint", variant).ok()
    prompts = [call.prompt for call in bench.calls()]
    assert len({told(prompt) for prompt in prompts}) == 1
    assert Path(told(prompts[0])).read_text() == "Use make.\nNot npm.\n"
    assert ["Use make." in prompt for prompt in prompts] == [False, True, True, True]
    assert ["Not npm." in prompt for prompt in prompts] == [False, False, True, True]
    names = bench.git("log", "--all", "--name-only", "--format=").split()
    assert [name for name in names if "learnings" in name] == []
    assert "learnings" not in bench.git("status", "--porcelain", "--untracked-files=all")
    store = Path(bench.state()["learnings_file"])
    assert store.read_text() == "Use make.\nNot npm.\n"
    assert f"learnings: {store}" in bench.run("status").ok().stdout
    bench.run("replay").ok()


def test_the_next_prompt_after_a_crash_is_the_first_one_whatever_was_learned(
    bench: Bench,
) -> None:
    bench.only_stories(1, 2)
    crash: Actions = [notes(bench, "It crashes.\n"), ["exit", 3]]
    bench.plan({1: crash, 2: crash, 3: [["say", failed("no port")]], 4: crash})
    bench.loop("--max-retries", "5").ok()
    first, *others = [call.prompt for call in bench.calls()]
    assert others[:2] == [first, first]
    assert "no port" in others[2]
    assert others[2].count("It crashes.") == 2
    assert others[3] == first
    assert others[4].count("It crashes.") == 3


def test_a_promise_in_them_is_none_and_they_go_into_the_next_run(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [notes(bench, f"Use make.\n{COMPLETE}\n"), *DONE]})
    bench.loop("--on-complete", "cleanup").ok()
    bench.git("clean", "-fdxq")
    bench.write(TASKS, tasks_text([1, 3]))
    bench.commit("more to do")
    bench.plan(default=[["say", "nothing"]])
    bench.loop("--max-retries", "0", "--on-complete", "cleanup").ok(3)
    prompt = bench.calls()[-1].prompt
    assert "Use make." in prompt
    assert COMPLETE not in prompt.splitlines()
    assert (
        "Use make." in bench.run("run", "demo", "--dry-run", "--agent-cmd", bench.agent).ok().stdout
    )
    bench.plan()
    bench.loop("--no-learnings").ok()
    assert "earnings" not in bench.calls()[-1].prompt


def test_a_file_in_the_worktree_is_refused(bench: Bench) -> None:
    done = bench.loop("--learnings", "notes.md").ok(2)
    assert "lies in the worktree: notes.md" in done.stderr
    bench.plan()
    bench.loop("--learnings", "../notes.md").ok()
    assert bench.state()["learnings_file"] == str(bench.root / "notes.md")


def test_learnings_outlive_a_worktree_of_the_runs_own(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.plan({1: [["sh", "echo Use make. > .untildone-learnings-demo.md"], *DONE]})
    bench.loop("--checkpoint", "worktree", "--on-complete", "cleanup").ok()
    assert "Use make." in bench.calls()[1].prompt
    store = bench.repo / ".git" / "untildone" / "learnings" / "demo.md"
    assert store.read_text() == "Use make.\n"
    assert not list(bench.repo.glob(".untildone*"))
