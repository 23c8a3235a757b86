"""`untildone undo`: the newest operation is taken back, whatever it was, and so is an undo."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.agent_calls import DONE, fails
from tests.e2e.change import TASKS

if TYPE_CHECKING:
    from tests.e2e.bench import Bench
    from tests.e2e.command import Json

pytestmark = pytest.mark.e2e

VARIANTS = ("branch", "stash")


def stand(bench: Bench) -> Json:
    """All that an operation may move: HEAD, branches, index, files."""
    whole = bench.snapshot(runtime=False)
    whole["refs"] = bench.refs("refs/heads/")
    return whole


def dirty(bench: Bench) -> None:
    """Staged, unstaged, untracked and intended files."""
    bench.write("src/app.py", "print('staged')\n")
    bench.git("add", "src/app.py")
    bench.write("src/app.py", "print('unstaged')\n")
    bench.write("new.txt", "untracked\n")
    bench.write("intended.txt", "intended\n")
    bench.git("add", "-N", "intended.txt")


def undo(bench: Bench) -> str:
    """Undo once; the name of what was taken back."""
    name: str = bench.run("undo", "--json").ok().json()["undone"]["name"]
    return name


def stopped(bench: Bench, calls: dict[int, Any], variant: str) -> None:
    """A run that is asked to stop after the iteration of its last planned call."""
    last = max(calls)
    bench.plan({**calls, last: [["wait", bench.gate("go")], *calls[last]]})
    live = bench.start(*bench.loop_args("--checkpoint", variant))
    bench.wait_call(last)
    bench.run("stop", "demo", "--after-iteration").ok()
    bench.open_gate("go")
    live.wait().ok(6)


def finished_stories(bench: Bench) -> int:
    """How many stories `status` calls finished."""
    count: int = bench.run("status", "--json").ok().json()["loops"][0]["stories"]["finished"]
    return count


@pytest.mark.parametrize("variant", VARIANTS)
def test_undo_of_cleanup_and_undo_of_that(bench: Bench, variant: str) -> None:
    dirty(bench)
    bench.loop("--checkpoint", variant, "--on-complete", "keep").ok()
    kept = stand(bench)
    bench.run("finish", "demo", "cleanup").ok()
    cleaned = stand(bench)
    assert undo(bench) == "cleanup"
    assert stand(bench) == kept
    assert bench.run("status", "--json").json()["loops"][0]["status"] == "done"
    assert undo(bench) == "undo"
    assert stand(bench) == cleaned
    assert undo(bench) == "undo"
    assert stand(bench) == kept
    bench.run("finish", "demo", "cleanup").ok()
    assert stand(bench) == cleaned


@pytest.mark.parametrize("variant", VARIANTS)
def test_undo_of_restore(bench: Bench, variant: str) -> None:
    dirty(bench)
    start = stand(bench)
    bench.loop("--checkpoint", variant, "--on-complete", "cleanup").ok()
    cleaned = stand(bench)
    bench.run("restore", "demo").ok()
    assert stand(bench) == start
    assert undo(bench) == "restore"
    assert stand(bench) == cleaned
    assert undo(bench) == "undo"
    assert stand(bench) == start


def test_undo_of_keep_opens_the_choice_again(bench: Bench) -> None:
    bench.loop("--on-complete", "keep").ok()
    kept = stand(bench)
    assert undo(bench) == "keep"
    assert stand(bench) == kept
    shown = bench.run("status", "--json").json()["loops"][0]
    assert (shown["status"], shown["phase"]) == ("done", "awaiting_choice")


def test_undo_of_keep_in_a_worktree_of_its_own(bench: Bench) -> None:
    bench.loop("--checkpoint", "worktree", "--on-complete", "keep").ok()
    linked = bench.repo.with_name(f"{bench.repo.name}-ralph-demo")
    assert f"cd {linked} && untildone undo" in bench.run("undo").ok(2).stderr
    undone = bench.run("undo", "--json", cwd=linked).ok().json()["undone"]["name"]
    assert (undone, bench.state(linked)["phase"]) == ("keep", "awaiting_choice")
    bench.run("finish", "demo", "cleanup").ok()
    assert (bench.branch(), linked.exists()) == ("feature/x", False)


@pytest.mark.parametrize("variant", VARIANTS)
def test_undo_of_a_checkpoint_opens_its_story_again(bench: Bench, variant: str) -> None:
    stopped(bench, {2: DONE}, variant)
    after = stand(bench)
    assert finished_stories(bench) == 2
    assert undo(bench) == "checkpoint"
    assert finished_stories(bench) == 1
    assert not bench.path("work-2.txt").exists()
    assert bench.path("work-1.txt").exists()
    assert "- [ ] 2.1" in bench.read(TASKS)
    assert undo(bench) == "undo"
    assert stand(bench) == after
    assert finished_stories(bench) == 2
    assert undo(bench) == "undo"
    bench.plan()
    done = bench.run("resume", "demo", "--json", "--on-complete", "cleanup").ok()
    assert [e["story_id"] for e in done.named("iteration_started")] == ["2", "3"]
    assert "- [x] 2.1" in bench.read(TASKS)


@pytest.mark.parametrize("variant", VARIANTS)
def test_undo_of_a_put_back_brings_the_attempt_into_the_tree(bench: Bench, variant: str) -> None:
    commit = ["git", "commit", "-q", "--allow-empty", "-m", "by the agent"]
    stopped(bench, {2: [commit, *fails()]}, variant)
    before = stand(bench)
    assert not bench.path("mess-2.txt").exists()
    assert undo(bench) == "put-back"
    assert bench.read("mess-2.txt") == "mess\n"
    assert undo(bench) == "undo"
    assert stand(bench) == before
    assert undo(bench) == "undo"
    bench.plan()
    bench.run("resume", "demo", "--json", "--on-complete", "cleanup").ok()
    assert bench.read("mess-2.txt") == "mess\n"


def test_undo_of_a_restored_attempt(bench: Bench) -> None:
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    before = stand(bench)
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert bench.path("mess-1.txt").exists()
    assert undo(bench) == "attempt --restore"
    assert stand(bench) == before


def test_undo_of_the_start(bench: Bench) -> None:
    dirty(bench)
    start = stand(bench)
    bench.plan({1: [["wait", bench.gate("never")]]})
    live = bench.start(*bench.loop_args())
    bench.wait_call(1)
    live.signal(15)
    live.wait().ok(143)
    assert undo(bench) == "put-back"
    assert undo(bench) == "undo"
    names = [op["name"] for op in bench.run("undo", "--list", "--json").ok().json()["operations"]]
    assert names == ["start", "put-back", "undo", "undo"]
    bench.run("restore", "demo").ok()
    assert stand(bench) == start


def test_edits_made_since_are_kept(bench: Bench) -> None:
    bench.loop("--on-complete", "cleanup").ok()
    bench.write("mine.txt", "mine\n")
    bench.write("README.md", "# Mine\n")
    assert undo(bench) == "cleanup"
    assert (bench.read("mine.txt"), bench.read("README.md")) == ("mine\n", "# Mine\n")


def test_an_edit_that_conflicts_is_refused(bench: Bench) -> None:
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    bench.write("mess-1.txt", "mine\n")
    before = stand(bench)
    refused = bench.run("undo").ok(2)
    assert "mess-1.txt" in refused.stderr
    assert "Nothing was changed." in refused.stderr
    assert stand(bench) == before


def test_what_was_moved_since_is_named(bench: Bench) -> None:
    bench.loop("--on-complete", "cleanup").ok()
    bench.git("checkout", "-q", "-b", "elsewhere")
    before = stand(bench)
    refused = bench.run("undo").ok(2)
    assert "HEAD" in refused.stderr
    assert stand(bench) == before


def test_nothing_to_undo(bench: Bench) -> None:
    refused = bench.run("undo").ok(2)
    assert "nothing to undo" in refused.stderr
    assert bench.run("undo", "--list", "--json").ok().json() == {"operations": []}


def test_undo_waits_for_a_live_loop(bench: Bench) -> None:
    bench.plan({1: [["wait", bench.gate("go")], *DONE]})
    live = bench.start(*bench.loop_args())
    bench.wait_call(1)
    assert "already running" in bench.run("undo").ok(2).stderr
    bench.open_gate("go")
    live.wait().ok()


def test_undo_after_a_kill_comes_after_the_attempt(bench: Bench) -> None:
    bench.plan({1: [["wait", bench.gate("never")]]})
    live = bench.start(*bench.loop_args())
    bench.wait_call(1)
    live.signal(9)
    live.wait()
    assert "untildone resume demo" in bench.run("undo").ok(2).stderr


def test_undo_of_cleanup_in_the_worktree_variant(bench: Bench) -> None:
    dirty(bench)
    start = stand(bench)
    bench.loop("--checkpoint", "worktree", "--on-complete", "cleanup").ok()
    cleaned = stand(bench)
    assert undo(bench) == "cleanup"
    back = stand(bench)
    assert back["files"] == start["files"]
    assert back["index"] == start["index"]
    assert bench.has("refs/heads/ralph/demo")
    assert undo(bench) == "undo"
    assert stand(bench) == cleaned


def tidy_up(bench: Bench) -> None:
    """Git forgets all that no ref leads to."""
    bench.git("reflog", "expire", "--expire=now", "--all")
    bench.git("gc", "-q", "--prune=now")


def partly_staged(bench: Bench) -> None:
    """One version in the index and another in the file."""
    bench.write("README.md", "staged\n")
    bench.git("add", "README.md")
    bench.write("README.md", "in the file\n")


def test_undo_of_a_restored_attempt_after_git_gc(bench: Bench) -> None:
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    partly_staged(bench)
    before = stand(bench)
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    brought_back = stand(bench)
    for name, then in (("attempt --restore", before), ("undo", brought_back), ("undo", before)):
        tidy_up(bench)
        assert undo(bench) == name
        assert stand(bench) == then
    assert bench.git("show", ":README.md") == "staged"


@pytest.mark.parametrize("variant", ["branch", "stash", "worktree"])
def test_undo_of_cleanup_after_git_gc(bench: Bench, variant: str) -> None:
    dirty(bench)
    bench.loop("--checkpoint", variant, "--on-complete", "keep").ok()
    if variant == "worktree":
        partly_staged(bench)
    kept = stand(bench)["files"], stand(bench)["index"]
    bench.run("finish", "demo", "cleanup").ok()
    cleaned = stand(bench)
    bench.git("read-tree", "HEAD")
    tidy_up(bench)
    assert undo(bench) == "cleanup"
    assert (stand(bench)["files"], stand(bench)["index"]) == kept
    tidy_up(bench)
    assert undo(bench) == "undo"
    assert stand(bench)["files"] == cleaned["files"]


def test_undo_of_cleanup_onto_a_moved_branch_after_git_gc(bench: Bench) -> None:
    bench.loop("--on-complete", "keep").ok()
    kept = stand(bench)["files"]
    moved = bench.git("commit-tree", "-p", "feature/x", "-m", "moved", "feature/x^{tree}")
    bench.git("update-ref", "refs/heads/feature/x", moved)
    bench.run("finish", "demo", "cleanup").ok()
    tidy_up(bench)
    assert undo(bench) == "cleanup"
    assert stand(bench)["files"] == kept


def test_undo_without_the_files_of_the_operation_is_refused(bench: Bench) -> None:
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    partly_staged(bench)
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    for ref in bench.refs("refs/ralph/archive/"):
        bench.git("update-ref", "-d", ref)
    tidy_up(bench)
    before = stand(bench)
    refused = bench.run("undo").ok(2)
    assert "Nothing was changed." in refused.stderr
    assert stand(bench) == before


def test_undo_of_another_change_than_the_newest_is_refused(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan()
    bench.loop("--on-complete", "cleanup").ok()
    before = stand(bench)
    refused = bench.run("undo", "wrongname").ok(2)
    assert "cleanup of `demo`" in refused.stderr
    assert "untildone undo demo" in refused.stderr
    assert stand(bench) == before
    bench.run("undo", "demo").ok()


def test_the_list_says_when_and_for_which_story(bench: Bench) -> None:
    bench.only_stories(2)
    bench.plan({1: fails()})
    bench.loop("--on-complete", "keep").ok()
    log = bench.path(".git/untildone/operations.jsonl")
    first, *others = log.read_text().splitlines()
    old = {k: v for k, v in json.loads(first).items() if k not in ("at", "story")}
    log.write_text("\n".join([json.dumps(old), *others, ""]))  # as 0.1.0 wrote it
    rows = [line.split("  ") for line in bench.run("undo", "--list").ok().stdout.splitlines()]
    names = [[cell.strip() for cell in row[1:4]] for row in rows if len(row) > 3]
    assert len(rows) == 4
    assert ["put-back", "demo", "2"] in names
    assert ["checkpoint", "demo", "2"] in names
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", rows[1][0])


def kept_beside(bench: Bench) -> None:
    """A failed attempt that made files which stay out of git, then a good one and cleanup."""
    bench.only_stories(1)
    steps = "mkdir conf; echo attempt > key.pem; echo attempt > conf/deep.key"
    bench.plan({1: [["sh", steps], *fails()]})
    bench.loop("--on-complete", "cleanup").ok()
    assert not bench.path("conf").exists()
    bench.write("key.pem", "later\n")


def test_undo_of_a_restored_attempt_with_files_beside_git(bench: Bench) -> None:
    kept_beside(bench)
    before = stand(bench)
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    brought_back = stand(bench)
    texts = bench.read("key.pem"), bench.read("conf/deep.key")
    assert texts == ("attempt\n", "attempt\n")
    for name, then in (("attempt --restore", before), ("undo", brought_back), ("undo", before)):
        assert undo(bench) == name
        assert stand(bench) == then
    assert not bench.path("conf").exists()


def test_an_edit_of_a_file_beside_git_is_not_overwritten_by_undo(bench: Bench) -> None:
    kept_beside(bench)
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    bench.write("key.pem", "edited\n")
    before = stand(bench)
    assert "conflict in: key.pem" in bench.run("undo").ok(2).stderr
    assert stand(bench) == before
