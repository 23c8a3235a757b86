"""The hazard matrix, what is staged and in no file: it is stored before the index is replaced."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, failed, fails
from tests.e2e.hazard_ledger import assert_nothing_lost, digest, kept_bytes, users_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

VARIANTS = ("branch", "stash", "worktree")


def worked_in(bench: Bench, variant: str) -> Path:
    """Where the run's files are."""
    linked = bench.repo.with_name(f"{bench.repo.name}-ralph-demo")
    return linked if variant == "worktree" else bench.repo


def stage(bench: Bench, top: Path) -> None:
    """One version staged, another one in the file, and a file that is only announced."""
    (top / "README.md").write_text("only staged\n")
    (top / "gone.txt").write_text("staged and deleted\n")
    bench.git("add", "README.md", "gone.txt", cwd=top)
    (top / "README.md").write_text("in the file\n")
    (top / "gone.txt").unlink()
    (top / "intended.txt").write_text("intended\n")
    bench.git("add", "-N", "intended.txt", cwd=top)


def assert_stored(bench: Bench) -> None:
    """After git has tidied up, the staged versions are still behind a ref."""
    kept = kept_bytes(bench)
    lost = [
        text
        for text in ("only staged\n", "staged and deleted\n", "in the file\n")
        if digest(text.encode()) not in kept
    ]
    assert not lost, f"lost: {lost}"
    assert "missing" not in bench.git("fsck", "--no-dangling", ok=False)


@pytest.mark.parametrize("variant", VARIANTS)
def test_hazard_34_staged_before_restore_and_its_undo(bench: Bench, variant: str) -> None:
    bench.only_stories(1)
    bench.plan()
    bench.loop("--checkpoint", variant, "--on-complete", "cleanup").ok()
    stage(bench, bench.repo)
    index, files = bench.git("ls-files", "-s", "-t"), bench.contents()
    bench.run("restore", "demo").ok()
    assert_stored(bench)
    bench.run("undo").ok()
    assert (bench.git("ls-files", "-s", "-t"), bench.contents()) == (index, files)
    assert_stored(bench)


@pytest.mark.parametrize("command", ["cleanup", "restore"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_hazard_34_staged_after_keep(bench: Bench, variant: str, command: str) -> None:
    bench.only_stories(1)
    bench.plan()
    bench.loop("--checkpoint", variant, "--on-complete", "keep").ok()
    stage(bench, worked_in(bench, variant))
    words = ["restore", "demo"] if command == "restore" else ["finish", "demo", "cleanup"]
    if (variant, command) != ("stash", "cleanup"):  # which leaves the index where it is
        bench.run(*words).ok()
        assert_stored(bench)


def test_hazard_34_staged_before_cleanup_is_staged_again_by_undo(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan()
    bench.loop("--on-complete", "keep").ok()
    stage(bench, bench.repo)
    before = bench.git("ls-files", "-s", "-t")
    bench.run("finish", "demo", "cleanup").ok()
    assert_stored(bench)
    bench.run("undo").ok()
    assert bench.git("ls-files", "-s", "-t") == before


@pytest.mark.parametrize("variant", ["branch", "worktree"])
def test_hazard_34_refused_cleanup_leaves_what_is_staged(bench: Bench, variant: str) -> None:
    bench.only_stories(1)
    bench.plan({1: [["write", "README.md", "loop\n"], *DONE]})
    bench.loop("--checkpoint", variant, "--on-complete", "keep").ok()
    top = worked_in(bench, variant)
    if variant == "worktree":
        bench.write("README.md", "mine\n")
    else:
        tree = bench.git("rev-parse", "feature/x:src")  # README.md is gone there
        moved = bench.git("commit-tree", "-p", "feature/x", "-m", "moved", tree)
        bench.git("update-ref", "refs/heads/feature/x", moved)
    stage(bench, top)
    before = bench.git("ls-files", "-s", "-t", cwd=top)
    bench.run("finish", "demo", "cleanup").ok(5)
    assert bench.git("ls-files", "-s", "-t", cwd=top) == before


@pytest.mark.parametrize("variant", VARIANTS)
def test_hazard_34_staged_before_resume(bench: Bench, variant: str) -> None:
    bench.only_stories(1, 2)
    bench.plan({1: [["wait", bench.gate("go")], *DONE]})
    live = bench.begin("--checkpoint", variant)
    bench.wait_call(1)
    bench.run("stop", "demo", "--after-iteration").ok()
    bench.open_gate("go")
    live.wait().ok(6)
    stage(bench, worked_in(bench, variant))
    bench.run("resume", "demo", "--on-complete", "keep").ok()
    assert_stored(bench)


def test_hazard_34_staged_before_a_restored_attempt(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    stage(bench, bench.repo)
    bench.run("attempts", "demo", "--restore", "1/1").ok()
    assert_stored(bench)


@pytest.mark.parametrize("verify", [(), ("--verify", "true")])
@pytest.mark.parametrize("variant", VARIANTS)
def test_hazard_34_staged_by_a_failed_attempt(
    bench: Bench, variant: str, verify: tuple[str, ...]
) -> None:
    bench.only_stories(1)
    users = users_bytes(bench)
    steps = (
        "echo only staged > README.md; echo staged and deleted > gone.txt; git add -A;"
        "echo in the file > README.md; rm gone.txt; echo i > i.txt; git add -N i.txt"
    )
    bench.plan({1: [["sh", steps], ["say", failed("no luck")]]})
    bench.loop("--checkpoint", variant, "--on-complete", "cleanup", *verify).ok()
    assert_stored(bench)
    assert_nothing_lost(bench, users)
    shown = bench.run("attempts", "demo", "--show", "1/1", "--json").ok().json()
    assert (shown["commits"], [row["path"] for row in shown["files"]]) == (
        [],
        ["README.md", "i.txt"],
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_hazard_34_staged_by_a_story_that_is_done(bench: Bench, variant: str) -> None:
    bench.only_stories(1)
    users = users_bytes(bench)
    steps = (
        "echo only staged > README.md; echo staged and deleted > gone.txt; git add -A;"
        "echo in the file > README.md; rm gone.txt"
    )
    bench.plan({1: [["sh", steps], *DONE]})
    bench.loop("--checkpoint", variant, "--on-complete", "cleanup").ok()
    assert_stored(bench)
    assert_nothing_lost(bench, users)
    assert bench.read("README.md") == "in the file\n"


@pytest.mark.parametrize("variant", ["branch", "worktree"])
def test_hazard_34_a_story_that_stages_what_it_saves_leaves_no_ref(
    bench: Bench, variant: str
) -> None:
    bench.only_stories(1)
    bench.plan({1: [*DONE[:1], ["git", "add", "-A"], *DONE[1:]]})
    bench.loop("--checkpoint", variant).ok()
    assert not bench.refs("refs/ralph/moved/")


def test_hazard_34_staged_secret_of_a_story_that_is_done_stays_out(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [["sh", "echo a > a.pem; git add -Af"], *DONE]})
    bench.loop("--on-complete", "cleanup").ok()
    assert digest(b"a\n") not in kept_bytes(bench)


def test_hazard_34_staged_secret_of_a_failed_attempt_stays_out_of_our_refs(bench: Bench) -> None:
    bench.only_stories(1)
    steps = "echo a > a.pem; echo b > b.pem; git add -Af; echo c > b.pem"
    bench.plan({1: [["sh", steps], ["say", failed("no luck")]]})
    bench.loop("--on-complete", "cleanup").ok()
    kept = kept_bytes(bench)
    assert [digest(text) in kept for text in (b"a\n", b"b\n", b"c\n")] == [False, True, False]


def test_hazard_34_staged_secret_of_the_user_is_staged_again_by_undo(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan()
    bench.loop("--on-complete", "cleanup").ok()
    bench.write("key.pem", "mine\n")
    bench.git("add", "key.pem")
    before = bench.git("ls-files", "-s", "-t"), bench.contents()
    bench.run("restore", "demo").ok()
    kept_bytes(bench)
    bench.run("undo").ok()
    assert (bench.git("ls-files", "-s", "-t"), bench.contents()) == before
    assert "missing" not in bench.git("fsck", "--no-dangling", ok=False)


def test_hazard_34_staged_before_a_cleanup_that_was_killed(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan()
    bench.loop("--on-complete", "keep").ok()
    stage(bench, bench.repo)
    (run,) = bench.path(".git/untildone/runs").iterdir()
    bench.path(".git/index").rename(run / "index.found.0")  # what a kill at the worst time leaves
    bench.run("finish", "demo", "cleanup").ok()
    assert_stored(bench)


COMMANDS = (("restore", "demo"), ("attempts", "demo", "--restore", "1/1"), ("undo",))


def left_staged(bench: Bench) -> None:
    """A run that has ended, with an attempt that was put back; then something is staged."""
    bench.only_stories(1)
    bench.plan({1: fails()})
    bench.loop("--on-complete", "cleanup").ok()
    stage(bench, bench.repo)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_hazard_34_staged_beside_locks_of_a_git_that_was_killed(
    bench: Bench, command: tuple[str, ...]
) -> None:
    left_staged(bench)
    (run,) = bench.path(".git/untildone/runs").iterdir()
    for name in ("look", "staged", "work", "home"):
        (run / f"index.{name}.lock").touch()
    (run / "attempt.index.lock").touch()
    bench.run(*command).ok()
    assert_stored(bench)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("died", ["kill -9 $$", "echo 'No space left on device' >&2; exit 128"])
def test_hazard_34_staged_while_git_cannot_tell(
    bench: Bench, command: tuple[str, ...], died: str
) -> None:
    left_staged(bench)
    index, files = bench.git("ls-files", "-s", "-t"), bench.contents()
    folder = bench.root / "dying"
    folder.mkdir()
    (folder / "git").write_text(
        f"""#!/bin/sh
case "$GIT_INDEX_FILE $*" in *index.look\\ *write-tree*) {died};; esac
exec {shutil.which("git")} "$@"
"""
    )
    (folder / "git").chmod(0o755)
    path = f"{folder}{os.pathsep}{bench.env()['PATH']}"
    refused = bench.run(*command, env={"PATH": path})
    assert refused.code != 0
    assert "write-tree" in refused.stderr
    assert (bench.git("ls-files", "-s", "-t"), bench.contents()) == (index, files)
    bench.run(*command).ok()
    assert_stored(bench)
