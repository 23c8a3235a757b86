"""The hazard matrix, what git itself overlooks, refuses or cannot remove."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, fails
from tests.e2e.command import COMMAND, Live
from tests.e2e.hazard_ledger import (
    FAILS,
    assert_nothing_lost,
    digest,
    index_of,
    kept_bytes,
    users_bytes,
    warnings,
)

if TYPE_CHECKING:
    from tests.e2e.bench import Bench
    from tests.e2e.command import Result

pytestmark = pytest.mark.e2e


def ordinary(bench: Bench, *args: str) -> Result:
    """The command as a user whom permissions stop; root gives that power away first."""
    if os.geteuid() != 0:
        return bench.run(*args)
    setpriv = shutil.which("setpriv")
    if not setpriv:
        pytest.skip("the administrator may do everything, and there is no setpriv")
    bounds = ("--bounding-set", "-dac_override,-dac_read_search")
    live = Live([setpriv, *bounds, str(COMMAND), *args], bench.repo, bench.env())
    try:
        return live.wait()
    finally:
        live.close()


SPOILS = {
    "overwritten": "echo x > a.txt; echo x > gone.txt",
    "removed": "rm a.txt",
    "reset": "git reset -q --hard",
    "switched": "git checkout -q -f feature/x",
    "flagged anew": "git update-index --assume-unchanged a.txt; echo x > a.txt",
}


def overlooked(bench: Bench, flag: str) -> None:
    """A file with an edit, and one that is gone, both of which git was told to overlook."""
    bench.only_stories(1)
    bench.write("a.txt", "base\n")
    bench.write("gone.txt", "base\n")
    bench.commit("files")
    bench.git("update-index", flag, "a.txt", "gone.txt")
    bench.write("a.txt", "MINE\n")
    bench.path("gone.txt").unlink()


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
@pytest.mark.parametrize(
    ("spoil", "checkpoint"),
    [*((spoil, "branch") for spoil in SPOILS), ("reset", "stash"), ("removed", "worktree")],
)
def test_hazard_01_files_that_git_was_told_to_overlook(
    bench: Bench, flag: str, spoil: str, checkpoint: str
) -> None:
    overlooked(bench, flag)
    before, files, users = index_of(bench), bench.contents(), users_bytes(bench)
    bench.plan({1: [["sh", SPOILS[spoil]], *FAILS]})
    result = bench.loop("--checkpoint", checkpoint, "--on-complete", "keep").ok()
    first, retry = bench.calls()
    assert retry.files == first.files
    assert "gone.txt" not in first.files
    assert "`a.txt`" in warnings(result)
    bench.run("restore", "demo").ok()
    assert (index_of(bench), bench.contents()) == (before, files)
    assert_nothing_lost(bench, users)


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
@pytest.mark.parametrize("checkpoint", ["branch", "stash", "worktree", "branch, moved"])
def test_hazard_01_cleanup_keeps_what_git_was_told_to_overlook(
    bench: Bench, checkpoint: str, flag: str
) -> None:
    overlooked(bench, flag)
    before = bench.git("ls-files", "-v", "a.txt", "gone.txt")
    bench.plan({1: [["sh", SPOILS["overwritten"]], *FAILS]}, DONE)
    bench.loop("--checkpoint", checkpoint.partition(",")[0]).ok()
    if "moved" in checkpoint:
        tree = bench.git("rev-parse", "feature/x^{tree}")
        commit = bench.git("commit-tree", tree, "-p", "feature/x", "-m", "moved")
        bench.git("update-ref", "refs/heads/feature/x", commit)
    bench.run("finish", "demo", "cleanup").ok()
    assert bench.git("ls-files", "-v", "a.txt", "gone.txt") == before
    assert (bench.read("a.txt"), bench.path("gone.txt").exists()) == ("MINE\n", False)
    assert bench.read("work-2.txt") == "work 2\n"
    assert "a.txt" not in bench.git("diff", "--cached", "--name-only").split()
    bench.write("a.txt", "MINE, later\n")
    bench.run("restore", "demo").ok()
    assert bench.git("ls-files", "-v", "a.txt", "gone.txt") == before
    assert bench.read("a.txt") == "MINE\n"
    assert_nothing_lost(bench, {("a.txt", digest(b"MINE, later\n"))})


REFUSED = {
    "a name like .git": ("mkdir d; echo secret > d/.GIT", {"d/.GIT"}),
    "names like git~1": (
        "for n in 1 2; do mkdir -p d/$n; echo x > d/$n/git~1; done",
        {"d/1/git~1", "d/2/git~1"},
    ),
    "hidden by a rule": (
        "mkdir d; echo '*' > d/.gitignore; echo x > d/.GIT; echo y > d/plain",
        {"d/.GIT"},
    ),
}


@pytest.mark.parametrize("checkpoint", ["branch", "stash"])
@pytest.mark.parametrize("kind", REFUSED)
def test_hazard_37_files_that_git_refuses_are_kept_beside_git(
    bench: Bench, kind: str, checkpoint: str
) -> None:
    bench.only_stories(1)
    before, users = bench.snapshot(runtime=False), users_bytes(bench)
    deed, names = REFUSED[kind]
    bench.plan({1: [["write", "mess-1.txt", "mess\n"], ["sh", deed], *FAILS]})
    result = bench.loop("--checkpoint", checkpoint, "--on-complete", "cleanup").ok()
    first, retry = bench.calls()
    assert retry.files == first.files
    kept = {
        str(path.relative_to(folder))
        for folder in bench.repo.glob(".git/untildone/runs/*/kept/1/1")
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert names <= kept
    assert all(name in warnings(result) for name in kept)
    assert all(name in bench.run("attempts", "demo").ok().stdout for name in kept)
    bench.run("restore", "demo").ok()
    assert bench.snapshot(runtime=False) | {"refs": before["refs"]} == before
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert all(bench.path(name).read_text() for name in kept)
    assert_nothing_lost(bench, users)


def test_hazard_37_finished_story_with_files_that_git_refuses(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["sh", REFUSED["a name like .git"][0]], *DONE]})
    result = bench.loop("--on-complete", "cleanup").ok()
    assert len(bench.calls()) == 1
    assert bench.read("d/.GIT") == "secret\n"
    assert "d/.GIT" in warnings(result)


def test_hazard_37_file_that_git_refuses_made_by_hand(bench: Bench) -> None:
    bench.only_stories(1)
    before = bench.snapshot(runtime=False)
    bench.plan()
    bench.loop().ok()
    bench.write("d/.GIT", "by hand\n")
    bench.run("restore", "demo").ok()
    assert bench.read("d/.GIT") == "by hand\n"
    now = bench.snapshot(runtime=False)
    assert (now["index"], now["head"]) == (before["index"], before["head"])
    said = bench.loop().ok(2).stderr
    assert "d/.GIT" in said
    assert "Nothing was changed." in said
    assert bench.snapshot(runtime=False) == now


def test_hazard_37_unreadable_files(bench: Bench) -> None:
    bench.only_stories(1)
    users = users_bytes(bench)
    before = bench.contents()
    locks = "echo new > locked; echo edit > README.md; chmod 000 locked README.md"
    bench.plan({1: [["sh", locks], *FAILS]})
    result = ordinary(bench, *bench.loop_args()).ok()
    first, retry = bench.calls()
    assert retry.files == first.files
    assert "README.md" in warnings(result)
    bench.write("README.md", "edited since\n")
    bench.path("README.md").chmod(0o000)
    refused = ordinary(bench, "finish", "demo", "cleanup")
    assert refused.code != 0
    assert "README.md" in refused.stderr
    assert bench.status() == [" M README.md"]
    bench.path("README.md").chmod(0o644)
    ordinary(bench, "finish", "demo", "cleanup").ok()
    assert bench.read("README.md") == "edited since\n"
    ordinary(bench, "restore", "demo").ok()
    assert bench.contents() == before
    ordinary(bench, "attempts", "demo", "--restore", "1/1").ok()
    assert (bench.read("locked"), bench.read("README.md")) == ("new\n", "edit\n")
    assert_nothing_lost(bench, users)


LOCKED = {
    "new folder": "mkdir -p ro/x/y; echo evil > ro/x/f; echo evil > ro/x/y/f; chmod -R a-w ro",
    "empty folder": "mkdir -p ro/x/y; chmod -R a-w ro",
    "tracked folder": "echo evil > src/new; echo evil > src/app.py; chmod 555 src",
    "removed file": "rm src/app.py; chmod 555 src",
    "with a secret": "mkdir ro; echo PASSWORD=1 > ro/.env.local; chmod 555 ro",
    "nested repository": "git init -q ro/in; echo evil > ro/in/f; chmod 555 ro/in ro",
    "folder for a file": "rm run.sh; mkdir run.sh; echo evil > run.sh/f; chmod 555 run.sh",
}


UNREAD = {
    "tracked": "echo evil > src/app.py; chmod 000 src",
    "new": "mkdir -p q/r; echo evil > q/r/f; chmod 000 q",
}


@pytest.mark.parametrize("kind", UNREAD)
def test_hazard_35_folders_that_nobody_may_read(bench: Bench, kind: str) -> None:
    bench.only_stories(1)
    users = users_bytes(bench)
    bench.plan({1: [["sh", UNREAD[kind]], *FAILS]})
    result = ordinary(bench, *bench.loop_args()).ok()
    first, retry = bench.calls()
    assert retry.files == first.files
    if kind == "new":
        (kept,) = bench.repo.glob(".git/untildone/runs/*/aside/*-q")
        assert (kept / "r/f").read_text() == "evil\n"
        assert str(kept) in warnings(result)
    else:
        assert bench.blob("refs/ralph/attempts/demo/1/1", "src/app.py") == "evil"
    assert_nothing_lost(bench, users)


def test_hazard_35_unread_folders_of_the_user(bench: Bench) -> None:
    """Git passes over them: a new one is left alone, a tracked one could not be stored."""
    bench.only_stories(1)
    bench.write("mine/f", "mine\n")
    bench.path("mine").chmod(0o000)
    bench.plan({1: fails()})
    ordinary(bench, *bench.loop_args("--on-complete", "cleanup")).ok()
    assert bench.path("mine").stat().st_mode & 0o777 == 0
    bench.path("mine").chmod(0o755)
    assert bench.read("mine/f") == "mine\n"
    bench.path("src").chmod(0o000)
    refused = ordinary(bench, *bench.loop_args("--task", "x", "--done", "promise"))
    bench.path("src").chmod(0o755)
    refused.ok(2)
    assert "src/app.py" in refused.stderr


def test_hazard_35_restore_takes_locked_folders_of_a_finished_story_away(bench: Bench) -> None:
    bench.only_stories(1)
    before = bench.contents()
    bench.plan({1: [["sh", LOCKED["new folder"]], *DONE]})
    ordinary(bench, *bench.loop_args()).ok()
    ordinary(bench, "restore", "demo").ok()
    assert bench.contents() == before
    assert not bench.path("ro").exists()


@pytest.mark.parametrize("kind", LOCKED)
def test_hazard_35_folders_that_may_not_be_written(bench: Bench, kind: str) -> None:
    bench.only_stories(1, 2)
    users = users_bytes(bench)
    bench.plan({1: [["sh", LOCKED[kind]], *FAILS]})
    ordinary(bench, *bench.loop_args("--checkpoint", "branch")).ok()
    first, retry, *_ = bench.calls()
    assert retry.files == first.files
    names = bench.git("ls-tree", "-r", "--name-only", "ralph/demo").split()
    assert not [name for name in names if name.startswith("ro/")]
    if kind in ("new folder", "tracked folder"):
        saved = bench.git("log", "-p", "-m", "--format=", "refs/ralph/attempts/demo/1/1")
        assert saved.count("+evil") == 2
    assert_nothing_lost(bench, users)


def test_hazard_35_file_of_an_attempt_that_cannot_be_removed(bench: Bench) -> None:
    """Git says so in a warning only; the next story must not begin with it."""
    bench.only_stories(1)
    real = bench.git("--exec-path") + "/git"
    bench.program(
        "git",
        f'#!/bin/sh\ncase " $* " in *" read-tree -m -u "*)\n'
        f'  {real} "$@"; code=$?; [ -e {bench.root}/stubborn ] && echo evil > stubborn\n'
        f"  echo \"warning: unable to unlink 'stubborn': Permission denied\" >&2; exit $code ;;\n"
        f'esac\nexec {real} "$@"\n',
    )
    (bench.root / "stubborn").touch()
    bench.plan({1: [["write", "stubborn", "evil\n"], *FAILS]})
    result = bench.loop().ok(3)
    assert "stubborn" in result.stderr
    assert len(bench.calls()) == 1
    (bench.root / "stubborn").unlink()
    bench.run("resume", "demo", "--agent-cmd", bench.agent, "--on-complete", "keep").ok()
    first, retry = bench.calls()
    assert retry.files == first.files


INNER = {
    "empty": ("cd src && git init -q", "src__.git"),
    "with a commit": ("cd src && git init -q && git add . && git commit -qm in", "src__.git"),
    "with more work": ("cd src && git init -q && mkdir new && echo x > new/f", "src__.git"),
    "deep": ("cd openspec/changes && git init -q", "openspec__changes__.git"),
    "stray file": ("mkdir gf && echo 'gitdir: /x' > gf/.git", "gf__.git"),
    "stray file beside work": ("mkdir gf && echo 'gitdir: /x' | tee gf/.git > gf/x", "gf__.git"),
    "stray file in a folder": ("echo 'gitdir: /x' > src/.git", "src__.git"),
    "stray link": ("ln -s /nowhere src/.git", "src__.git"),
}


@pytest.mark.parametrize("kind", INNER)
def test_hazard_08_git_folder_in_a_folder_of_ours(bench: Bench, kind: str) -> None:
    bench.only_stories(1)
    users = users_bytes(bench)
    deed, name = INNER[kind]
    bench.plan({1: [["sh", deed], *FAILS]})
    result = bench.loop("--checkpoint", "stash" if kind == "deep" else "branch").ok()
    first, retry = bench.calls()
    assert retry.files == first.files
    (kept,) = bench.repo.glob(f".git/untildone/runs/*/aside/*-{name}")
    assert str(kept) in warnings(result)
    if kind == "with a commit":
        assert bench.git(f"--git-dir={kept}", "log", "--format=%s") == "in"
    assert_nothing_lost(bench, users)


def test_hazard_08_git_folder_of_the_user_in_a_folder_of_ours(bench: Bench) -> None:
    bench.only_stories(1)
    bench.git("init", "-q", cwd=bench.path("src"))
    bench.plan({1: [["sh", "cd src && git add . && git commit -qm more"], *FAILS]})
    bench.loop().ok()
    assert bench.path("src/.git/HEAD").exists()
    assert bench.read("src/app.py") == "print('hello')\n"


@pytest.mark.parametrize("checkpoint", ["branch", "stash", "worktree"])
def test_hazard_36_announced_secret_is_refused(bench: Bench, checkpoint: str) -> None:
    bench.write("tracked.key", "")
    bench.commit("an empty file")
    bench.write("tracked.key", "now = 'filled'\n")
    bench.write("conf/.env.local", "PASSWORD=hunter2\n")
    bench.git("add", "-N", "conf/.env.local")
    before = bench.snapshot()
    result = bench.loop("--checkpoint", checkpoint).ok(2)
    assert "conf/.env.local" in result.stderr
    assert "tracked.key" not in result.stderr
    assert (bench.snapshot(), bench.calls()) == (before, [])


def test_hazard_36_announced_secret_stays_out_of_a_cleanup_into_the_users_tree(
    bench: Bench,
) -> None:
    bench.only_stories(1)
    bench.plan()
    bench.loop("--checkpoint", "worktree").ok()
    bench.write("conf/.env.local", "PASSWORD=hunter2\n")
    bench.git("add", "-N", "conf/.env.local")
    bench.run("finish", "demo", "cleanup").ok()
    assert bench.read("conf/.env.local") == "PASSWORD=hunter2\n"
    assert bench.read("work-1.txt") == "work 1\n"
    assert " A conf/.env.local" in bench.status()
    assert digest(b"PASSWORD=hunter2\n") not in kept_bytes(bench)


def test_hazard_50_the_output_of_the_command_goes_into_the_repository(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: FAILS})
    log = bench.path("run [1].log")
    args = [str(COMMAND), *bench.loop_args("--max-retries", "0", "--on-complete", "cleanup")]
    with log.open("wb") as out:
        process = subprocess.run(
            args, cwd=bench.repo, env=bench.env(), stdout=out, stderr=out, timeout=60, check=False
        )
    assert process.returncode == 3
    said = log.read_text()
    assert "goes to run [1].log in the repository" in said
    assert '"event": "run_started"' in said
    assert '"event": "finished"' in said
    assert "run [1].log" not in bench.git("status", "--porcelain", "-uall")


def test_hazard_51_loop_that_died_where_nothing_can_be_written(bench: Bench) -> None:
    bench.plan({}, default=[["sleep", 600]])
    live = bench.begin()
    bench.wait_call(1)
    live.kill_unguarded()
    folder = bench.path(".claude")
    folder.chmod(0o555)
    (loop,) = ordinary(bench, "status", "--json").ok().json()["loops"]
    folder.chmod(0o755)
    assert (loop["status"], loop["phase"], loop["alive"]) == ("stopped", "died", False)
    assert bench.state()["status"] == "running"
