"""The hazard matrix, where a run starts: dirty and odd places, hooks, settings, other worktrees."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, fails
from tests.e2e.change import TASKS, tasks_text
from tests.e2e.hazard_ledger import FAILS, assert_nothing_lost, index_of, users_bytes

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def mixed(bench: Bench) -> None:
    """A tree in every state that git knows: staged, partly staged, intended, removed, renamed."""
    for name in ("part", "gone", "unlisted", "old-name", "assumed", "skipped", "mode"):
        bench.write(f"{name}.txt", f"{name}\n" * 20)
    bench.commit("more files")
    bench.write("part.txt", "staged\n")
    bench.write("new.txt", "staged new\n")
    bench.git("add", "part.txt", "new.txt")
    bench.write("part.txt", "staged and more\n")
    bench.write("intended.txt", "intended\n")
    bench.git("add", "-N", "intended.txt")
    bench.git("rm", "-q", "gone.txt")
    bench.git("rm", "-q", "--cached", "unlisted.txt")
    bench.git("mv", "old-name.txt", "new-name.txt")
    bench.git("update-index", "--assume-unchanged", "assumed.txt")
    bench.git("update-index", "--skip-worktree", "skipped.txt")
    bench.git("update-index", "--chmod=+x", "mode.txt")
    bench.write("assumed.txt", "mine, and git shall not look\n")
    bench.write("skipped.txt", "mine too\n")
    bench.write("staged-then-deleted.txt", "only staged\n")
    bench.git("add", "staged-then-deleted.txt")
    bench.path("staged-then-deleted.txt").unlink()
    bench.write("loose dir/untracked.txt", "loose\n")


@pytest.mark.parametrize("ending", ["cleanup", "keep, restore", "cleanup, restore"])
def test_hazard_01_dirty_start_with_partial_staging_and_intent_to_add(
    bench: Bench, ending: str
) -> None:
    bench.only_stories(1, 2)
    mixed(bench)
    before, files, users = index_of(bench), bench.contents(), users_bytes(bench)
    start = bench.sha()
    # The stories leave no trace, so that the state after cleanup is the state before the run.
    bench.plan({1: [["write", "part.txt", "agent\n"], ["delete", "new.txt"], *fails()]}, DONE[1:])
    if ending == "cleanup":
        bench.plan({1: [["write", "part.txt", "agent\n"], *fails()]}, DONE[1:])
    bench.loop("--on-complete", ending.partition(",")[0]).ok()
    if "restore" in ending:
        bench.run("restore", "demo").ok()
        assert (index_of(bench), bench.contents()) == (before, files)
    else:
        bench.git("checkout", "-q", "--", TASKS)  # the ticks
        assert (index_of(bench), bench.contents()) == (before, files)
    assert (bench.branch(), bench.sha()) == ("feature/x", start)
    assert_nothing_lost(bench, users)


@pytest.mark.parametrize("ending", ["cleanup", "keep, restore"])
def test_hazard_02_detached_head(bench: Bench, ending: str) -> None:
    bench.only_stories(1)
    bench.git("checkout", "-q", "--detach", "HEAD~1")
    bench.write("loose.txt", "loose\n")
    start, users, refs = bench.sha(), users_bytes(bench), bench.refs("refs/heads/")
    bench.plan({1: fails()})
    bench.loop("--on-complete", ending.partition(",")[0]).ok()
    if "restore" in ending:
        bench.run("restore", "demo").ok()
        assert users_bytes(bench) == users
    else:
        assert bench.read("work-2.txt") == "work 2\n"
    assert (bench.branch(), bench.sha()) == ("HEAD", start)
    assert bench.refs("refs/heads/") == refs
    assert_nothing_lost(bench, users)


def test_hazard_03_unborn_branch_is_refused(bench: Bench) -> None:
    bench.git("checkout", "-q", "--orphan", "unborn")
    before = bench.snapshot()
    result = bench.loop().ok(2)
    assert "This branch has no commit yet" in result.stderr
    assert (bench.snapshot(), bench.calls()) == (before, [])


def test_hazard_04_earlier_branch_of_the_same_change(bench: Bench) -> None:
    bench.git("checkout", "-q", "-b", "ralph/demo")
    bench.write("old.txt", "of an earlier run\n")
    old = bench.commit("an earlier run")
    users = users_bytes(bench)
    bench.git("checkout", "-q", "feature/x")
    bench.plan()
    result = bench.loop("--on-complete", "cleanup").ok()
    (ref,) = [name for name, sha in bench.refs("refs/ralph/archive/demo/").items() if sha == old]
    assert ref in result.stdout
    assert_nothing_lost(bench, users)


ILLEGAL = ("-D", "a b", "a..b", "x.lock", ".hidden", "a@{b", "ctrl\x01", "a:b", "a//b", "a" * 300)


def test_hazard_05_change_name_that_git_cannot_use_is_refused(bench: Bench) -> None:
    before = bench.snapshot()
    for name in ILLEGAL:
        words = ("--agent-cmd", bench.agent, "--task", "x", "--done", "promise")
        result = bench.run("run", *words, "--", name).ok(2)
        assert "cannot be used as a git branch name" in result.stderr, name
    assert (bench.snapshot(), bench.calls()) == (before, [])


@pytest.mark.parametrize("name", ["HEAD", "@", "größe-ж", "v1.0_rc-2"])
def test_hazard_05_odd_change_name_that_git_can_use(bench: Bench, name: str) -> None:
    bench.write(f"openspec/changes/{name}/tasks.md", tasks_text(stories=["Only one"]))
    start, files = bench.sha(), bench.contents()
    bench.plan()
    bench.run("run", "--agent-cmd", bench.agent, "--on-complete", "keep", "--", name).ok()
    made = bench.subjects(f"{start}..refs/heads/ralph/{name}")
    assert made == ["initial state", "checkpoint: 1"]
    bench.run("restore", "--", name).ok()
    assert (bench.branch(), bench.sha(), bench.contents()) == ("feature/x", start, files)


@pytest.mark.parametrize("clash", ["ralph", "ralph/demo/below"])
def test_hazard_05_branch_name_that_bars_the_way(bench: Bench, clash: str) -> None:
    bench.git("branch", clash)
    before = bench.snapshot()
    told = bench.loop().ok(2).stderr
    assert f"`{clash}`" in told
    assert (bench.snapshot(), bench.calls()) == (before, [])
    hint = told.partition("hint: git ")[2].splitlines()[0]
    bench.git(*hint.split())
    bench.loop().ok()


@pytest.mark.parametrize("cone", ["--cone", "--no-cone"])
def test_hazard_12_sparse_checkout(bench: Bench, cone: str) -> None:
    bench.only_stories(1, 2)
    bench.write("big/data.txt", "outside the cone\n")
    bench.commit("big")
    bench.git("sparse-checkout", "set", cone, "src", "openspec")
    bench.write("src/app.py", "print('dirty')\n")
    users, before = users_bytes(bench), index_of(bench)
    astray = [["write", "big/new.txt", "new\n"], ["write", "elsewhere/x.txt", "x\n"]]
    lost_index = [["sh", "rm .git/index"]]
    bench.plan({1: [*astray, *lost_index, *fails()[1:]], 3: [*astray, *lost_index, *DONE]})
    result = bench.loop().ok()
    first, retry, *_ = bench.calls()
    assert (retry.place, retry.files) == (("ralph/demo", first.head, ""), first.files)
    assert result.outcomes() == ["failed", "complete", "complete"]
    kept = bench.git("ls-tree", "-r", "--name-only", "ralph/demo").splitlines()
    assert {"big/data.txt", "big/new.txt", "elsewhere/x.txt", "run.sh"} <= set(kept)
    bench.run("restore", "demo").ok()
    assert index_of(bench) == before
    assert_nothing_lost(bench, users)


@pytest.mark.parametrize("checkpoint", ["branch", "stash", "worktree"])
def test_hazard_12_files_outside_a_sparse_checkout_stay_on_disk(
    bench: Bench, checkpoint: str
) -> None:
    """Git's own `read-tree -u` takes them away, whoever made them."""
    bench.only_stories(1)
    bench.write("big/data.txt", "outside the cone\n")
    bench.write("big/more.txt", "outside the cone\n")
    bench.commit("big")
    bench.git("sparse-checkout", "set", "--cone", "src", "openspec")
    bench.write("big/data.txt", "the user's edit\n")
    bench.write("big/mine.txt", "the user's\n")
    bench.write("loose/mine.txt", "the user's\n")
    before = bench.contents()
    made: Actions = [["write", "big/work.txt", "work\n"]]
    bench.plan({1: [["sh", "rm -rf big loose"], *fails()], 2: [*made, *DONE]})
    bench.loop("--checkpoint", checkpoint).ok()
    first, retry = bench.calls()
    assert retry.files == first.files
    assert {"big/data.txt", "big/mine.txt", "loose/mine.txt"} <= first.files.keys()
    assert "big/more.txt" not in first.files
    bench.run("finish", "demo", "cleanup").ok()
    after = bench.contents()
    assert {name: text for name, text in before.items() if name != TASKS}.items() <= after.items()
    assert bench.read("big/work.txt") == "work\n"
    bench.run("restore", "demo").ok()
    assert bench.contents() == before


def test_hazard_13_branch_checked_out_in_another_worktree_is_refused(bench: Bench) -> None:
    bench.git("worktree", "add", "-q", "-b", "ralph/demo", str(bench.root / "two"))
    before = bench.snapshot()
    assert str(bench.root / "two") in bench.loop().ok(2).stderr
    assert (bench.snapshot(), bench.calls()) == (before, [])


def test_hazard_13_loops_in_two_worktrees_leave_each_other_alone(bench: Bench) -> None:
    two = bench.root / "two"
    bench.write("openspec/changes/other/tasks.md", tasks_text(stories=["Other one"]))
    bench.commit("a second change")
    bench.git("worktree", "add", "-q", "-b", "beside", str(two))
    (two / "beside.txt").write_text("beside\n")
    bench.write("README.md", "stashed\n")
    bench.git("stash", "push", "-q")
    stashes, users = bench.git("stash", "list"), users_bytes(bench) | users_bytes(bench, two)
    bench.plan({1: [["wait", bench.gate("go")], *fails()]})
    live = bench.begin("--on-complete", "cleanup")
    bench.wait_call(1)
    bench.run(
        *("run", "other", "--json", "--agent-cmd", bench.agent, "--on-complete", "keep"), cwd=two
    ).ok()
    bench.open_gate("go")
    live.wait().ok()
    assert (bench.branch(), bench.branch(two)) == ("feature/x", "ralph/other")
    assert bench.subjects("beside..ralph/other") == ["initial state", "checkpoint: 1"]
    assert (bench.git("stash", "list"), (two / "beside.txt").exists()) == (stashes, True)
    assert_nothing_lost(bench, users)


def test_hazard_13_stash_run_of_the_change_in_another_worktree_is_refused(bench: Bench) -> None:
    two = bench.root / "two"
    bench.git("worktree", "add", "-q", "-b", "beside", str(two))
    bench.write("loose.txt", "loose\n")
    bench.plan({2: [["wait", bench.gate("go")], *DONE]})
    live = bench.begin("--checkpoint", "stash")
    bench.wait_call(2)
    before = bench.snapshot(runtime=False)
    for checkpoint in ("stash", "branch", "worktree"):
        result = bench.loop("--checkpoint", checkpoint, cwd=two).ok(2)
        assert str(bench.repo) in result.stderr
    assert (bench.snapshot(runtime=False), len(bench.calls())) == (before, 2)
    bench.open_gate("go")
    live.wait().ok()
    bench.loop("--checkpoint", "stash", cwd=two).ok()


def moved_git_folder(bench: Bench, layout: str) -> None:
    """The git folder is not `.git` below the files."""
    if layout == "separate git folder":
        bench.git("init", "-q", "--separate-git-dir", str(bench.root / "gd"))
    elif layout == "core.worktree":
        bench.path(".git").rename(bench.root / "gd")
        bench.git("config", "core.worktree", str(bench.repo), cwd=bench.root / "gd")
        bench.write(".git", f"gitdir: {bench.root / 'gd'}\n")
    else:
        outer, origin = bench.root / "outer", bench.root / "origin"
        bench.repo.rename(origin)
        bench.git("init", "-q", str(outer), cwd=bench.root)
        clone = ("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(origin), "sub")
        bench.git(*clone, cwd=outer)
        bench.repo = outer / "sub"


@pytest.mark.parametrize("checkpoint", ["branch", "stash"])
@pytest.mark.parametrize("layout", ["separate git folder", "core.worktree", "submodule"])
def test_hazard_13_git_folder_elsewhere_is_no_other_worktree(
    bench: Bench, layout: str, checkpoint: str
) -> None:
    bench.only_stories(1)
    moved_git_folder(bench, layout)
    bench.write("loose.txt", "loose\n")
    before, users = bench.contents(), users_bytes(bench)
    tip = bench.sha("feature/x")
    strays = [["sh", "git checkout -q feature/x; git commit -q --allow-empty -m stray"], *fails()]
    bench.plan({1: strays})
    bench.loop("--checkpoint", checkpoint, "--on-complete", "cleanup").ok()
    assert (bench.branch(), bench.sha("feature/x")) == ("feature/x", tip)
    bench.run("restore", "demo").ok()
    assert (bench.branch(), bench.contents()) == ("feature/x", before)
    bench.loop("--checkpoint", checkpoint).ok()
    if checkpoint == "branch":
        bench.plan({3: [["write", "again.txt", "again\n"], *DONE]})
        bench.write(TASKS, tasks_text())
        bench.loop("--on-complete", "keep").ok()  # on `ralph/demo`, which is checked out here
    assert_nothing_lost(bench, users)


@pytest.mark.parametrize("checkpoint", ["branch", "stash"])
def test_hazard_13_restore_leaves_the_branch_of_another_worktree(
    bench: Bench, checkpoint: str
) -> None:
    two = bench.root / "two"
    bench.git("worktree", "add", "-q", "-b", "beside", str(two))
    bench.plan()
    bench.loop("--checkpoint", checkpoint, "--on-complete", "cleanup").ok()
    bench.loop(cwd=two).ok()
    tip = bench.sha("ralph/demo")
    bench.run("restore", "demo").ok()
    assert (bench.sha("ralph/demo"), bench.branch(two), bench.status(two)) == (
        *(tip, "ralph/demo"),
        [],
    )
    bench.run("undo").ok()
    assert bench.path("work-1.txt").exists()


def test_hazard_13_restore_to_a_branch_that_is_in_use_elsewhere_is_refused(bench: Bench) -> None:
    bench.plan()
    bench.loop().ok()
    bench.git("worktree", "add", "-q", str(bench.root / "two"), "feature/x")
    before = bench.snapshot(runtime=False)
    assert str(bench.root / "two") in bench.run("restore", "demo").ok(2).stderr
    assert bench.snapshot(runtime=False) == before


HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit"),
    *("prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase", "post-checkout"),
    *("post-merge", "post-rewrite", "post-index-change", "reference-transaction", "pre-auto-gc"),
    *("fsmonitor-watchman", "sendemail-validate", "push-to-checkout", "update", "pre-push"),
)


@pytest.mark.parametrize("where", ["hooks", "hooksPath", "global hooksPath"])
def test_hazard_14_no_hook_of_any_kind_runs(bench: Bench, where: str) -> None:
    bench.only_stories(1, 2)
    folder = bench.path(".git/hooks") if where == "hooks" else bench.root / "husky"
    folder.mkdir(exist_ok=True)
    mark = bench.root / "ran"
    for name in HOOKS:
        (folder / name).write_text(f"#!/bin/sh\necho {name} >> {mark}\nexit 1\n")
        (folder / name).chmod(0o755)
    if where != "hooks":
        scope = "--global" if "global" in where else "--local"
        bench.git("config", scope, "core.hooksPath", str(folder))
    bench.write("loose.txt", "loose\n")
    mark.unlink(missing_ok=True)
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    bench.run("restore", "demo").ok()
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize("trouble", ["signing without a key", "no identity"])
def test_hazard_14_signing_and_identity_are_no_obstacle(bench: Bench, trouble: str) -> None:
    bench.only_stories(1)
    if trouble == "no identity":
        (bench.home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    else:
        bench.git("config", "commit.gpgSign", "true")
        bench.git("config", "user.signingKey", "0123456789ABCDEF")
    bench.write("loose.txt", "loose\n")
    bench.plan({1: fails()})
    bench.loop().ok()
    raw = bench.git("cat-file", "-p", "ralph/demo")
    assert "gpgsig" not in raw
    assert ("untildone@localhost" in raw) == (trouble == "no identity")


def test_hazard_20_second_loop_in_the_same_worktree_is_refused(bench: Bench) -> None:
    bench.plan({1: [["wait", bench.gate("go")], *DONE]})
    live = bench.begin()
    bench.wait_call(1)
    before = bench.snapshot(runtime=False)
    assert str(live.pid) in bench.loop().ok(2).stderr
    assert bench.snapshot(runtime=False) == before
    bench.open_gate("go")
    live.wait().ok()
    assert len(bench.calls()) == 3


def test_hazard_20_git_commands_of_the_user_beside_the_loop(bench: Bench) -> None:
    bench.write("loose.txt", "loose\n")
    users = users_bytes(bench)
    over = threading.Event()

    def busy() -> None:
        while not over.is_set():
            for words in (["add", "-A"], ["status"], ["update-index", "-q", "--refresh"]):
                subprocess.run(
                    ["git", *words],
                    cwd=bench.repo,
                    env=bench.env(),
                    capture_output=True,
                    check=False,
                )

    bench.plan({1: fails(), 3: fails()})
    typists = [threading.Thread(target=busy) for _ in range(2)]
    for typist in typists:
        typist.start()
    try:
        result = bench.loop("--on-complete", "cleanup")
    finally:
        over.set()
        for typist in typists:
            typist.join()
    assert result.ok().outcomes() == ["failed", "complete", "failed", "complete", "complete"]
    assert [bench.read(f"work-{n}.txt") for n in (2, 4, 5)] == ["work 2\n", "work 4\n", "work 5\n"]
    assert not bench.path("mess-1.txt").exists()
    assert_nothing_lost(bench, users)


def test_hazard_21_start_in_a_sub_folder(bench: Bench) -> None:
    bench.write("loose.txt", "loose\n")
    users = users_bytes(bench)
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup", cwd=bench.path("src")).ok()
    assert {call.cwd for call in bench.calls()} == {str(bench.repo)}
    assert not bench.path("mess-1.txt").exists()
    assert_nothing_lost(bench, users)


def test_hazard_21_inherited_git_variables(bench: Bench) -> None:
    alien = bench.root / "alien"
    bench.git("init", "-q", str(alien))
    bench.write("loose.txt", "loose\n")
    users = users_bytes(bench)
    env = {
        "GIT_DIR": str(alien / ".git"),
        "GIT_INDEX_FILE": str(alien / "index"),
        "GIT_WORK_TREE": str(alien),
        "GIT_OBJECT_DIRECTORY": str(alien / "objects"),
        "GIT_NAMESPACE": "alien",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.bare",
        "GIT_CONFIG_VALUE_0": "true",
    }
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup", env=env).ok()
    assert sorted(path.name for path in alien.iterdir()) == [".git"]
    assert bench.git("count-objects", cwd=alien).startswith("0 objects")
    assert_nothing_lost(bench, users)


def test_hazard_21_bare_repository_is_refused(bench: Bench) -> None:
    bench.git("clone", "-q", "--bare", ".", str(bench.root / "bare"))
    assert "bare repository" in bench.loop(cwd=bench.root / "bare").ok(2).stderr


@needs_root
def test_hazard_21_repository_of_another_owner_is_refused(bench: Bench) -> None:
    for path in (bench.repo, bench.path(".git")):
        os.chown(path, 12345, 12345)
    result = bench.loop().ok(2)
    assert "belongs to another user" in result.stderr
    assert "safe.directory" in result.stderr


def test_hazard_21_shallow_clone(bench: Bench) -> None:
    bench.only_stories(1)
    shallow = bench.root / "shallow"
    bench.git("clone", "-q", "--depth", "1", f"file://{bench.repo}", str(shallow))
    (shallow / "loose.txt").write_text("loose\n")
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup", cwd=shallow).ok()
    assert (shallow / "work-2.txt").read_text() == "work 2\n"
    assert (shallow / "loose.txt").read_text() == "loose\n"
    assert bench.git("rev-parse", "--is-shallow-repository", cwd=shallow) == "true"


@pytest.mark.parametrize("setting", ["untrackedCache", "fsmonitor", "feature.manyFiles"])
def test_hazard_29_watchers_and_caches_that_lie(bench: Bench, setting: str) -> None:
    bench.only_stories(1, 2)
    if setting == "fsmonitor":
        liar = bench.program("liar", "#!/bin/sh\nprintf 'token\\0'\n")
        bench.git("config", "core.fsmonitor", str(liar))
    else:
        bench.git("config", setting if "." in setting else f"core.{setting}", "true")
        bench.git("update-index", "--force-untracked-cache")
    bench.git("status")
    bench.git("status")
    bench.write("loose.txt", "loose\n")
    bench.write("README.md", "edited behind the watcher\n")
    users = users_bytes(bench)
    bench.plan({1: [["append", "src/app.py", "broken\n"], *fails()]})
    bench.loop().ok()
    first, retry, second, *_ = bench.calls()
    assert retry.files == first.files
    assert bench.blob(first.head, "README.md") == "edited behind the watcher"
    assert bench.blob(second.head, "work-2.txt") == "work 2"
    assert bench.blob("refs/ralph/attempts/demo/1/1", "src/app.py").endswith("broken")
    assert_nothing_lost(bench, users)


@pytest.mark.parametrize("name", [b"a\nb", b"a\xffb", b"a\nb\xff"])
def test_hazard_21_path_that_is_no_line_of_text_is_refused(bench: Bench, name: bytes) -> None:
    odd = bench.root / os.fsdecode(name)
    bench.repo.rename(odd)
    before = (
        bench.git("for-each-ref", cwd=odd),
        bench.branch(cwd=odd),
        set(os.listdir(odd / ".git")),
    )
    result = bench.run("run", "demo", "--agent-cmd", bench.agent, cwd=odd).ok(2)
    assert "The path of this repository has" in result.stderr
    after = bench.git("for-each-ref", cwd=odd), bench.branch(cwd=odd), set(os.listdir(odd / ".git"))
    assert after == before


@pytest.mark.parametrize("checkpoint", ["branch", "stash", "worktree"])
def test_hazard_21_repository_with_sha256_names(bench: Bench, checkpoint: str) -> None:
    bench.only_stories(1, 2)
    shutil.rmtree(bench.path(".git"))
    bench.git("init", "-q", "--object-format=sha256", "-b", "feature/x")
    bench.commit("all")
    bench.git("tag", "-a", "-m", "a tag", "v1")
    bench.write("README.md", "staged\n")
    bench.git("add", "README.md")
    bench.write("README.md", "edited\n")
    bench.write("loose.txt", "new\n")
    before = bench.status(), bench.staged(), bench.refs("refs/heads"), bench.refs("refs/tags")
    bench.plan({2: [["sh", "git tag -d v1; echo x >> README.md; git commit -qam x"], *FAILS]})
    bench.loop("--checkpoint", checkpoint, "--on-complete", "cleanup").ok()
    bench.git("fsck", "--no-dangling")
    bench.run("restore", "demo").ok()
    after = bench.status(), bench.staged(), bench.refs("refs/heads"), bench.refs("refs/tags")
    assert after == before


@pytest.mark.parametrize("names", [("x", "x/1"), ("x/1", "x")])
@pytest.mark.parametrize("checkpoint", ["branch", pytest.param("stash", marks=pytest.mark.full)])
def test_hazard_05_change_below_another_one_is_refused(
    bench: Bench, names: tuple[str, str], checkpoint: str
) -> None:
    first, second = names
    bench.plan({1: fails()})
    task = ("--task", "do it", "--done", "promise", "--checkpoint", checkpoint)
    choice = ("--on-complete", "cleanup")
    bench.run("run", first, "--agent-cmd", bench.agent, *task, *choice).ok()
    before = bench.snapshot()
    refused = bench.run("run", second, "--agent-cmd", bench.agent, *task, *choice).ok(2)
    assert f"`{first}`" in refused.stderr
    assert "untildone gc --all" in refused.stderr
    assert bench.snapshot() == before
    bench.run("run", "x-1", "--agent-cmd", bench.agent, *task, *choice).ok()
