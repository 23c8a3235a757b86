"""The hazard matrix, what git itself overlooks, refuses or cannot remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.bench_repo import DONE
from tests.e2e.hazard_ledger import (
    FAILS,
    assert_nothing_lost,
    digest,
    index_of,
    users_bytes,
    warnings,
)

if TYPE_CHECKING:
    from tests.e2e.bench_repo import Bench

pytestmark = pytest.mark.e2e

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
