"""`--checkpoint worktree`: the run beside the repository, the user's tree alone until cleanup."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, fails
from tests.e2e.change import TASKS
from tests.e2e.users_tree import begin, finish, linked, loop, put_away, users_own

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

WORK = [f" M {TASKS}", "?? work-1.txt", "?? work-2.txt", "?? work-3.txt"]
LINES = "".join(f"line {n}\n" for n in range(1, 21))


def _dirty(bench: Bench) -> None:
    bench.write("README.md", "# staged\n")
    bench.write("new.txt", "staged new\n")
    bench.git("add", "README.md", "new.txt")
    bench.write("README.md", "# staged and more\n")
    bench.write("intended.txt", "intended\n")
    bench.git("add", "-N", "intended.txt")
    bench.write("loose.txt", "loose\n")
    bench.path("src/app.py").unlink()
    bench.git("rm", "-q", "--cached", "run.sh")


def test_a_run_leaves_the_users_tree_alone_until_cleanup(bench: Bench) -> None:
    bench.write("README.md", "stashed\n")
    bench.git("stash", "push", "-q", "-m", "mine")
    _dirty(bench)
    before = users_own(bench)
    bench.plan({1: fails(), 3: [["wait", bench.gate("go")], *DONE]})
    live = begin(bench, "--on-complete", "ask")
    call = bench.wait_call(3)
    assert users_own(bench) == before
    assert (call.cwd, call.branch, call.status) == (str(linked(bench)), "ralph/demo", "")
    assert {"loose.txt", "intended.txt", "new.txt", "run.sh"} <= call.files.keys()
    assert not {"src/app.py", ".env", "build"} & call.files.keys()
    bench.open_gate("go")
    live.wait_event("complete")
    assert users_own(bench) == before
    assert finish(bench).ok().stdout.startswith("cleanup: done")
    live.wait().ok()
    after = users_own(bench)
    assert (after["git"], after["refs"]) == (before["git"], before["refs"])
    changed = {name for name, was in before["files"].items() if after["files"].get(name) != was}
    assert {name for name in changed if Path(name).suffix} == {TASKS}
    added = {f"work-{n}.txt" for n in (2, 3, 4)}
    assert after["files"].keys() - before["files"].keys() - {".claude"} == {
        *added,
        ".claude/loop-state.json",
    }
    assert not linked(bench).exists()
    assert not bench.has("refs/heads/ralph/demo")
    assert len(bench.git("worktree", "list").splitlines()) == 1


def test_keep_leaves_the_worktree_and_a_later_cleanup_brings_the_work(bench: Bench) -> None:
    before = users_own(bench)
    bench.plan()
    loop(bench).ok()
    assert users_own(bench) == before
    assert bench.branch(linked(bench)) == "ralph/demo"
    assert bench.subjects("feature/x..ralph/demo")[0] == "initial state"
    (shown,) = bench.loops()
    assert (shown["worktree"], shown["status"]) == (str(linked(bench)), "done")
    assert loop(bench).ok().stdout == ""  # all done: nothing to run
    finish(bench).ok()
    assert bench.status() == WORK
    assert users_own(bench)["git"] == before["git"]
    (shown,) = bench.loops()
    assert (shown["worktree"], shown["choice"]) == (str(bench.repo), "cleanup")


def test_a_second_run_of_the_same_change_starts_anew(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan()
    loop(bench, "--on-complete", "cleanup").ok()
    bench.git("checkout", "-q", "--", ".")
    loop(bench, "--on-complete", "cleanup").ok()
    assert bench.status() == [f" M {TASKS}", "?? work-1.txt", "?? work-2.txt"]
    assert len(put_away(bench)) == 2


def test_detached_start(bench: Bench) -> None:
    start = bench.sha()
    bench.git("checkout", "-q", "--detach")
    bench.plan()
    loop(bench, "--on-complete", "cleanup").ok()
    assert (bench.branch(), bench.sha(), bench.status()) == ("HEAD", start, WORK)


def test_started_in_a_sub_folder(bench: Bench) -> None:
    before = users_own(bench)
    bench.plan()
    loop(bench, cwd=bench.path("src")).ok()
    assert bench.calls()[0].cwd == str(linked(bench))
    assert users_own(bench) == before
    bench.run("finish", "demo", "cleanup", cwd=bench.path("src")).ok()
    assert bench.status() == WORK


def test_started_in_a_linked_worktree_of_the_users(bench: Bench) -> None:
    own = bench.root / "own"
    bench.git("worktree", "add", "-q", "-b", "feature/y", str(own))
    (own / "loose.txt").write_text("loose\n")
    before, main = users_own(bench, own), users_own(bench)
    bench.plan()
    loop(bench, cwd=own).ok()
    assert bench.calls()[0].cwd == str(bench.root / "own-ralph-demo")
    assert users_own(bench, own) == before
    bench.run("finish", "demo", "cleanup", cwd=own).ok()
    assert bench.status(own) == [WORK[0], "?? loose.txt", *WORK[1:]]
    assert users_own(bench) == main


def test_the_plain_loop(bench: Bench) -> None:
    before = users_own(bench)
    bench.plan(default=[["append", "README.md", "more\n"], ["say", COMPLETE]])
    args = ("--task", "Polish", "--done", "promise")
    bench.run(
        "run", "polish", "--json", "--agent-cmd", bench.agent, *args, "--checkpoint", "worktree"
    ).ok()
    assert users_own(bench) == before
    finish(bench, change="polish").ok()
    assert bench.status() == [" M README.md"]


# -- what the user does meanwhile ----------------------------------------------------------------


def test_the_users_edits_meanwhile_are_merged(bench: Bench) -> None:
    bench.write("long.txt", LINES)
    bench.commit("long")
    bench.plan({1: [["sh", "sed -i 's/^line 2$/LOOP 2/' long.txt"], *DONE]})
    loop(bench).ok()
    bench.write("long.txt", LINES.replace("line 19\n", "USER 19\n"))
    bench.write("README.md", "# user\n")
    bench.write("mine.txt", "mine\n")
    bench.git("add", "README.md")
    staged = bench.staged()
    finish(bench).ok()
    both = LINES.replace("line 2\n", "LOOP 2\n").replace("line 19\n", "USER 19\n")
    assert bench.read("long.txt") == both
    assert (bench.read("README.md"), bench.read("mine.txt")) == ("# user\n", "mine\n")
    assert bench.staged() == staged


def test_an_edit_in_the_second_of_its_staging_is_not_missed(bench: Bench) -> None:
    while True:  # same size, same second: git can tell by the time of its index only
        bench.write("long.txt", LINES)
        bench.git("add", "long.txt")
        index = bench.path(".git/index").stat().st_mtime
        bench.write("long.txt", LINES.replace("line 19\n", "USER 19\n"))
        if int(bench.path("long.txt").stat().st_mtime) == int(index):
            break
    bench.plan({1: [["sh", "sed -i 's/^line 2$/LOOP 2/' long.txt"], *DONE]})
    loop(bench, "--on-complete", "cleanup").ok()
    both = LINES.replace("line 2\n", "LOOP 2\n").replace("line 19\n", "USER 19\n")
    assert bench.read("long.txt") == both


def test_the_same_lines_are_a_conflict_and_nothing_is_changed(bench: Bench) -> None:
    bench.plan({1: [["write", "README.md", "loop\n"], *DONE]})
    loop(bench).ok()
    bench.write("README.md", "user\n")
    bench.git("add", "README.md")
    before, work = users_own(bench), bench.contents(linked(bench))
    result = finish(bench).ok(5)
    assert "README.md" in result.stderr
    assert users_own(bench) == before
    assert bench.contents(linked(bench)) == work
    assert bench.has("refs/heads/ralph/demo")
    bench.git("checkout", "-q", "HEAD", "--", "README.md")
    finish(bench).ok()
    assert bench.read("README.md") == "loop\n"


def test_an_ignored_file_in_the_way_is_a_conflict(bench: Bench) -> None:
    bench.plan()
    loop(bench).ok()
    bench.write(".gitignore", bench.read(".gitignore") + "work-1.txt\n")
    bench.write("work-1.txt", "mine, ignored\n")
    before = users_own(bench)
    assert "work-1.txt" in finish(bench).ok(5).stderr
    assert users_own(bench) == before


def test_another_branch_at_cleanup_is_refused(bench: Bench) -> None:
    bench.plan()
    loop(bench).ok()
    bench.git("checkout", "-q", "-b", "elsewhere")
    before = users_own(bench)
    assert "feature/x" in finish(bench).ok(5).stderr
    assert users_own(bench) == before
    bench.git("checkout", "-q", "feature/x")
    finish(bench).ok()
    assert bench.status() == WORK


def test_commits_of_the_user_meanwhile_are_merged(bench: Bench) -> None:
    bench.write("loose.txt", "loose\n")
    bench.plan()
    live = begin(bench, "--on-complete", "ask")
    live.wait_event("complete")
    bench.write("upstream.txt", "upstream\n")
    mine = bench.commit("mine, with the loose file")
    finish(bench).ok()
    live.wait().ok()
    assert (bench.sha(), bench.status()) == (mine, WORK)
    assert (bench.read("upstream.txt"), bench.read("loose.txt")) == ("upstream\n", "loose\n")


# -- what comes back -------------------------------------------------------------------------------


def test_cleanup_brings_every_kind_of_change(bench: Bench) -> None:
    bench.path("blob.bin").write_bytes(bytes(range(256)))
    bench.path("link").symlink_to("README.md")
    bench.write("folder/inner.txt", "inner\n")
    bench.write("swap", "a file\n")
    bench.commit("kinds")
    start = bench.sha()
    bench.plan(
        {
            1: [
                ["delete", "blob.bin"],
                ["rename", "src/app.py", "src/main.py"],
                ["chmod", "run.sh", 0o755],
                ["delete", "link"],
                ["symlink", "run.sh", "link"],
                ["sh", "rm -r folder swap; echo now a file > folder; mkdir swap"],
                ["write", "swap/inner.txt", "now a folder\n"],
                ["sh", r"printf '\000\001\377' > new.bin; printf x > 'odd name $\n'"],
                ["write", ".gitignore", ".env\nbuild/\n*.log\n"],
                *DONE,
            ]
        }
    )
    loop(bench).ok()
    tree = bench.tree_of("ralph/demo")
    finish(bench).ok()
    assert bench.tree() == tree
    assert bench.sha() == start
    assert bench.path("link").readlink() == Path("run.sh")
    assert os.access(bench.path("run.sh"), os.X_OK)
    assert bench.path("new.bin").read_bytes() == b"\0\1\xff"
    assert not bench.path("src/app.py").exists()


def test_ignored_files_of_the_agent_are_kept_in_the_folder_put_away(bench: Bench) -> None:
    bench.plan({1: [["write", ".env", "SECRET=2\n"], ["write", "build/out.bin", "built\n"], *DONE]})
    result = loop(bench, "--on-complete", "cleanup").ok()
    (kept,) = put_away(bench)
    assert str(kept) in result.stderr
    assert (kept / ".env").read_text() == "SECRET=2\n"
    assert (kept / "build/out.bin").read_text() == "built\n"
    assert bench.read(".env") == "SECRET=1\n"
    assert not bench.path("build/out.bin").exists()
    assert bench.git("status", "--porcelain", cwd=kept, ok=False) == ""  # no worktree any more


def test_hooks_do_not_run(bench: Bench) -> None:
    names = (
        "post-checkout",
        "pre-commit",
        "commit-msg",
        "post-merge",
        "reference-transaction",
        "post-index-change",
        "pre-auto-gc",
        "post-rewrite",
    )
    for name in names:
        hook = bench.path(f".git/hooks/{name}")
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >> {bench.root}/hooks.log\nexit 1\n")
        hook.chmod(0o755)
    bench.plan()
    loop(bench, "--on-complete", "cleanup").ok()
    assert not (bench.root / "hooks.log").exists()


def test_a_submodule_is_left_as_it_is(bench: Bench) -> None:
    inner = bench.root / "inner"
    inner.mkdir()
    bench.git("init", "-q", cwd=inner)
    bench.git("commit", "-q", "--allow-empty", "-m", "inner", cwd=inner)
    bench.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    bench.commit("with a submodule")
    before = users_own(bench)
    bench.plan()
    loop(bench).ok()
    assert users_own(bench)["files"] == before["files"]
    finish(bench).ok()
    assert bench.status() == WORK
    assert bench.git("submodule", "status").startswith(" ")


def test_a_sparse_checkout_stays_sparse(bench: Bench) -> None:
    bench.write("far/away.txt", "away\n")
    bench.commit("far")
    bench.git("sparse-checkout", "set", "src", "openspec")
    before = users_own(bench)
    bench.plan()
    loop(bench).ok()
    assert users_own(bench) == before
    finish(bench).ok()
    assert bench.status() == WORK
    assert not bench.path("far").exists()
