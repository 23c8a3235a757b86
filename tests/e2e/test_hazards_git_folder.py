"""The hazard matrix, what agents do to git's own folder: refs, locks, files that git needs."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import fails
from tests.e2e.hazard_ledger import (
    COMPLETES,
    FAILS,
    assert_nothing_lost,
    users_bytes,
    warnings,
)
from tests.e2e.users_tree import users_own
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

DELETE = "git for-each-ref --format='delete %(refname)' | git update-ref --stdin"
LOSES = {
    "branch": "git branch -qD wip",
    "tags": "git tag -d light heavy twice file files; git branch -qD wip",
    "ours": DELETE.replace(" |", " refs/ralph |"),
    "all": DELETE,
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
    bench.write("blob.txt", "a blob\n")
    bench.git("tag", "file", bench.git("hash-object", "-w", "blob.txt"))
    bench.git("tag", "-a", "-m", "a tag of a blob", "files", "file")
    bench.path("blob.txt").unlink()
    bench.git("update-ref", "refs/remotes/origin/far", "on-far")
    bench.git("notes", "add", "-m", "a note", "HEAD")
    bench.git("branch", "-qD", "on-light", "on-heavy", "on-far")
    bench.write("README.md", "stashed\n")
    bench.git("stash", "-q")


def users_refs(bench: Bench) -> dict[str, str]:
    return {name: at for name, at in bench.refs().items() if not name.startswith("refs/ralph/")}


@pytest.mark.parametrize("promise", [FAILS, COMPLETES], ids=["failed", "complete"])
@pytest.mark.parametrize("checkpoint", ["branch", "stash", "worktree"])
@pytest.mark.parametrize("loses", LOSES)
def test_hazard_07_agent_deletes_refs(
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


@pytest.mark.parametrize("promise", [FAILS, COMPLETES], ids=["failed", "complete"])
@pytest.mark.parametrize("checkpoint", ["branch", "stash"])
def test_hazard_07_agent_replaces_the_users_commits(
    bench: Bench, checkpoint: str, promise: Actions
) -> None:
    bench.only_stories(1, 2)
    for word in ("mine", "yours"):
        bench.write("README.md", f"{word}\n")
        bench.commit(word)
    bench.git("replace", "HEAD~1", "HEAD~2")
    before, branch = bench.git("replace"), bench.git("rev-parse", "HEAD~1")
    undo = f"git replace -d {before}; git replace feature/x feature/x~1"
    bench.plan({2: [["sh", undo], *promise]})
    bench.loop("--checkpoint", checkpoint, "--on-complete", "cleanup").ok()
    assert bench.git("replace") == before
    bench.run("restore", "demo").ok()
    assert bench.status() == []
    assert bench.sha(f"refs/ralph/moved/demo/{branch[:16]}") == branch


REACH = {
    "grafts": "git rev-parse HEAD > .git/info/grafts",
    "shallow": "git rev-parse HEAD > .git/shallow",
    "alternates": "git init -q ../b && echo $PWD/../b/.git/objects > .git/objects/info/alternates",
}


@pytest.mark.parametrize("edit", REACH)
def test_hazard_07_agent_cuts_the_history_off(bench: Bench, edit: str) -> None:
    bench.only_stories(1, 2)
    bench.plan({2: [["sh", REACH[edit]], *FAILS]})
    bench.loop("--on-complete", "cleanup").ok()
    for name in ("info/grafts", "shallow", "objects/info/alternates"):
        assert not bench.path(f".git/{name}").exists()


def test_hazard_07_agent_fetches_into_a_shallow_clone(bench: Bench) -> None:
    """Its own lines of `.git/shallow` are needed for what it fetched; ours are there as well."""
    bench.only_stories(1, 2)
    for word in ("one", "two", "three"):
        bench.write("README.md", f"{word}\n")
        bench.commit(word)
    origin = bench.root / "origin"
    bench.git("clone", "-q", "--bare", str(bench.repo), str(origin))
    bench.git("remote", "add", "origin", f"file://{origin}")
    fresh = "git clone -q ../origin ../c && cd ../c && git checkout -q --orphan o && "
    fresh += "git commit -qm o1 && git commit -q --allow-empty -m o2 && git push -q origin o"
    fetch = "git fetch -q --depth=1 origin o:refs/remotes/origin/o"
    bench.plan({2: [["sh", fresh], ["sh", fetch], *FAILS]})
    bench.loop("--on-complete", "cleanup").ok()
    assert bench.path(".git/shallow").exists()
    bench.git("fsck", "--no-dangling")


BARS = {
    "folder": "rm .claude/loop-state.json; mkdir -p .claude/loop-state.json/x",
    "file": "rm -rf .claude; echo x > .claude",
    "link": "rm -rf .claude; ln -s ../outside .claude",
    "link to nothing": "rm -rf .claude; ln -s /nowhere/at/all .claude",
    "pipe": "rm -f .claude/loop-state.json; mkfifo .claude/loop-state.json",
}


@pytest.mark.parametrize("promise", [FAILS, COMPLETES], ids=["failed", "complete"])
@pytest.mark.parametrize("checkpoint", ["branch", "stash"])
@pytest.mark.parametrize("bar", BARS)
def test_hazard_17_way_of_the_state_file_is_barred(
    bench: Bench, bar: str, checkpoint: str, promise: Actions
) -> None:
    bench.only_stories(1, 2)
    outside = bench.root / "outside"
    outside.mkdir()
    (outside / "loop-state.json").write_text("theirs")
    bench.plan({1: [["sh", BARS[bar]], *promise]})
    result = bench.loop("--checkpoint", checkpoint, "--on-complete", "cleanup").ok()
    assert bench.state()["status"] == "done"
    assert [path.name for path in outside.iterdir()] == ["loop-state.json"]
    assert (outside / "loop-state.json").read_text() == "theirs"
    if bar != "pipe":
        assert "was in the way of the state file" in warnings(result)
    bench.run("restore", "demo").ok()


@pytest.mark.parametrize("words", ["resume demo", "finish demo cleanup", "restore demo"])
@pytest.mark.parametrize("bar", BARS)
def test_hazard_17_way_of_the_state_file_is_barred_and_the_loop_killed(
    bench: Bench, bar: str, words: str
) -> None:
    bench.only_stories(1)
    (bench.root / "outside").mkdir()
    bench.plan({1: [["sh", f"{BARS[bar]}; touch messy"], ["sleep", 600]]})
    live = bench.begin()
    until(bench.path("messy").exists, what="the mess")
    live.signal(signal.SIGKILL)
    live.wait()
    bench.run("status").ok()
    agent = ("--agent-cmd", bench.agent) if "resume" in words else ()
    bench.run(*words.split(), *agent).ok()
    assert list((bench.root / "outside").iterdir()) == []
    assert not bench.path(".claude").is_symlink()


def test_hazard_17_folder_of_the_state_file_is_a_link_of_the_users(bench: Bench) -> None:
    bench.only_stories(1)
    (bench.root / "outside").mkdir()
    bench.path(".claude").symlink_to("../outside")
    bench.loop("--on-complete", "cleanup").ok()
    assert bench.path(".claude").is_symlink()
    assert (bench.root / "outside" / "loop-state.json").exists()


LOCKS = ("HEAD.lock", "packed-refs.lock", "index.lock", "config.lock")
REF_LOCKS = ("refs/heads/ralph/demo.lock", "refs/stash.lock", "refs/heads/feature/x.lock")


@pytest.mark.parametrize("promise", [FAILS, COMPLETES], ids=["failed", "complete"])
@pytest.mark.parametrize("checkpoint", ["branch", "stash"])
@pytest.mark.parametrize("lock", [*LOCKS, *REF_LOCKS])
def test_hazard_07_lock_of_a_killed_git(
    bench: Bench, lock: str, checkpoint: str, promise: Actions
) -> None:
    bench.only_stories(1, 2)
    bench.write("README.md", "the user's edit\n")
    leave = f"mkdir -p $(dirname .git/{lock}); touch .git/{lock}"
    bench.plan({1: [["write", "a.txt", "a\n"], ["sh", leave], *promise]})
    result = bench.loop("--checkpoint", checkpoint, "--on-complete", "cleanup").ok()
    assert f"moved aside: {lock}" in warnings(result)
    assert not bench.path(f".git/{lock}").exists()
    bench.git("fsck", "--no-dangling")


@pytest.mark.parametrize("words", ["restore demo", "finish demo cleanup"])
def test_hazard_07_lock_of_a_killed_git_at_the_end(bench: Bench, words: str) -> None:
    bench.only_stories(1)
    choice = "keep" if "finish" in words else "cleanup"
    bench.loop("--on-complete", choice).ok()
    bench.path(".git/refs/heads/feature/x.lock").touch()
    bench.path(".git/HEAD.lock").touch()
    bench.run(*words.split()).ok()
    assert bench.branch() == "feature/x"


DAMAGE = {
    "garbage in HEAD": "echo garbage > .git/HEAD",
    "empty HEAD": ": > .git/HEAD",
    "no HEAD": "rm .git/HEAD",
    "HEAD is a folder": "rm .git/HEAD; mkdir .git/HEAD",
    "index is a folder": "rm .git/index; mkdir -p .git/index/x",
    "index is a link to nothing": "rm .git/index; ln -s nowhere/at/all .git/index",
}


@pytest.mark.parametrize("promise", [FAILS, COMPLETES], ids=["failed", "complete"])
@pytest.mark.parametrize("checkpoint", ["branch", "stash"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_hazard_07_head_or_index_that_git_cannot_read(
    bench: Bench, damage: str, checkpoint: str, promise: Actions
) -> None:
    bench.only_stories(1, 2)
    bench.write("README.md", "the user's edit\n")
    bench.git("add", "README.md")
    bench.write("loose.txt", "the user's new file\n")
    users, before = users_bytes(bench), (bench.branch(), bench.staged())
    work: Actions = [["write", "mess.txt", "mess\n"], ["sh", DAMAGE[damage]]]
    bench.plan({2: [*work, *promise]})
    result = bench.loop("--checkpoint", checkpoint, "--on-complete", "cleanup").ok()
    assert "An attempt" in warnings(result)
    assert (bench.branch(), bench.staged()) == before
    assert_nothing_lost(bench, users)
    bench.run("restore", "demo").ok()
    assert users_bytes(bench) >= users


@pytest.mark.parametrize("words", ["resume demo", "finish demo cleanup", "restore demo"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_hazard_07_head_or_index_damaged_and_the_loop_killed(
    bench: Bench, damage: str, words: str
) -> None:
    bench.only_stories(1, 2)
    bench.write("loose.txt", "the user's new file\n")
    users = users_bytes(bench)
    bench.plan({2: [["sh", f"{DAMAGE[damage]}; touch messy"], ["sleep", 600]]})
    live = bench.begin()
    until(bench.path("messy").exists, what="the mess")
    live.signal(signal.SIGKILL)
    live.wait()
    agent = ("--agent-cmd", bench.agent) if "resume" in words else ()
    bench.run(*words.split(), *agent).ok()
    bench.git("status")
    assert_nothing_lost(bench, users)


SHARED_DAMAGE = {
    **{name: sh.replace(".git/", "") for name, sh in DAMAGE.items()},
    "HEAD is a pipe": "rm HEAD; mkfifo HEAD",
    "garbage in the index": "echo garbage > index",
    "no index": "rm index",
    "index cut short": "head -c 60 index > i; mv i index",
    "index is a pipe": "rm index; mkfifo index",
    "all of it": "rm HEAD index; echo [x > config",
}


@pytest.mark.parametrize("promise", [FAILS, COMPLETES], ids=["failed", "complete"])
@pytest.mark.parametrize("damage", SHARED_DAMAGE)
def test_an_agent_in_a_worktree_of_the_run_damages_the_users_head_or_index(
    bench: Bench, damage: str, promise: Actions
) -> None:
    bench.only_stories(1, 2)
    bench.write("README.md", "the user's edit\n")
    bench.git("add", "README.md")
    before, staged = users_own(bench), bench.staged()
    breaks = f"cd $(git rev-parse --git-common-dir) && ({SHARED_DAMAGE[damage]})"
    bench.plan({2: [["write", "mess.txt", "mess\n"], ["sh", breaks], *promise]})
    result = bench.loop("--checkpoint", "worktree").ok()
    assert "put back" in warnings(result)
    assert users_own(bench) == before
    bench.run("finish", "demo", "cleanup").ok()
    assert bench.staged() == staged
    bench.git("fsck", "--no-dangling")


@pytest.mark.parametrize("checkpoint", ["branch", "stash"])
def test_an_agent_in_a_linked_worktree_damages_head_and_index_of_the_main_one(
    bench: Bench, checkpoint: str
) -> None:
    bench.only_stories(1)
    own = bench.root / "own"
    bench.git("worktree", "add", "-q", "-b", "feature/y", str(own))
    before = users_own(bench)
    breaks = "cd $(git rev-parse --git-common-dir) && rm HEAD index"
    bench.plan({1: [["write", "work.txt", "work\n"], ["sh", breaks], *COMPLETES]})
    bench.loop("--checkpoint", checkpoint, "--on-complete", "cleanup", cwd=own).ok()
    assert users_own(bench) == before


@pytest.mark.parametrize("words", ["status", "resume demo", "finish demo cleanup", "restore demo"])
def test_the_users_head_damaged_from_a_worktree_of_the_run_and_the_loop_killed(
    bench: Bench, words: str
) -> None:
    bench.only_stories(1, 2)
    mess = bench.root / "messy"
    breaks = f"rm $(git rev-parse --git-common-dir)/HEAD; touch {mess}"
    bench.plan({2: [["sh", breaks], ["sleep", 600]]})
    live = bench.begin("--checkpoint", "worktree")
    until(mess.exists, what="the mess")
    live.signal(signal.SIGKILL)
    live.wait()
    agent = ("--agent-cmd", bench.agent) if "resume" in words else ()
    bench.run(*words.split(), *agent).ok()
    assert bench.branch() == "feature/x"


@pytest.mark.parametrize("commits", [False, True], ids=["same commit", "new commit"])
@pytest.mark.parametrize("checkpoint", ["branch", "stash", "worktree"])
def test_a_missing_index_of_the_users_stops_no_ending(
    bench: Bench, checkpoint: str, *, commits: bool
) -> None:
    bench.only_stories(1)
    bench.write("README.md", "the user's edit\n")
    bench.git("add", "README.md")
    staged = bench.staged()
    bench.plan()
    bench.loop("--checkpoint", checkpoint, "--on-complete", "keep").ok()
    moved = commits and checkpoint == "worktree"
    if moved:
        bench.git("commit", "-qm", "the user's own")
    bench.path(".git/index").unlink()
    result = bench.run("finish", "demo", "cleanup").ok()
    if checkpoint != "branch":  # there the index is the run's until then
        assert "index was gone" in result.stdout
    assert bench.staged() == ("" if moved else staged)
    assert bench.read("work-1.txt") == "work 1\n"
    bench.run("undo").ok()
    bench.run("finish", "demo", "cleanup").ok()


def test_a_missing_index_of_the_users_stops_no_resume_of_a_stash_run(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.plan({2: fails()})
    bench.loop("--checkpoint", "stash", "--max-retries", "0").ok(3)
    bench.path(".git/index").unlink()
    bench.run("resume", "demo", "--agent-cmd", bench.agent).ok()
    assert bench.git("status", "--short").count("D ") == 0


@pytest.mark.parametrize("promise", [FAILS, COMPLETES], ids=["failed", "complete"])
@pytest.mark.parametrize("checkpoint", ["branch", "stash"])
@pytest.mark.parametrize("choice", ["cleanup", "keep"])
def test_hazard_07_agent_removes_our_folder(
    bench: Bench, choice: str, checkpoint: str, promise: Actions
) -> None:
    """Nothing can be put back, so nothing is built on what the attempt left."""
    bench.only_stories(1)
    bench.write("loose.txt", "the user's new file\n")
    users = users_bytes(bench)
    bench.plan({1: [["write", "mess.txt", "mess\n"], ["sh", "rm -rf .git/untildone"], *promise]})
    result = bench.loop("--checkpoint", checkpoint, "--on-complete", choice)
    assert result.code == {"cleanup": 5, "keep": 3}[choice]
    assert "git for-each-ref refs/ralph/backup" in result.stderr
    assert bench.branch() == ("ralph/demo" if checkpoint == "branch" else "feature/x")
    assert bench.read("mess.txt") == "mess\n"
    (backup,) = bench.refs("refs/ralph/backup")
    bench.git("checkout", backup, "--", ".")
    assert users_bytes(bench) >= users
