"""What an attempt must leave alone: other refs, stashes, settings."""

import os
from pathlib import Path

import pytest

from tests.adapters.worktree import Worktree
from untildone.adapters.checkpoints.branch import BranchCheckpoint

MESSAGE = "checkpoint: 1\n"


@pytest.fixture
def opened(repo: Worktree) -> tuple[BranchCheckpoint, str]:
    repo.sh("branch", "other")
    repo.sh("tag", "v1")
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    return checkpoint, opened.checkpoint


Opened = tuple[BranchCheckpoint, str]


def test_moved_and_deleted_refs_are_put_back(repo: Worktree, opened: Opened) -> None:
    checkpoint, base = opened
    before = repo.sh("for-each-ref", "refs/heads", "refs/tags")
    repo.sh("commit", "-q", "--allow-empty", "-m", "stray")
    stray = repo.sh("rev-parse", "HEAD")
    repo.sh("branch", "-q", "-f", "feature/x", stray)
    repo.sh("branch", "-q", "-D", "other")
    repo.sh("tag", "-f", "v1", stray)
    reverted = checkpoint.revert(0, base, "1", 1)
    assert repo.sh("for-each-ref", "refs/heads", "refs/tags") == before
    assert {remark.split("`")[1] for remark in reverted.remarks} == {
        *("refs/heads/feature/x", "refs/heads/other", "refs/tags/v1"),
    }
    assert repo.sh("rev-parse", f"refs/ralph/moved/demo/{stray[:16]}") == stray


RENAMED = {
    "below": ("other", "other/sub"),
    "above": ("feature/x", "feature"),
}


@pytest.mark.parametrize("name", RENAMED)
@pytest.mark.parametrize("end", ["revert", "save"])
def test_a_renamed_branch_is_put_back(name: str, end: str, repo: Worktree, opened: Opened) -> None:
    checkpoint, base = opened
    old, new = RENAMED[name]
    at = repo.sh("rev-parse", old)
    repo.sh("branch", "-m", old, new)
    if end == "revert":
        remarks = checkpoint.revert(0, base, "1", 1).remarks
    else:
        remarks = checkpoint.save(0, base, MESSAGE, only_changes=False).remarks
    assert remarks[-1:] == (f"An attempt moved `refs/heads/{old}`; it was put back to {at[:12]}",)
    assert set(repo.git().refs("refs/heads/")) == {
        *("refs/heads/feature/x", "refs/heads/other", "refs/heads/ralph/demo"),
    }
    assert repo.sh("rev-parse", old, f"refs/ralph/moved/demo/{at[:16]}").split() == [at, at]


def test_new_branches_stay(repo: Worktree, opened: Opened) -> None:
    checkpoint, base = opened
    repo.sh("branch", "idea")
    assert checkpoint.save(0, base, MESSAGE, only_changes=False).remarks == ()
    assert repo.sh("rev-parse", "idea") == base


def test_a_branch_of_another_worktree_is_theirs(repo: Worktree, tmp_path: Path) -> None:
    other = tmp_path / "other"
    repo.sh("worktree", "add", "-q", "-b", "theirs", str(other))
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    repo.sh("-C", str(other), "commit", "-q", "--allow-empty", "-m", "theirs")
    moved = repo.sh("rev-parse", "theirs")
    assert checkpoint.revert(0, opened.checkpoint, "1", 1).remarks == ()
    assert repo.sh("rev-parse", "theirs") == moved


def test_settings_are_put_back_and_kept_aside(repo: Worktree, opened: Opened) -> None:
    checkpoint, base = opened
    config, exclude = repo.place.git_dir / "config", repo.place.git_dir / "info/exclude"
    before = config.read_bytes(), exclude.read_bytes()
    repo.sh("config", "core.excludesFile", "/everything")
    exclude.write_text("*\n")
    repo.write("new.txt", "new\n")
    saved = checkpoint.save(0, base, MESSAGE, only_changes=False)
    assert (config.read_bytes(), exclude.read_bytes()) == before
    assert [remark.partition(";")[0] for remark in saved.remarks] == [
        "An attempt changed `.git/config`",
        "An attempt changed `.git/info/exclude`",
    ]
    assert (repo.folder.path / "changed-info-exclude").read_text() == "*\n"
    assert "new.txt" in repo.tree(saved.commit)


def stash_of(repo: Worktree, text: str) -> None:
    repo.write("a.txt", text)
    repo.sh("stash", "push", "-q", "-m", text)


def test_a_new_stash_is_stored_and_taken_off_the_list(repo: Worktree, opened: Opened) -> None:
    checkpoint, base = opened
    stash_of(repo, "agent's\n")
    stash = repo.sh("rev-parse", "refs/stash")
    reverted = checkpoint.revert(0, base, "1", 1)
    assert repo.sh("stash", "list") == ""
    assert repo.sh("rev-parse", f"refs/ralph/moved/demo/{stash[:16]}") == stash
    assert len(reverted.remarks) == 1


@pytest.mark.parametrize("act", ["push", "drop", "clear"])
def test_the_users_stashes_stay(act: str, repo: Worktree) -> None:
    stash_of(repo, "one\n")
    stash_of(repo, "two\n")
    before = repo.sh("stash", "list", "--format=%gd %H %gs")
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    if act == "push":
        stash_of(repo, "agent's\n")
    else:
        repo.sh("stash", act)
    checkpoint.revert(0, opened.checkpoint, "1", 1)
    assert repo.sh("stash", "list", "--format=%gd %H %gs") == before


def test_a_new_process_knows_what_was_before(repo: Worktree, opened: Opened) -> None:
    _, base = opened
    at = repo.sh("rev-parse", "other")
    repo.sh("branch", "-q", "-D", "other")
    remarks = repo.checkpoint().revert(0, base, "1", 1).remarks
    assert remarks == (f"An attempt moved `refs/heads/other`; it was put back to {at[:12]}",)
    assert repo.sh("rev-parse", "other") == at


def test_without_a_note_nothing_is_moved(repo: Worktree) -> None:
    checkpoint, opened = repo.open()
    repo.sh("branch", "-q", "-f", "feature/x", "HEAD")
    assert checkpoint.revert(0, opened.checkpoint, "1", 1).remarks == ()


def test_hooks_and_own_settings_are_put_back(repo: Worktree) -> None:
    git_dir = repo.place.git_dir
    hooks = git_dir / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-push", "commit-msg"):
        (hooks / name).write_text("#!/bin/sh\n")
        (hooks / name).chmod(0o755)
    (hooks / "update.sample").write_text("sample\n")
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    (hooks / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "pre-push").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "commit-msg").unlink()
    (hooks / "update.sample").write_text("changed\n")
    (git_dir / "config.worktree").write_text("[core]\n\tsparseCheckout = true\n")
    (git_dir / "info/sparse-checkout").write_text("/nothing\n")
    remarks = checkpoint.revert(0, opened.checkpoint, "1", 1).remarks
    assert [remark.split("`")[1] for remark in remarks] == [
        *(".git/config.worktree", ".git/info/sparse-checkout"),
        *(".git/hooks/commit-msg", ".git/hooks/pre-commit", ".git/hooks/pre-push"),
    ]
    assert {path.name: path.read_text() for path in hooks.iterdir() if path.suffix == ""} == {
        "pre-push": "#!/bin/sh\n",
        "commit-msg": "#!/bin/sh\n",
    }
    assert os.access(hooks / "commit-msg", os.X_OK)
    assert (hooks / "update.sample").read_text() == "changed\n"
    assert not (git_dir / "config.worktree").exists()
    assert not (git_dir / "info/sparse-checkout").exists()
    assert (repo.folder.path / "changed-hooks-pre-commit").read_text() == "#!/bin/sh\nexit 1\n"
