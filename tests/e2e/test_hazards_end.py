"""The hazard matrix, how a run ends: moved branches, late edits, a user who went elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE
from tests.e2e.change import TASKS
from tests.e2e.hazard_ledger import COMPLETES, assert_nothing_lost, users_bytes

if TYPE_CHECKING:
    from tests.e2e.bench import Bench
    from tests.e2e.command import Live

pytestmark = pytest.mark.e2e


def upstream(bench: Bench, name: str, text: str, *, force: bool = False) -> str:
    """Somebody moves the original branch on by one commit, without touching this worktree."""
    aside = bench.root / "aside"
    bench.git("worktree", "add", "-q", "--detach", str(aside), "feature/x")
    (aside / name).write_text(text)
    bench.git("add", *(["-f"] if force else []), "--", name, cwd=aside)
    bench.git("commit", "-q", "-m", "upstream", cwd=aside)
    tip = bench.git("rev-parse", "HEAD", cwd=aside)
    bench.git("update-ref", "refs/heads/feature/x", tip)
    bench.git("worktree", "remove", "--force", str(aside))
    return tip


def waiting(bench: Bench) -> Live:
    """A loop of one story that waits for the choice; the story edits README.md."""
    bench.only_stories(1)
    bench.plan({1: [["write", "README.md", "loop\n"], *DONE]})
    live = bench.begin("--on-complete", "ask")
    live.wait_event("complete")
    return live


@pytest.mark.parametrize("ending", ["in the run", "after the fact"])
def test_hazard_18_original_branch_moved_and_conflicts(bench: Bench, ending: str) -> None:
    bench.write("loose.txt", "loose\n")
    users = users_bytes(bench)
    live = waiting(bench)
    if ending == "after the fact":
        bench.run("finish", "demo", "keep").ok()
        live.wait().ok()
    upstream(bench, "README.md", "upstream\n")
    before = bench.snapshot(runtime=False)
    refused = bench.run("finish", "demo", "cleanup")
    result = live.wait().ok(5) if ending == "in the run" else refused.ok(5)
    assert "README.md" in result.stderr
    told, answered = (
        [row for row in said.stderr.splitlines() if row.startswith(("error:", "hint:"))]
        for said in (result, refused.ok(5))
    )
    assert told == answered
    assert bench.snapshot(runtime=False) == before
    assert_nothing_lost(bench, users)


def test_hazard_18_original_branch_moved_without_a_conflict(bench: Bench) -> None:
    bench.only_stories(1)
    bench.write("loose.txt", "loose\n")
    bench.write("src/app.py", "staged\n")
    bench.git("add", "src/app.py")
    users = users_bytes(bench)
    bench.plan({1: [["write", "README.md", "loop\n"], *DONE]})
    bench.loop().ok()
    tip = upstream(bench, "upstream.txt", "upstream\n")
    bench.run("finish", "demo", "cleanup").ok()
    assert (bench.branch(), bench.sha()) == ("feature/x", tip)
    texts = [bench.read(name) for name in ("README.md", "upstream.txt", "loose.txt", "work-1.txt")]
    assert texts == ["loop\n", "upstream\n", "loose\n", "work 1\n"]
    assert bench.git("diff", "--cached", "--name-status") == "M\tsrc/app.py"
    assert bench.git("show", ":src/app.py") == "staged"
    assert_nothing_lost(bench, users)


def test_hazard_18_moved_branch_has_another_version_of_what_was_staged(bench: Bench) -> None:
    bench.only_stories(1)
    bench.write("README.md", "staged\n")
    bench.git("add", "README.md")
    bench.write("README.md", "upstream\n")
    users = users_bytes(bench)
    bench.plan()
    bench.loop().ok()
    upstream(bench, "README.md", "upstream\n")
    said = bench.run("finish", "demo", "cleanup").ok().stdout
    assert "changed what you had staged: README.md" in said
    (index,) = (f"{name}^2" for name in bench.refs("refs/ralph/backup/"))
    assert (bench.git("show", f"{index}:README.md"), index in said) == ("staged", True)
    assert (bench.staged(), bench.read("README.md")) == ("", "upstream\n")
    assert_nothing_lost(bench, users)


def test_hazard_18_ignored_file_that_the_moved_branch_tracks(bench: Bench) -> None:
    bench.only_stories(1)
    users = users_bytes(bench)
    bench.plan()
    bench.loop().ok()
    upstream(bench, ".env", "upstream\n", force=True)
    before = bench.snapshot(runtime=False)
    assert (
        "would overwrite ignored files: .env" in bench.run("finish", "demo", "cleanup").ok(5).stderr
    )
    assert bench.snapshot(runtime=False) == before
    assert_nothing_lost(bench, users)


def test_hazard_18_file_that_a_story_ignores_and_the_original_branch_tracks(bench: Bench) -> None:
    bench.only_stories(1)
    bench.write("local.cfg", "tracked\n")
    bench.commit("a file that should not be tracked")
    users = users_bytes(bench)
    untrack = "git rm -q --cached local.cfg; echo local.cfg >> .gitignore; echo mine > local.cfg"
    bench.plan({1: [["sh", untrack], *COMPLETES]})
    bench.loop("--on-complete", "cleanup").ok()
    assert bench.read("local.cfg") == "mine\n"
    assert_nothing_lost(bench, users)


def test_hazard_19_edits_and_new_files_at_cleanup_are_taken_along(bench: Bench) -> None:
    users = users_bytes(bench)
    live = waiting(bench)
    bench.write("README.md", "late\n")
    bench.write("late.txt", "late\n")
    bench.git("add", "late.txt")
    bench.path("run.sh").unlink()
    bench.run("finish", "demo", "cleanup").ok()
    live.wait().ok()
    assert bench.branch() == "feature/x"
    assert bench.status() == [
        *(" M README.md", f" M {TASKS}", " D run.sh", "?? late.txt", "?? work-1.txt"),
    ]
    assert (bench.read("README.md"), bench.read("late.txt")) == ("late\n", "late\n")
    assert_nothing_lost(bench, users)


@pytest.mark.parametrize("where", ["feature/x", "elsewhere", "detached"])
def test_hazard_27_user_switched_the_branch_while_the_loop_waits(bench: Bench, where: str) -> None:
    users = users_bytes(bench)
    live = waiting(bench)
    words = {"elsewhere": ["-b", "elsewhere"], "detached": ["--detach"]}.get(where, [where])
    bench.git("checkout", "-q", *words)
    before = bench.snapshot(runtime=False)
    bench.run("finish", "demo", "cleanup")
    result = live.wait().ok(5)
    assert "is not on `ralph/demo` any more" in result.stderr
    assert bench.snapshot(runtime=False) == before
    bench.git("checkout", "-q", "ralph/demo")
    bench.run("finish", "demo", "cleanup").ok()
    assert (bench.branch(), bench.read("README.md")) == ("feature/x", "loop\n")
    assert_nothing_lost(bench, users)


@pytest.mark.parametrize("gone", ["deleted", "checked out elsewhere"])
def test_hazard_27_original_branch_is_gone(bench: Bench, gone: str) -> None:
    users = users_bytes(bench)
    live = waiting(bench)
    if gone == "deleted":
        bench.git("branch", "-q", "-D", "feature/x")
    else:
        bench.git("worktree", "add", "-q", str(bench.root / "two"), "feature/x")
    before = bench.snapshot(runtime=False)
    bench.run("finish", "demo", "cleanup")
    assert "feature/x" in live.wait().ok(5).stderr
    assert bench.snapshot(runtime=False) == before
    assert_nothing_lost(bench, users)
