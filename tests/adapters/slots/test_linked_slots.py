"""Slots that are linked worktrees: for what a private clone cannot have."""

import shutil
from pathlib import Path

import pytest

from tests.adapters.slots.lanes import Lanes, files, is_sound, shell
from tests.adapters.worktree import Worktree, shell_git
from untildone.adapters.slots.slot import CLONE, WORKTREE


@pytest.fixture
def linked(repo: Worktree, tmp_path: Path) -> Lanes:
    repo.write(".gitignore", "node_modules/\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-q", "-m", "more")
    return Lanes(repo, tmp_path / "slots", WORKTREE)


def test_a_linked_slot_works_like_a_clone(linked: Lanes) -> None:
    work = linked.story(
        "echo c > c; git add c; git commit -qm own; echo d > d; "
        "mkdir node_modules; echo m > node_modules/m"
    )
    assert linked.file(work, "d") == "d"
    linked.repo.sh("commit", "-q", "--allow-empty", "-m", "landed")
    again = linked.prepare()
    assert files(again.slot.top) == files(linked.repo.top) | {"node_modules/m": b"m\n"}
    assert shell_git(again.slot.top, "branch", "--show-current") == "ralph-lane-0/demo"
    assert shell_git(again.slot.top, "rev-parse", "HEAD") == linked.head
    assert linked.slots.delete(0).deleted
    assert len(linked.repo.sh("worktree", "list").splitlines()) == 1
    assert "refs/heads/ralph-lane-0/demo" not in linked.refs()
    assert linked.file(work, "c") == "c"
    assert is_sound(linked.repo.top)


def test_a_commit_that_only_the_branch_of_a_linked_slot_holds_keeps_it(linked: Lanes) -> None:
    linked.attempt(linked.prepare(), "echo c > c; git add c; git commit -qm own")
    own = linked.refs()["refs/heads/ralph-lane-0/demo"]
    deletion = linked.slots.delete(0)
    assert (deletion.deleted, deletion.reasons) == (
        False,
        (f"No ref holds the commit {own[:12]} of it.",),
    )
    assert linked.slots.delete(0, store=True).deleted
    assert linked.file(own, "c") == "c"
    assert is_sound(linked.repo.top)


def test_a_failed_attempt_is_put_back_while_the_run_branch_moves(linked: Lanes) -> None:
    linked.repo.sh("branch", "ralph/demo")
    one, two = linked.prepare(0), linked.prepare(1)
    linked.attempt(one, "echo 1 > one")
    linked.attempt(two, "echo 2 > two; git add two; git commit -qm two")
    landed = linked.repo.sh("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "landed")
    linked.repo.sh("update-ref", "refs/heads/ralph/demo", landed)
    one.workspace.commits(linked.head)
    one.workspace.revert(0, linked.head, "1", 1)
    assert linked.refs()["refs/heads/ralph/demo"] == landed
    assert files(one.slot.top) == files(linked.repo.top)
    assert linked.repo.attempt("1/1")["one"] == "1"
    assert linked.file(linked.save(two), "two") == "2"


@pytest.mark.parametrize("script", ["rm .git", "rm -rf ..?* .[!.]* *", "rm .git; git init -q"])
def test_a_linked_slot_that_lost_its_way_is_repaired(linked: Lanes, script: str) -> None:
    linked.attempt(linked.prepare(), script)
    linked.restart()
    again = linked.prepare()
    assert files(again.slot.top) == files(linked.repo.top)
    assert shell_git(again.slot.top, "status", "--porcelain", "--branch") == "## ralph-lane-0/demo"


def test_a_linked_slot_whose_folder_was_wiped_is_made_again(linked: Lanes) -> None:
    prepared = linked.prepare()
    linked.restart()
    shutil.rmtree(prepared.slot.folder)
    again = linked.prepare()
    assert files(again.slot.top) == files(linked.repo.top)
    assert len(linked.repo.sh("worktree", "list").splitlines()) == 2


def test_another_kind_takes_the_place_of_a_slot_once_all_is_stored(linked: Lanes) -> None:
    prepared = linked.prepare()
    shell(prepared.slot.top, "echo left > left")
    linked.slots.release(0)
    clones = Lanes(linked.repo, linked.root, CLONE)
    again = clones.prepare()
    assert files(again.slot.top) == files(linked.repo.top)
    assert len(linked.repo.sh("worktree", "list").splitlines()) == 1
    moved = linked.refs("refs/ralph/moved/")
    assert [linked.file(ref, "left") for ref in moved] == ["left"]
