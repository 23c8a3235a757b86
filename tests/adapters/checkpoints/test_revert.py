"""A failed attempt: stored with all it made, then the tree is as it was."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters.worktree import Worktree, shell_git
from untildone.adapters.checkpoints.branch import BranchCheckpoint
from untildone.adapters.checkpoints.failed_attempts import PUT_BACK_TRIES
from untildone.adapters.checkpoints.finish import Closing
from untildone.adapters.git.git import Git
from untildone.adapters.process.process import Captured
from untildone.domain.errors import StepError

REF = "refs/ralph/attempts/demo/1/1"


def prepared(repo: Worktree) -> tuple[BranchCheckpoint, str, dict[str, str]]:
    repo.write(".gitignore", "*.env\ncache/\n")
    repo.write("dir/b.txt", "b\n")
    repo.write("secret.env", "KEY=1\n")
    repo.write("cache/x", "cached\n")
    repo.sh("branch", "other")
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    return checkpoint, opened.checkpoint, repo.files()


def _commit(repo: Worktree) -> None:
    repo.write("new.txt", "new\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-q", "-m", "agent")


def _amend(repo: Worktree) -> None:
    repo.write("new.txt", "new\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-q", "--amend", "-m", "mine")


def _switch(repo: Worktree) -> None:
    repo.sh("checkout", "-q", "-b", "mine")
    _commit(repo)


def _detach(repo: Worktree) -> None:
    repo.sh("checkout", "-q", "--detach")
    _commit(repo)


def _nested(repo: Worktree) -> None:
    nested = repo.write("nested/new.txt", "new\n").parent
    shell_git(nested, "init", "-q")
    shell_git(nested, "add", "-A")
    shell_git(nested, "commit", "-q", "-m", "x")


def _unborn(repo: Worktree) -> None:
    shell_git(repo.write("nested/new.txt", "new\n").parent, "init", "-q")


def _hide(repo: Worktree) -> None:
    repo.write(".gitignore", "*.env\ncache/\nhidden/\n")
    repo.write("hidden/new.txt", "new\n")


def _hide_in_exclude(repo: Worktree) -> None:
    repo.write("nested/.gitignore", "*\n")
    repo.write("nested/new.txt", "new\n")


def _file_for_folder(repo: Worktree) -> None:
    (repo.top / "dir/b.txt").unlink()
    (repo.top / "dir").rmdir()
    repo.write("dir", "now a file\n")


def _folder_for_file(repo: Worktree) -> None:
    (repo.top / "a.txt").unlink()
    repo.write("a.txt/new.txt", "new\n")


def _merge(repo: Worktree) -> None:
    (repo.place.git_dir / "MERGE_HEAD").write_text(repo.sh("rev-parse", "HEAD") + "\n")
    (repo.place.git_dir / "sequencer").mkdir()
    repo.write("new.txt", "new\n")


def _break_index(repo: Worktree) -> None:
    repo.write("new.txt", "new\n")
    (repo.place.git_dir / "index").write_bytes(b"broken")


def _unignore(repo: Worktree) -> None:
    repo.write(".gitignore", "")
    repo.write("new.txt", "new\n")


ATTEMPTS: dict[str, tuple[Callable[[Worktree], object], str]] = {
    "edit": (lambda r: r.write("a.txt", "edited\n"), "a.txt"),
    "delete": (lambda r: (r.top / "a.txt").unlink(), ""),
    "untracked": (lambda r: r.write("new dir/neu-ü.txt", "x\n"), "new dir/neu-ü.txt"),
    "staged": (lambda r: (r.write("new.txt"), r.sh("add", "new.txt")), "new.txt"),
    "mode": (lambda r: os.chmod(r.top / "a.txt", 0o755), "a.txt"),
    "commit": (_commit, "new.txt"),
    "amend": (_amend, "new.txt"),
    "switch": (_switch, "new.txt"),
    "detach": (_detach, "new.txt"),
    "nested": (_nested, "nested/new.txt"),
    "nested without a commit": (_unborn, "nested/new.txt"),
    "hidden": (_hide, "hidden/new.txt"),
    "hidden by a new file": (_hide_in_exclude, "nested/new.txt"),
    "unignored": (_unignore, "new.txt"),
    "file for folder": (_file_for_folder, "dir"),
    "folder for file": (_folder_for_file, "a.txt/new.txt"),
    "half a merge": (_merge, "new.txt"),
    "broken index": (_break_index, "new.txt"),
    "empty folder": (lambda r: (r.top / "empty/deep").mkdir(parents=True), ""),
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_stored_and_put_back(name: str, repo: Worktree) -> None:
    attempt, stored = ATTEMPTS[name]
    checkpoint, base, before = prepared(repo)
    attempt(repo)
    commits = checkpoint.commits(base)
    reverted = checkpoint.revert(0, base, "1", 1)
    assert (reverted.lane, reverted.saved_ref) == (0, REF)
    assert repo.files() == before
    assert repo.origin.branch == "ralph/demo"
    assert repo.origin.commit == base
    assert repo.sh("status", "--porcelain", "--ignored=no") == ""
    saved = repo.attempt("1/1")
    assert not stored or stored in saved
    assert not {"secret.env", "cache/x"} & set(saved)
    reachable = repo.sh("rev-list", REF).splitlines()
    assert set(commits) <= set(reachable)
    assert not [p for p in repo.top.rglob("*") if p.is_dir() and p.name in ("empty", "nested")]
    checkpoint.ensure_at(base, "1")


def test_an_attempt_that_did_nothing(repo: Worktree) -> None:
    checkpoint, base, before = prepared(repo)
    assert checkpoint.revert(0, base, "1", 1).saved_ref == REF
    assert repo.files() == before
    assert repo.sh("rev-parse", f"{REF}^") == base


def test_again_after_a_crash_adds_to_the_attempt(repo: Worktree) -> None:
    checkpoint, base, _ = prepared(repo)
    repo.write("one.txt", "1\n")
    checkpoint.revert(0, base, "1", 1)
    first = repo.sh("rev-parse", REF)
    repo.checkpoint().revert(0, base, "1", 1)
    assert repo.sh("rev-parse", REF) == first
    repo.write("two.txt", "2\n")
    repo.checkpoint().revert(0, base, "1", 1)
    assert {"one.txt", "two.txt"} <= set(repo.attempt("1/1"))
    assert repo.sh("rev-parse", f"{REF}^2") == first


def test_an_attempt_of_an_older_run_makes_room(repo: Worktree) -> None:
    older = repo.sh("commit-tree", "HEAD^{tree}", "-m", "attempt\n\nUntildone-Run: r0\n")
    repo.sh("update-ref", REF, older)
    checkpoint, base, _ = prepared(repo)
    repo.write("one.txt", "1\n")
    checkpoint.revert(0, base, "1", 1)
    assert "one.txt" in repo.attempt("1/1")
    assert repo.sh("rev-parse", f"refs/ralph/archive/demo/1/1-{older[:12]}") == older


def test_nested_repositories_are_moved_aside_whole(repo: Worktree) -> None:
    checkpoint, base, _ = prepared(repo)
    _nested(repo)
    reverted = checkpoint.revert(0, base, "1", 1)
    assert reverted.remarks == ("A nested git repository is kept as plain files: nested",)
    (aside,) = (repo.folder.path / "aside").iterdir()
    assert (aside.name, (aside / ".git").is_dir()) == ("0000-nested", True)


LONG = "/".join(["ж" * 60] * 3)
LABELS = {
    "short": ("sub/nested", "sub__nested"),
    "long": (LONG, "ж" * 14 + "__" + "ж" * 60),
    "cut within a character": (f"{LONG}x", "\udcb6" + "ж" * 13 + "__" + "ж" * 60 + "x"),
}


@pytest.mark.parametrize("name", LABELS)
def test_a_path_of_any_length_is_moved_aside(name: str, repo: Worktree) -> None:
    path, label = LABELS[name]
    checkpoint, base, before = prepared(repo)
    shell_git(repo.write(f"{path}/x.txt", "x\n").parent, "init", "-q")
    checkpoint.revert(0, base, "1", 1)
    assert repo.files() == before
    (aside,) = (repo.folder.path / "aside").iterdir()
    assert (aside.name, (aside / "x.txt").read_text()) == (f"0000-{label}", "x\n")


def test_an_ignored_file_in_the_place_of_a_tracked_one_is_moved_aside(repo: Worktree) -> None:
    checkpoint, base, before = prepared(repo)
    repo.write("dir/old.env", "tracked\n")
    repo.sh("add", "-f", "dir/old.env")
    saved = checkpoint.save(0, base, "checkpoint: 1\n", only_changes=False)
    repo.sh("rm", "-q", "--cached", "dir/old.env")
    repo.write("dir/old.env", "ignored\n")
    checkpoint.ensure_at(saved.checkpoint, "1")
    checkpoint.revert(0, saved.checkpoint, "2", 1)
    assert repo.files() == before | {"dir/old.env": "tracked\n"}
    aside = repo.folder.path / "aside"
    assert [(path.name, path.read_text()) for path in aside.iterdir()] == [
        ("0000-dir__old.env", "ignored\n"),
    ]


class LateWriter(Git):
    """Somebody writes to a file between the snapshot and the put-back, so many times."""

    def __init__(self, repo: Worktree, times: int) -> None:
        super().__init__(repo.processes, repo.top, lambda: False)
        self._repo = repo
        self._times = times
        self.checkouts = 0

    def checkout_tree(self, tree: str, index: Path | None = None) -> Captured:
        self.checkouts += 1
        if self.checkouts <= self._times:
            self._repo.write("a.txt", f"late {self.checkouts}\n")
        return super().checkout_tree(tree, index)


def late(repo: Worktree, times: int) -> tuple[LateWriter, BranchCheckpoint]:
    git = LateWriter(repo, times)
    closing = Closing(git, repo.place, "demo", "r1", lambda: "T9")
    return git, BranchCheckpoint(git, repo.place, "demo", closing)


def test_a_file_that_changes_after_the_snapshot_is_stored_too(repo: Worktree) -> None:
    _, base, before = prepared(repo)
    git, checkpoint = late(repo, 2)
    repo.write("a.txt", "attempt\n")
    assert checkpoint.revert(0, base, "1", 1).saved_ref == REF
    assert (repo.files(), git.checkouts) == (before, 3)
    steps = [f"{REF}~0", f"{REF}^2", f"{REF}^2^2"]
    assert [repo.tree(step)["a.txt"] for step in steps] == ["late 2", "late 1", "attempt"]


def test_a_file_that_never_comes_to_rest_is_an_error(repo: Worktree) -> None:
    _, base, _ = prepared(repo)
    git, checkpoint = late(repo, 99)
    repo.write("a.txt", "attempt\n")
    with pytest.raises(StepError, match=r"`git read-tree` failed: .*a\.txt"):
        checkpoint.revert(0, base, "1", 1)
    assert (git.checkouts, repo.files()["a.txt"]) == (PUT_BACK_TRIES, "late 3\n")
    assert repo.attempt("1/1")["a.txt"] == "late 2"


def test_ignored_files_of_the_user_survive_new_rules(repo: Worktree) -> None:
    checkpoint, base, _ = prepared(repo)
    repo.write(".gitignore", "")
    saved = checkpoint.save(0, base, "checkpoint: 1\n", only_changes=False)
    assert not {"secret.env", "cache/x"} & set(repo.tree(saved.commit))
    repo.write("x.txt", "x\n")
    checkpoint.revert(0, saved.commit, "2", 1)
    assert (repo.top / "secret.env").read_text() == "KEY=1\n"
    assert (repo.top / "cache/x").read_text() == "cached\n"


def test_a_lock_that_goes_away_is_waited_for(repo: Worktree) -> None:
    checkpoint, base, before = prepared(repo)
    repo.write("x.txt", "x\n")
    lock = repo.place.git_dir / "index.lock"
    lock.touch()
    shell_git(repo.top, "config", "alias.later", f"!(sleep 0.1; rm {lock}) >&2 2>/dev/null &")
    repo.sh("later")
    checkpoint.revert(0, base, "1", 1)
    assert (repo.files(), lock.exists()) == (before, False)
    assert not (repo.folder.path / "aside").exists()


@pytest.mark.slow
def test_a_stale_lock_is_moved_aside(repo: Worktree) -> None:
    checkpoint, base, before = prepared(repo)
    repo.write("x.txt", "x\n")
    (repo.place.git_dir / "index.lock").write_text("stale")
    checkpoint.revert(0, base, "1", 1)
    assert repo.files() == before
    assert (repo.folder.path / "aside" / "0000-index.lock").read_text() == "stale"


def test_revert_keeps_an_ignored_file_in_the_place_of_a_tracked_folder(repo: Worktree) -> None:
    repo.write(".gitignore", "dir.env\n")
    repo.write("dir.env/t.txt", "t\n")
    repo.sh("add", "-A")
    repo.sh("add", "-f", "dir.env/t.txt")
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    shutil.rmtree(repo.top / "dir.env")
    repo.write("dir.env", "precious\n")
    checkpoint.revert(0, opened.checkpoint, "1", 1)
    assert "precious\n" in repo.aside() or "dir.env" in repo.attempt("1/1")
