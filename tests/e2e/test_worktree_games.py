"""`--checkpoint worktree`: agents, people and other runs at work in the same repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, fails
from tests.e2e.change import TASKS
from tests.e2e.users_tree import begin, finish, linked, loop, users_own

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def test_what_the_user_does_with_git_during_an_attempt_stays(bench: Bench) -> None:
    bench.git("branch", "other")
    bench.git("branch", "old")
    bench.plan({1: [["wait", bench.gate("go")], *fails()]})
    live = begin(bench)
    bench.wait_call(1)
    bench.git("checkout", "-q", "other")
    bench.write("other.txt", "other\n")
    there = bench.commit("on other")
    bench.git("checkout", "-q", "feature/x")
    bench.write("README.md", "later\n")
    bench.git("stash", "push", "-q", "-m", "later")
    stash = bench.git("stash", "list", "--format=%H %gs")
    bench.git("tag", "mark")
    bench.open_gate("go")
    live.wait().ok()
    assert bench.sha("other") == there
    assert bench.git("stash", "list", "--format=%H %gs") == stash
    assert bench.sha("mark") == bench.sha("feature/x")


# -- games ---------------------------------------------------------------------------------------

GAMES: dict[str, Actions] = {
    "switch": [["git", "switch", "-q", "-c", "side"], ["commit", "on the side"]],
    "detach": [["git", "checkout", "-q", "--detach"], ["commit", "detached"]],
    "commit": [["append", "README.md", "x\n"], ["commit", "by the agent"]],
    "amend": [["git", "commit", "-q", "--amend", "-m", "amended"]],
    "delete": [["git", "checkout", "-q", "--detach"], ["git", "branch", "-D", "ralph/demo"]],
    "remove": [["git", "worktree", "remove", "--force", "."]],
    "pointer gone": [["delete", ".git"]],
    "own repository": [["delete", ".git"], ["git", "init", "-q"], ["commit", "astray"]],
    "prune": [["git", "worktree", "prune", "--expire", "now"], ["git", "gc", "-q"]],
    "stash": [["append", "README.md", "x\n"], ["git", "stash", "push", "-q", "-u"]],
    "users branch": [["commit", "c"], ["git", "update-ref", "refs/heads/other", "HEAD"]],
}


@pytest.mark.parametrize("game", GAMES)
def test_games_of_the_agent_in_its_worktree(bench: Bench, game: str) -> None:
    bench.git("branch", "other")
    bench.write("README.md", "stashed\n")
    bench.git("stash", "push", "-q", "-m", "mine")
    before = users_own(bench)
    bench.plan({2: [*GAMES[game], *DONE]})
    loop(bench).ok()
    after = users_own(bench)
    assert (after["files"], after["git"]) == (before["files"], before["git"])
    assert {name: after["refs"].get(name) for name in before["refs"]} == before["refs"]
    finish(bench).ok()
    assert {f"work-{n}.txt" for n in (1, 3)} <= bench.contents().keys()
    assert bench.read(TASKS).count("[x]") == 6


REMOVALS = {
    "removed": "rm -rf $PWD",
    "emptied": "rm -rf * .[a-z]*",
    "renamed": "mv $PWD $PWD-elsewhere",
    "a link to the user's": "rm -rf $PWD && ln -s {repo} $PWD",
    "a file": "rm -rf $PWD && echo file > $PWD",
    "staged, committed, removed": "git commit -q -m own --allow-empty; rm -rf $PWD",
}


@pytest.mark.parametrize("how", REMOVALS)
def test_the_agent_removes_the_folder_of_the_run(bench: Bench, how: str) -> None:
    bench.git("branch", "other")
    before = users_own(bench)
    made = [["write", "staged.txt", "staged\n"], ["git", "add", "staged.txt"]]
    remove = [["sh", REMOVALS[how].replace("{repo}", str(bench.repo))]]
    bench.plan({2: [*made, *remove, ["say", COMPLETE]]})
    result = loop(bench).ok()
    assert "The folder of the run was removed" in result.stderr
    assert users_own(bench) == before
    third = bench.calls()[2]
    assert "The folder of the run was removed" in third.prompt
    assert {"work-1.txt", TASKS} <= third.files.keys()
    assert "staged.txt" not in third.files
    saved = bench.git("log", "--format=%H", "-m", "-p", "refs/ralph/attempts/demo/2/1")
    assert "staged.txt" in saved
    bench.run("resume", "demo").ok()
    finish(bench).ok()
    assert {f"work-{n}.txt" for n in (1, 3, 4)} <= bench.contents().keys()
    assert bench.read(TASKS).count("[x]") == 6


def test_a_check_removes_the_folder_of_the_run(bench: Bench) -> None:
    before = users_own(bench)
    bench.plan()
    once = f"{bench.root}/once"
    check = f"test ! -e work-1.txt || test -e {once} || {{ touch {once}; rm -rf $PWD; }}"
    result = loop(bench, "--verify", check).ok()
    assert "The folder of the run was removed" in result.stderr
    assert "Leave the folder where it is" in bench.calls()[1].stdin
    assert users_own(bench) == before
    finish(bench).ok()
    assert bench.read(TASKS).count("[x]") == 6


def test_a_plain_loop_goes_on_when_the_agent_removes_the_folder(bench: Bench) -> None:
    bench.plan({2: [["sh", "rm -rf $PWD"]]}, default=DONE[:1])
    args = ("--task", "Work", "--max-iterations", "3", "--checkpoint", "worktree")
    result = bench.run("run", "demo", "--json", "--agent-cmd", bench.agent, *args)
    assert "The folder of the run was removed" in result.stderr
    finish(bench)
    assert {"README.md", "work-1.txt", "work-3.txt"} <= bench.contents().keys()


def test_a_worktree_that_the_agent_takes_from_git_ends_the_run_honestly(bench: Bench) -> None:
    before = users_own(bench)
    bench.plan({2: [["sh", "git worktree remove -f -f $PWD"], ["say", COMPLETE]]})
    said = loop(bench).stderr
    assert "git branch --list 'ralph/*'" in said
    assert users_own(bench) == before
    bench.git("merge", "-q", "--squash", "ralph/demo")
    assert bench.read("work-1.txt") == "work 1\n"


def test_a_branch_that_the_agent_deletes_comes_back(bench: Bench) -> None:
    bench.git("checkout", "-q", "-b", "other")
    bench.write("other.txt", "other\n")
    tip = bench.commit("other")
    bench.git("checkout", "-q", "feature/x")
    bench.plan({1: [["git", "branch", "-q", "-D", "other"], *fails()]})
    loop(bench).ok()
    assert bench.sha("other") == tip


def test_a_second_loop_over_the_same_change_is_refused(bench: Bench) -> None:
    bench.plan({1: [["wait", bench.gate("go")], *DONE]})
    live = begin(bench)
    bench.wait_call(1)
    assert "already running" in loop(bench).ok(2).stderr
    bench.open_gate("go")
    live.wait().ok()


# -- several runs ----------------------------------------------------------------------------------


def test_two_runs_and_a_branch_run_at_the_same_time(bench: Bench) -> None:
    for name in ("two", "three"):
        bench.write(f"openspec/changes/{name}/tasks.md", f"## 1. {name}\n\n- [ ] 1.1 Do {name}\n")
    bench.only_stories(1)
    gate = [["wait", bench.gate("go")]]
    bench.plan(default=[*gate, ["sh", "echo done > made-by-$UNTILDONE_RUN_ID"], *DONE[1:]])
    runs = []
    variants = {"demo": "worktree", "two": "worktree", "three": "branch"}
    for n, (name, variant) in enumerate(variants.items(), 1):
        args = ("--json", "--agent-cmd", bench.agent, "--checkpoint", variant)
        runs.append(bench.start("run", name, *args))
        bench.wait_call(n)
    alive = {row["change_id"]: row["worktree"] for row in bench.loops() if row["alive"]}
    assert alive == {
        "demo": str(linked(bench)),
        "two": str(linked(bench, "two")),
        "three": str(bench.repo),
    }
    bench.open_gate("go")
    for live in runs:
        live.wait().ok()
    assert bench.branch() == "ralph/three"
    finish(bench, change="three").ok()
    finish(bench, change="demo").ok()
    finish(bench, change="two").ok()
    assert bench.branch() == "feature/x"
    assert len([*bench.repo.glob("made-by-*")]) == 3
    assert bench.processes() == []
