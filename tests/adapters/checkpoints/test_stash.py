"""The stash variant at instants that only a crash shows; the rest is tested from outside."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.adapters.worktree import Worktree
from untildone.adapters.checkpoints.stash import StashCheckpoint
from untildone.adapters.git.git import Git, RefUpdate
from untildone.adapters.git.repository import exclude_own_files
from untildone.domain.errors import UserError
from untildone.domain.run.run import Choice

MESSAGE = "checkpoint: 1\n\nUntildone-Run: r1\nUntildone-Story: 1\nUntildone-Attempt: 1\n"
WORK = "refs/ralph/work/demo"


class PowerCut(Exception):
    """The process ends here."""


class FrailGit(Git):
    """Dies when our own ref is about to move; all before that has happened."""

    frail = False
    before_our_ref: Callable[[], object] = staticmethod(lambda: None)

    def update_refs(
        self, updates: Sequence[RefUpdate], why: str, *, create_reflog: bool = False
    ) -> None:
        """Move refs, or die."""
        if self.frail and any(name == WORK for name, _, _ in updates):
            raise PowerCut
        if any(name == WORK for name, _, _ in updates):
            self.before_our_ref()
        super().update_refs(updates, why, create_reflog=create_reflog)


def opened(repo: Worktree) -> tuple[StashCheckpoint, FrailGit, str]:
    """A stash run over a dirty tree with one entry, its agent about to start."""
    repo.write("a.txt", "dirty\n")
    repo.folder.make()
    exclude_own_files(repo.place)
    checkpoint, git = again(repo)
    start = checkpoint.open(repo.origin, "T0").checkpoint
    checkpoint.ensure_at(start, "1")
    return checkpoint, git, start


def again(repo: Worktree) -> tuple[StashCheckpoint, FrailGit]:
    """The checkpoint as a new process makes it."""
    git = FrailGit(repo.processes, repo.top)
    return StashCheckpoint(git, repo.place, repo.folder.path, "demo", repo.origin), git


def test_a_crash_before_the_last_step_of_saving_is_saved_again(repo: Worktree) -> None:
    checkpoint, git, start = opened(repo)
    origin = repo.origin
    repo.sh("checkout", "-q", "-b", "diverged")
    repo.write("b.txt", "work\n")
    repo.sh("add", "-A")
    git.frail = True
    with pytest.raises(PowerCut):
        checkpoint.save(0, start, MESSAGE, only_changes=False)
    assert repo.origin == origin
    checkpoint, _ = again(repo)
    assert checkpoint.saved_as(start, "1", 1) == ""
    saved = checkpoint.save(0, start, MESSAGE, only_changes=False)
    assert repo.tree(saved.commit) == {"a.txt": "dirty", "b.txt": "work"}
    assert repo.sh("stash", "list") == ""
    assert repo.sh("status", "--porcelain") == " M a.txt\n?? b.txt"
    checkpoint.ensure_at(saved.checkpoint, "2")


def test_a_crash_in_mid_put_back_keeps_the_entry_at_the_end(repo: Worktree) -> None:
    checkpoint, git, start = opened(repo)
    repo.write("a.txt", "broken\n")
    git.frail = True
    with pytest.raises(PowerCut):
        checkpoint.revert(0, start, "1", 1)
    checkpoint, _ = again(repo)
    (remark,) = checkpoint.close(Choice.KEEP, repo.origin)
    assert "stash entry is kept" in remark
    assert repo.sh("stash", "list", "--format=%gs") == "On feature/x: ralph:demo:1"
    checkpoint.revert(0, start, "1", 1)
    assert repo.files()["a.txt"] == "dirty\n"
    checkpoint.close(Choice.KEEP, repo.origin)
    assert repo.sh("stash", "list") == ""


def test_going_on_with_unmerged_files_is_refused(repo: Worktree) -> None:
    checkpoint, _, start = opened(repo)
    blob = repo.sh("rev-parse", "HEAD:a.txt")
    rows = "".join(f"100644 {blob} {stage}\ta.txt\n" for stage in (1, 2, 3))
    repo.sh("rm", "-q", "--cached", "a.txt")
    repo.sh("update-index", "--index-info", stdin=rows)
    with pytest.raises(UserError, match="unmerged") as caught:
        checkpoint.adopt(start)
    assert "git add" in caught.value.hint


def test_a_crash_after_the_ref_has_moved_drops_the_entry_later(repo: Worktree) -> None:
    checkpoint, _, start = opened(repo)
    entry = repo.sh("rev-parse", "refs/stash")
    repo.write("b.txt", "work\n")
    saved = checkpoint.save(0, start, MESSAGE, only_changes=False)
    # Git moves refs before it deletes others: a kill may have come in between.
    repo.sh("stash", "store", "-m", "On feature/x: ralph:demo:1", entry)
    checkpoint, _ = again(repo)
    assert checkpoint.saved_as(start, "1", 1) == saved.commit
    assert repo.sh("stash", "list") == ""


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
def test_the_users_own_entries_stay(repo: Worktree, *, packed: bool) -> None:
    repo.write("a.txt", "for later\n")
    repo.sh("stash", "push", "-q", "-m", "mine")
    checkpoint, _, start = opened(repo)
    if packed:
        repo.sh("pack-refs", "--all")
    repo.write("b.txt", "work\n")
    checkpoint.save(0, start, MESSAGE, only_changes=False)
    # Ours may have to be moved once more, and another comes in then, too.
    assert {*repo.sh("stash", "list", "--format=%gs").splitlines()} == {"On feature/x: mine"}
    assert repo.sh("for-each-ref", "--format=%(objectname)", "refs/ralph/stash") == repo.sh(
        "rev-parse", "refs/stash"
    )


def test_an_entry_that_comes_in_the_same_instant_stays(repo: Worktree) -> None:
    checkpoint, git, start = opened(repo)
    repo.write("b.txt", "work\n")
    git.before_our_ref = lambda: repo.sh(
        "stash", "store", "-m", "On feature/x: mine", repo.sh("stash", "create")
    )
    checkpoint.save(0, start, MESSAGE, only_changes=False)
    assert repo.sh("stash", "list", "--format=%gs") == "On feature/x: mine"


def test_an_ordinary_story_costs_three_git_processes(
    repo: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, _, start = opened(repo)
    repo.write("b.txt", "work\n")
    first = checkpoint.save(0, start, MESSAGE, only_changes=False)
    asked: list[str] = []
    ask = Git.ask

    def noted(self: Git, *args: str, **more: Any) -> object:
        asked.append(args[0])
        return ask(self, *args, **more)

    monkeypatch.setattr(Git, "ask", noted)
    checkpoint.ensure_at(first.checkpoint, "2")
    repo.write("c.txt", "more\n")
    checkpoint.commits(first.checkpoint)
    assert checkpoint.diverged(first.checkpoint) == ""
    checkpoint.save(0, first.checkpoint, MESSAGE.replace("1", "2"), only_changes=False)
    monkeypatch.undo()
    assert asked == ["update-ref", "add", "update-ref"]
    assert repo.sh("stash", "list") == ""
    repo.sh("fsck", "--strict")


def split_by_git(repo: Worktree, checkpoint: str) -> tuple[list[str], list[str]]:
    """The files of a checkpoint that are staged, and those that are not."""
    staged = set(repo.sh("ls-files").splitlines())
    rows = repo.sh("ls-tree", "-r", checkpoint).splitlines()
    tracked = [row for row in rows if row.partition("\t")[2] in staged]
    return tracked, [row for row in rows if row not in tracked]


@pytest.mark.parametrize("seed", range(4))
def test_entries_hold_tracked_and_new_files_in_every_story(repo: Worktree, seed: int) -> None:
    drawn = random.Random(seed)
    names = ["a.txt", "d/b.txt", "d/e/c.txt", "new.txt", "d/new.txt", "n/m/new.txt", "n/x"]
    repo.write("d/b.txt", "b\n")
    repo.write("d/e/c.txt", "c\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-qm", "more")
    checkpoint, _, last = opened(repo)
    for k in range(2, 9):
        for name in drawn.sample(names, 3):
            if drawn.random() < 0.4:
                (repo.top / name).unlink(missing_ok=True)
            else:
                repo.write(name, f"{k}\n")
        message = MESSAGE.replace("Story: 1", f"Story: {k - 1}")
        last = checkpoint.save(0, last, message, only_changes=True).checkpoint
        if drawn.random() < 0.3:
            repo.sh("reflog", "expire", "--expire=now", "--all")
            repo.sh("gc", "-q", "--prune=now")
        checkpoint.ensure_at(last, str(k))
        tracked, new = split_by_git(repo, last)
        assert repo.sh("ls-tree", "-r", "stash@{0}").splitlines() == tracked
        if new:
            assert repo.sh("ls-tree", "-r", "stash@{0}^3").splitlines() == new
        assert len(repo.sh("rev-list", "--parents", "-n1", "stash@{0}").split()) == 3 + bool(new)
        repo.sh("fsck", "--strict")
