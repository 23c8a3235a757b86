"""The end of a run, with real git: cleanup, restore, an attempt brought back."""

import shutil
from pathlib import Path

import pytest

from tests.adapters.worktree import Worktree
from untildone.adapters.checkpoints.branch import BranchCheckpoint
from untildone.adapters.checkpoints.finish import Closing
from untildone.adapters.git.git import Git
from untildone.adapters.process.process import Captured
from untildone.domain.errors import CloseRefused, StepError, UserError
from untildone.domain.run.fact import Opened
from untildone.domain.run.run import Choice, Origin

MESSAGE = "checkpoint: 1\n"
BACKUP = "refs/ralph/backup/demo/r1"


def worked(repo: Worktree) -> tuple[BranchCheckpoint, Opened]:
    """A run that changed one file and made another; the user had something staged."""
    repo.write("staged.txt", "staged\n")
    repo.sh("add", "staged.txt")
    repo.write("untracked.txt", "untracked\n")
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    repo.write("a.txt", "changed\n")
    repo.write("new.txt", "new\n")
    checkpoint.save(0, opened.checkpoint, MESSAGE, only_changes=False)
    return checkpoint, opened


def test_cleanup_leaves_the_work_uncommitted(repo: Worktree) -> None:
    checkpoint, opened = worked(repo)
    tip, files = repo.sh("rev-parse", "HEAD"), repo.files()
    (note,) = checkpoint.close(Choice.CLEANUP, opened.origin)
    assert note == "The run's commits are stored as: refs/ralph/archive/demo/C1"
    assert repo.origin == opened.origin
    assert repo.files() == files
    assert sorted(repo.sh("status", "--porcelain").splitlines()) == [
        *(" M a.txt", "?? new.txt", "?? untracked.txt", "A  staged.txt"),
    ]
    assert repo.sh("for-each-ref", "refs/heads/ralph") == ""
    assert repo.sh("rev-parse", "refs/ralph/archive/demo/C1") == tip


def test_cleanup_takes_uncommitted_work_along(repo: Worktree) -> None:
    checkpoint, opened = worked(repo)
    repo.write("late.txt", "late\n")
    checkpoint.close(Choice.CLEANUP, opened.origin)
    assert "?? late.txt" in repo.sh("status", "--porcelain")
    assert repo.tree("refs/ralph/archive/demo/C1")["late.txt"] == "late"


def test_cleanup_of_a_detached_start(repo: Worktree) -> None:
    repo.sh("checkout", "-q", "--detach")
    checkpoint, opened = worked(repo)
    checkpoint.close(Choice.CLEANUP, opened.origin)
    assert repo.origin == Origin("", opened.origin.commit)


def moved(repo: Worktree, name: str, text: str) -> str:
    """Somebody commits to the original branch in the meantime."""
    blob = repo.sh("hash-object", "-w", "--stdin", stdin=text)
    listed = repo.sh("ls-tree", "feature/x").splitlines()
    rows = [row for row in listed if not row.endswith(f"\t{name}")]
    tree = repo.sh("mktree", stdin="\n".join([*rows, f"100644 blob {blob}\t{name}"]) + "\n")
    commit = repo.sh("commit-tree", tree, "-p", "feature/x", "-m", "moved")
    repo.sh("update-ref", "refs/heads/feature/x", commit)
    return commit


def test_cleanup_onto_a_moved_branch(repo: Worktree) -> None:
    checkpoint, opened = worked(repo)
    commit = moved(repo, "theirs.txt", "theirs\n")
    checkpoint.close(Choice.CLEANUP, opened.origin)
    assert repo.origin == Origin("feature/x", commit)
    assert repo.files()["theirs.txt"] == "theirs\n"
    assert sorted(repo.sh("status", "--porcelain").splitlines()) == [
        *(" M a.txt", "?? new.txt", "?? untracked.txt", "A  staged.txt"),
    ]


def test_cleanup_onto_a_branch_that_has_the_same_already(repo: Worktree) -> None:
    checkpoint, opened = worked(repo)
    moved(repo, "a.txt", "changed\n")
    checkpoint.close(Choice.CLEANUP, opened.origin)
    assert " M a.txt" not in repo.sh("status", "--porcelain")


def refused(repo: Worktree, checkpoint: BranchCheckpoint, origin: Origin) -> str:
    """The refusal's message; nothing may have changed."""
    before = repo.files(), repo.sh("status", "--porcelain"), repo.sh("for-each-ref"), repo.origin
    with pytest.raises(CloseRefused) as caught:
        checkpoint.close(Choice.CLEANUP, origin)
    after = repo.files(), repo.sh("status", "--porcelain"), repo.sh("for-each-ref"), repo.origin
    assert after == before
    assert caught.value.state == "Nothing was changed and `ralph/demo` is kept."
    assert caught.value.hint
    return caught.value.message


def test_cleanup_refuses_a_conflict(repo: Worktree) -> None:
    checkpoint, opened = worked(repo)
    moved(repo, "a.txt", "theirs\n")
    message = refused(repo, checkpoint, opened.origin)
    assert message == "The original branch has moved and conflicts in: a.txt"


def test_cleanup_refuses_to_overwrite_ignored_files(repo: Worktree) -> None:
    repo.write(".gitignore", "*.env\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-q", "-m", "ignore")
    repo.write("x.env", "mine\n")
    checkpoint, opened = worked(repo)
    commit = moved(repo, "x.env", "theirs\n")
    message = refused(repo, checkpoint, opened.origin)
    assert message == "The moved original branch would overwrite ignored files: x.env"
    (repo.top / "x.env").rename(repo.top / "mine.env")
    checkpoint.close(Choice.CLEANUP, opened.origin)
    assert repo.origin == Origin("feature/x", commit)
    assert (repo.files()["x.env"], repo.files()["mine.env"]) == ("theirs\n", "mine\n")


class NoCheckout(Git):
    """A file changes in the last moment, so git refuses to touch the tree."""

    def checkout_tree(self, tree: str, index: Path | None = None) -> Captured:
        return Captured(128, b"", b"error: Entry 'a.txt' not uptodate. Cannot merge.\n")


def no_checkout(repo: Worktree) -> Closing:
    git = NoCheckout(repo.processes, repo.top, lambda: False)
    return Closing(git, repo.place, "demo", "r1", lambda: "T9")


def test_cleanup_refuses_when_git_does(repo: Worktree) -> None:
    _, opened = worked(repo)
    moved(repo, "theirs.txt", "theirs\n")
    closing = no_checkout(repo)
    checkpoint = BranchCheckpoint(closing.git, repo.place, "demo", closing)
    assert refused(repo, checkpoint, opened.origin) == (
        "The files of the moved original branch do not fit in: "
        "error: Entry 'a.txt' not uptodate. Cannot merge."
    )


def test_restore_stops_when_git_refuses(repo: Worktree) -> None:
    _, opened = worked(repo)
    before = repo.files(), repo.origin
    with pytest.raises(StepError, match=r"`git read-tree` failed: .*not uptodate") as caught:
        no_checkout(repo).restore(opened.origin, BACKUP)
    assert caught.value.state == "What was there is stored under refs/ralph."
    assert (repo.files(), repo.origin) == before
    assert repo.tree("refs/ralph/archive/demo/T9-restore")["new.txt"] == "new"


def test_cleanup_refuses_without_its_branch(repo: Worktree, tmp_path: Path) -> None:
    checkpoint, opened = worked(repo)
    repo.sh("worktree", "add", "-q", str(tmp_path / "w"), "feature/x")
    assert "checked out in another worktree" in refused(repo, checkpoint, opened.origin)
    repo.sh("worktree", "remove", str(tmp_path / "w"))
    repo.sh("branch", "-q", "-D", "feature/x")
    assert refused(repo, checkpoint, opened.origin) == "The original branch is gone: feature/x"


def test_cleanup_refuses_elsewhere(repo: Worktree) -> None:
    checkpoint, opened = worked(repo)
    repo.sh("checkout", "-q", "-b", "mine")
    message = refused(repo, checkpoint, opened.origin)
    assert message == "The worktree is not on `ralph/demo` any more"


def test_cleanup_goes_on_after_a_crash(repo: Worktree) -> None:
    _, opened = worked(repo)
    tip = repo.sh("rev-parse", "HEAD")
    repo.sh("update-ref", "refs/ralph/archive/demo/C1", tip)
    (repo.folder.path / "closing.json").write_text(
        f'{{"archive": "refs/ralph/archive/demo/C1", "tip": "{tip}", "moved": false}}'
    )
    repo.sh("symbolic-ref", "HEAD", "refs/heads/feature/x")
    repo.checkpoint().close(Choice.CLEANUP, opened.origin)
    assert repo.origin == opened.origin
    assert "A  staged.txt" in repo.sh("status", "--porcelain")
    assert repo.sh("for-each-ref", "refs/heads/ralph") == ""


def test_restore_brings_back_exactly_what_was(repo: Worktree) -> None:
    repo.write("staged.txt", "staged\n")
    repo.sh("add", "staged.txt")
    repo.write("staged.txt", "and edited\n")
    repo.write("untracked.txt", "untracked\n")
    before = repo.files(), repo.sh("status", "--porcelain"), repo.origin
    checkpoint, opened = repo.open()
    repo.write("a.txt", "changed\n")
    repo.write("new.txt", "new\n")
    tip = checkpoint.save(0, opened.checkpoint, MESSAGE, only_changes=False).commit
    repo.write("late.txt", "late\n")
    stray = moved(repo, "theirs.txt", "theirs\n")
    stored, theirs, branch = repo.closing().restore(opened.origin, BACKUP)
    assert (repo.files(), repo.sh("status", "--porcelain"), repo.origin) == before
    assert repo.tree(stored)["late.txt"] == "late"
    assert (repo.sh("rev-parse", theirs), repo.sh("rev-parse", branch)) == (stray, tip)
    assert repo.sh("for-each-ref", "refs/heads/ralph") == ""


def test_restore_stores_what_hides_in_the_place_of_a_file(repo: Worktree) -> None:
    repo.write("x.env", "mine\n")
    before = repo.files(), repo.sh("status", "--porcelain"), repo.origin
    _, opened = repo.open()
    repo.write(".gitignore", "*.env\n")
    repo.sh("rm", "-q", "--cached", "x.env")
    repo.write("x.env", "other\n")
    stored, _ = repo.closing().restore(opened.origin, BACKUP)
    assert (repo.files(), repo.sh("status", "--porcelain"), repo.origin) == before
    assert repo.tree(stored) == {".gitignore": "*.env", "a.txt": "a", "x.env": "other"}


def test_restore_moves_ignored_files_of_the_user_aside(repo: Worktree) -> None:
    repo.write("x.env", "mine\n")
    before = repo.files(), repo.sh("status", "--porcelain"), repo.origin
    checkpoint, opened = repo.open()
    (repo.top / "x.env").unlink()
    repo.write(".gitignore", "*.env\n")
    checkpoint.save(0, opened.checkpoint, MESSAGE, only_changes=False)
    repo.write("x.env", "other\n")
    repo.closing().restore(opened.origin, BACKUP)
    assert (repo.files(), repo.sh("status", "--porcelain"), repo.origin) == before
    aside = repo.folder.path / "aside"
    assert {path.name: path.read_text() for path in aside.iterdir()} == {"0000-x.env": "other\n"}


def test_restore_after_cleanup_and_detached(repo: Worktree) -> None:
    repo.sh("checkout", "-q", "--detach")
    before = repo.files(), repo.origin
    checkpoint, opened = repo.open()
    repo.write("new.txt", "new\n")
    checkpoint.save(0, opened.checkpoint, MESSAGE, only_changes=False)
    checkpoint.close(Choice.CLEANUP, opened.origin)
    (repo.folder.path / "index.orig").unlink()
    repo.closing().restore(opened.origin, BACKUP)
    assert (repo.files(), repo.origin) == before
    assert repo.sh("status", "--porcelain") == ""


def test_restore_without_a_backup(repo: Worktree) -> None:
    repo.folder.make()
    with pytest.raises(UserError, match="The backup of this run is gone"):
        repo.closing().restore(repo.origin, BACKUP)


def test_an_attempt_is_brought_back(repo: Worktree) -> None:
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    repo.write("new.txt", "new\n")
    (repo.top / "a.txt").unlink()
    checkpoint.revert(0, opened.checkpoint, "1", 1)
    repo.write("now.txt", "now\n")
    stored = repo.closing().restore_attempt("refs/ralph/attempts/demo/1/1")
    assert repo.files() == {"new.txt": "new\n", "now.txt": "now\n"}
    assert repo.sh("status", "--porcelain").splitlines() == [
        *(" D a.txt", "?? new.txt", "?? now.txt"),
    ]
    assert repo.tree(stored)["now.txt"] == "now"
    with pytest.raises(UserError, match="There is no such attempt: demo/9/9"):
        repo.closing().restore_attempt("refs/ralph/attempts/demo/9/9")


def test_cleanup_does_not_delete_an_ignored_file_in_the_place_of_a_folder(repo: Worktree) -> None:
    repo.write(".gitignore", "cache\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-qm", "ignore")
    repo.write("cache", "mine\n")
    checkpoint, opened = worked(repo)
    blob = repo.sh("hash-object", "-w", "--stdin", stdin="theirs\n")
    sub = repo.sh("mktree", stdin=f"100644 blob {blob}\tx\n")
    rows = repo.sh("ls-tree", "feature/x").splitlines()
    tree = repo.sh("mktree", stdin="\n".join([*rows, f"040000 tree {sub}\tcache"]) + "\n")
    commit = repo.sh("commit-tree", tree, "-p", "feature/x", "-m", "moved")
    repo.sh("update-ref", "refs/heads/feature/x", commit)
    with pytest.raises(CloseRefused, match="cache"):
        checkpoint.close(Choice.CLEANUP, opened.origin)
    assert repo.files().get("cache") == "mine\n"


def test_restore_keeps_an_ignored_file_in_the_place_of_a_folder(repo: Worktree) -> None:
    repo.write("cache/x", "x\n")
    checkpoint, opened = repo.open()
    shutil.rmtree(repo.top / "cache")
    repo.write(".gitignore", "cache\n")
    checkpoint.save(0, opened.checkpoint, MESSAGE, only_changes=False)
    repo.write("cache", "precious\n")
    stored, *_ = repo.closing().restore(opened.origin, BACKUP)
    assert "precious\n" in repo.aside() or "cache" in repo.tree(stored)
