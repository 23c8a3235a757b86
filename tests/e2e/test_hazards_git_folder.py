"""The hazard matrix, what agents do to git's own folder: refs, locks, files that git needs."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench_repo import until
from tests.e2e.hazard_ledger import COMPLETES, FAILS, assert_nothing_lost, users_bytes

if TYPE_CHECKING:
    from tests.e2e.bench_repo import Actions, Bench

pytestmark = pytest.mark.e2e

PRUNE = "git reflog expire --expire=now --all; git gc -q --prune=now"
DELETE = "git for-each-ref --format='delete %(refname)' | git update-ref --stdin"
LOSES = {
    "branch": f"git branch -qD wip; {PRUNE}",
    "tags": f"git tag -d light heavy twice; git branch -qD wip; {PRUNE}",
    "ours": f"{DELETE.replace(' |', ' refs/ralph |')}; {PRUNE}",
    "all": f"{DELETE}; git worktree prune; {PRUNE}",
}


def with_refs(bench: Bench) -> None:
    """Commits that one ref only leads to: a branch, tags, a note, a remote-tracking branch."""
    for name in ("wip", "light", "heavy", "far"):
        bench.git("checkout", "-q", "-b", f"on-{name}")
        bench.write(f"{name}.txt", f"{name}\n")
        bench.commit(name)
        bench.git("checkout", "-q", "feature/x")
    bench.git("branch", "-m", "on-wip", "wip")
    bench.git("tag", "light", "on-light")
    bench.git("tag", "-a", "-m", "a tag", "heavy", "on-heavy")
    bench.git("tag", "-a", "-m", "a tag of a tag", "twice", "heavy")
    bench.git("update-ref", "refs/remotes/origin/far", "on-far")
    bench.git("notes", "add", "-m", "a note", "HEAD")
    bench.git("branch", "-qD", "on-light", "on-heavy", "on-far")
    bench.write("README.md", "stashed\n")
    bench.git("stash", "-q")


def users_refs(bench: Bench) -> dict[str, str]:
    return {name: at for name, at in bench.refs().items() if not name.startswith("refs/ralph/")}


@pytest.mark.parametrize("promise", [FAILS, COMPLETES], ids=["failed", "complete"])
@pytest.mark.parametrize("checkpoint", ["branch", "stash"])
@pytest.mark.parametrize("loses", LOSES)
def test_hazard_07_agent_deletes_refs_and_prunes(
    bench: Bench, loses: str, checkpoint: str, promise: Actions
) -> None:
    bench.only_stories(1, 2)
    with_refs(bench)
    bench.write("loose.txt", "the user's new file\n")
    users, refs, stashes = users_bytes(bench), users_refs(bench), bench.git("stash", "list")
    bench.plan({2: [["sh", LOSES[loses]], *promise]})
    bench.loop("--checkpoint", checkpoint, "--on-complete", "cleanup").ok()
    assert users_refs(bench) == refs
    assert bench.git("stash", "list") == stashes
    assert bench.git("worktree", "list").count("\n") == 0
    assert_nothing_lost(bench, users)
    bench.git("fsck", "--no-dangling")
    bench.run("restore", "demo").ok()
    assert users_bytes(bench) >= users


@pytest.mark.parametrize("words", ["resume demo", "finish demo cleanup", "restore demo"])
def test_hazard_07_refs_deleted_and_the_loop_killed(bench: Bench, words: str) -> None:
    bench.only_stories(1, 2)
    with_refs(bench)
    refs = users_refs(bench)
    bench.plan({2: [["sh", f"{LOSES['all']}; touch messy"], ["sleep", 600]]})
    live = bench.begin()
    until(bench.path("messy").exists, what="the mess")
    live.signal(signal.SIGKILL)
    live.wait()
    agent = ("--agent-cmd", bench.agent) if "resume" in words else ()
    bench.run(*words.split(), *agent).ok()
    found = users_refs(bench)
    found.pop("refs/heads/ralph/demo", None)
    assert found == refs
    assert bench.git("worktree", "list").count("\n") == 0
