"""Checkpoints on `ralph/demo`, with real git: open, save, go on."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters.worktree import Worktree, shell_git
from untildone.adapters.git.repository import discover
from untildone.domain.errors import StepError, UserError, WorkDiverged
from untildone.domain.run.fact import Opened, Saved
from untildone.domain.run.run import Choice, Origin

MESSAGE = "checkpoint: 1\n\nUntildone-Run: r1\nUntildone-Story: 1\nUntildone-Attempt: 1\n"
BACKUP = "refs/ralph/backup/demo/r1"


def messy(repo: Worktree) -> None:
    """ReplacedIndexes, unstaged, deleted, untracked and ignored, all at once."""
    repo.write(".gitignore", "*.env\n")
    repo.write("gone.txt", "gone\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-q", "-m", "more")
    repo.write("a.txt", "staged\n")
    repo.sh("add", "a.txt")
    repo.write("a.txt", "unstaged\n")
    (repo.top / "gone.txt").unlink()
    repo.write("sub dir/neu-ü.txt", "untracked\n")
    repo.write("secret.env", "KEY=1\n")


def test_open_saves_everything_and_changes_no_file(repo: Worktree) -> None:
    messy(repo)
    origin, before = repo.origin, repo.files()
    status = repo.sh("status", "--porcelain")
    _, opened = repo.open()
    assert opened == Opened(origin, opened.checkpoint, BACKUP)
    assert repo.files() == before
    assert repo.sh("branch", "--show-current") == "ralph/demo"
    assert repo.sh("rev-parse", "feature/x") == origin.commit
    assert repo.sh("status", "--porcelain") == ""
    assert repo.sh("log", "-1", "--format=%s %P", "HEAD") == f"initial state {origin.commit}"
    assert repo.tree("HEAD") == {
        ".gitignore": "*.env",
        "a.txt": "unstaged",
        "sub dir/neu-ü.txt": "untracked",
    }
    assert repo.tree(BACKUP) == repo.tree("HEAD")
    assert repo.tree(f"{BACKUP}^2")["a.txt"] == "staged"
    assert " M" not in status


def test_open_of_a_clean_tree_is_an_empty_commit(repo: Worktree) -> None:
    repo.sh("checkout", "-q", "--detach")
    origin = repo.origin
    _, opened = repo.open()
    assert opened.origin == Origin("", origin.commit)
    assert repo.sh("diff", "--name-only", origin.commit, "HEAD") == ""


def test_an_earlier_branch_is_archived(repo: Worktree) -> None:
    repo.sh("branch", "ralph/demo")
    repo.sh("checkout", "-q", "ralph/demo")
    repo.sh("commit", "-q", "--allow-empty", "-m", "earlier")
    earlier = repo.sh("rev-parse", "HEAD")
    repo.sh("checkout", "-q", "feature/x")
    _, opened = repo.open()
    assert opened.archived_ref == "refs/ralph/archive/demo/T0"
    assert repo.sh("rev-parse", "refs/ralph/archive/demo/T0") == earlier


def test_an_earlier_branch_without_commits_is_not(repo: Worktree) -> None:
    repo.sh("branch", "ralph/demo")
    assert repo.open()[1].archived_ref == ""


def test_the_users_nested_repositories_are_left_out(repo: Worktree) -> None:
    for name, commits in (("empty", False), ("full", True)):
        nested = repo.write(f"{name}/x.txt", "x\n").parent
        shell_git(nested, "init", "-q")
        if commits:
            shell_git(nested, "add", "-A")
            shell_git(nested, "commit", "-q", "-m", "x")
    _, opened = repo.open()
    assert sorted(opened.remarks) == [
        "A nested git repository is left out of the run: empty",
        "A nested git repository is left out of the run: full",
    ]
    assert repo.tree("HEAD") == {"a.txt": "a"}


def test_files_that_git_cannot_record_are_refused(repo: Worktree) -> None:
    repo.write("a.txt", "x\n")
    repo.write(".gitattributes", "* filter=broken\n")
    repo.sh("config", "filter.broken.clean", "false")
    repo.sh("config", "filter.broken.required", "true")
    with pytest.raises(UserError, match="Git cannot record the files as they are"):
        repo.open()
    assert repo.sh("branch", "--show-current") == "feature/x"


def test_save_takes_all_work(repo: Worktree) -> None:
    messy(repo)
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    repo.write("new file.txt", "new\n")
    repo.write("other.env", "KEY=2\n")
    (repo.top / "a.txt").unlink()
    saved = checkpoint.save(0, opened.checkpoint, MESSAGE, only_changes=False)
    tree = repo.sh("rev-parse", "HEAD^{tree}")
    paths = ("a.txt", "new file.txt")
    assert saved == Saved(0, repo.sh("rev-parse", "HEAD"), saved.commit, tree=tree, paths=paths)
    assert checkpoint.had(opened.checkpoint, paths) == ("a.txt",)
    assert checkpoint.had(opened.checkpoint, ()) == ()
    assert repo.sh("log", "-1", "--format=%B") == MESSAGE
    assert set(repo.tree("HEAD")) == {".gitignore", "new file.txt", "sub dir/neu-ü.txt"}
    assert repo.sh("status", "--porcelain") == ""
    assert (repo.top / "other.env").exists()


def test_save_of_nothing(repo: Worktree) -> None:
    checkpoint, opened = repo.open()
    base = opened.checkpoint
    tree = repo.sh("rev-parse", "HEAD^{tree}")
    saved = checkpoint.save(0, base, MESSAGE, only_changes=True)
    assert saved == Saved(0, "", base, tree=tree)
    saved = checkpoint.save(0, base, MESSAGE, only_changes=False)
    assert (saved.checkpoint, saved.commit != base) == (repo.sh("rev-parse", "HEAD"), True)


def test_the_agents_commits_stay_below_ours(repo: Worktree) -> None:
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    assert checkpoint.commits(opened.checkpoint) == ()
    repo.write("b.txt", "b\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-q", "-m", "agent")
    own = repo.sh("rev-parse", "HEAD")
    assert checkpoint.commits(opened.checkpoint) == (own,)
    saved = checkpoint.save(0, opened.checkpoint, MESSAGE, only_changes=True)
    tree = repo.sh("rev-parse", f"{own}^{{tree}}")
    assert saved == Saved(0, "", own, tree=tree, paths=("b.txt",))
    repo.write("c.txt", "c\n")
    again = checkpoint.save(0, own, MESSAGE, only_changes=True)
    assert repo.sh("rev-parse", f"{again.commit}^") == own


def test_work_on_another_branch_is_brought_home(repo: Worktree) -> None:
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    repo.sh("checkout", "-q", "-b", "elsewhere")
    repo.write("b.txt", "b\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-q", "-m", "agent")
    own = repo.sh("rev-parse", "HEAD")
    assert checkpoint.commits(opened.checkpoint) == (own,)
    saved = checkpoint.save(0, opened.checkpoint, MESSAGE, only_changes=False)
    assert repo.sh("branch", "--show-current") == "ralph/demo"
    assert repo.sh("rev-parse", f"{saved.commit}^") == own


def test_an_amended_checkpoint_stays_an_ancestor(repo: Worktree) -> None:
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    repo.write("b.txt", "b\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-q", "--amend", "-m", "mine now")
    amended = repo.sh("rev-parse", "HEAD")
    saved = checkpoint.save(0, opened.checkpoint, MESSAGE, only_changes=False)
    assert repo.sh("rev-parse", f"{saved.commit}^") == opened.checkpoint
    assert repo.tree(saved.commit)["b.txt"] == "b"
    assert repo.sh("rev-parse", f"refs/ralph/moved/demo/{amended[:16]}") == amended


def test_standing_elsewhere_is_refused(repo: Worktree) -> None:
    checkpoint, opened = repo.open()
    repo.sh("checkout", "-q", "feature/x")
    with pytest.raises(StepError, match="HEAD is on `feature/x`"):
        checkpoint.ensure_at(opened.checkpoint, "1")
    repo.sh("checkout", "-q", "--detach")
    with pytest.raises(StepError, match="HEAD is on `a bare commit`"):
        checkpoint.ensure_at(opened.checkpoint, "1")


def test_after_a_crash_while_opening(repo: Worktree) -> None:
    repo.folder.make()
    origin = repo.origin
    assert repo.checkpoint().reopened(origin) is None
    _, opened = repo.open()
    assert repo.checkpoint().reopened(origin) == opened
    repo.sh("checkout", "-q", "feature/x")
    assert repo.checkpoint().reopened(origin) is None


def test_after_a_crash_while_saving(repo: Worktree) -> None:
    checkpoint, opened = repo.open()
    base = opened.checkpoint
    assert repo.checkpoint().saved_as(base, "1", 1) == ""
    commit = checkpoint.save(0, base, MESSAGE, only_changes=False).commit
    ours = repo.checkpoint()
    assert ours.saved_as(base, "1", 1) == commit
    assert (ours.saved_as(base, "1", 2), ours.saved_as(base, "2", 1)) == ("", "")


@pytest.mark.parametrize("moved_on", [False, True])
def test_head_follows_a_commit_that_a_kill_kept_it_from(repo: Worktree, moved_on: bool) -> None:
    checkpoint, opened = repo.open()
    base = opened.checkpoint
    repo.write("work.txt", "x\n")
    commit = checkpoint.save(0, base, MESSAGE, only_changes=False).commit
    # As an agent had left it that detached HEAD, or as the user who went elsewhere since.
    (repo.top / ".git/HEAD").write_text(f"{base}\n")
    if moved_on:
        repo.sh("checkout", "-q", "-f", "feature/x")
    assert repo.checkpoint().saved_as(base, "1", 1) == commit
    assert repo.sh("branch", "--show-current") == ("feature/x" if moved_on else "ralph/demo")
    if not moved_on:
        assert repo.checkpoint().adopt(commit) == (commit, ())


def test_edits_by_hand_are_adopted(repo: Worktree) -> None:
    _, opened = repo.open()
    base = opened.checkpoint
    assert repo.checkpoint().adopt(base) == (base, ())
    repo.write("by hand.txt", "x\n")
    tip, remarks = repo.checkpoint().adopt(base)
    assert remarks == ("Edits by hand on `ralph/demo` are kept",)
    assert (repo.sh("rev-parse", "HEAD"), set(repo.tree(tip))) == (tip, {"a.txt", "by hand.txt"})
    assert repo.checkpoint().adopt(base) == (tip, remarks)


def test_adopt_comes_back_from_another_branch(repo: Worktree) -> None:
    _, opened = repo.open()
    repo.sh("checkout", "-q", "feature/x")
    assert repo.checkpoint().adopt(opened.checkpoint) == (opened.checkpoint, ())
    assert repo.sh("branch", "--show-current") == "ralph/demo"


def test_adopt_refuses(repo: Worktree) -> None:
    _, opened = repo.open()
    repo.sh("checkout", "-q", "--detach", "feature/x")
    repo.write("a.txt", "edited\n")
    with pytest.raises(UserError, match="uncommitted changes on `a bare commit`"):
        repo.checkpoint().adopt(opened.checkpoint)
    repo.sh("checkout", "-q", "-f", "feature/x")
    repo.sh("branch", "-q", "-f", "ralph/demo", "feature/x")
    with pytest.raises(UserError, match="does not contain the last checkpoint"):
        repo.checkpoint().adopt(opened.checkpoint)
    repo.sh("checkout", "-q", "feature/x")
    repo.sh("branch", "-q", "-D", "ralph/demo")
    with pytest.raises(UserError, match="`ralph/demo` is gone"):
        repo.checkpoint().adopt(opened.checkpoint)


def test_keep_changes_nothing(repo: Worktree) -> None:
    checkpoint, opened = repo.open()
    assert checkpoint.close(Choice.KEEP, opened.origin) == ()
    assert repo.sh("branch", "--show-current") == "ralph/demo"


def test_a_tracked_state_file_is_neither_saved_nor_put_back(repo: Worktree) -> None:
    repo.write(".claude/loop-state.json", "{}\n")
    repo.sh("add", "-f", "-A")
    repo.sh("commit", "-q", "-m", "tracked")
    checkpoint, opened = repo.open()
    repo.write(".claude/loop-state.json", '{"status": "running"}\n')
    saved = checkpoint.save(0, opened.checkpoint, MESSAGE, only_changes=False)
    assert repo.tree(saved.commit)[".claude/loop-state.json"] == "{}"


def test_a_linked_worktree_has_its_own_run(repo: Worktree, tmp_path: Path) -> None:
    repo.sh("worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    other = Worktree(
        tmp_path / "other", repo.processes, discover(repo.processes, tmp_path / "other")
    )
    checkpoint, opened = other.open()
    other.write("b.txt", "b\n")
    checkpoint.save(0, opened.checkpoint, MESSAGE, only_changes=False)
    assert other.sh("branch", "--show-current") == "ralph/demo"
    assert repo.files() == {"a.txt": "a\n"}
    assert repo.sh("branch", "--show-current") == "feature/x"


def _to_the_origin(repo: Worktree) -> None:
    repo.sh("checkout", "-q", "-b", "side", "feature/x")
    repo.write("side.txt", "side\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-q", "-m", "side")


def _open_conflict(repo: Worktree) -> None:
    repo.sh("checkout", "-q", "-b", "left")
    repo.write("a.txt", "left\n")
    repo.sh("commit", "-q", "-am", "left")
    repo.sh("checkout", "-q", "ralph/demo")
    repo.write("a.txt", "right\n")
    repo.sh("commit", "-q", "-am", "right")
    with pytest.raises(subprocess.CalledProcessError):
        repo.sh("merge", "-q", "left")


ASTRAY: dict[str, tuple[Callable[[Worktree], None], str]] = {
    "from the original branch": (_to_the_origin, "does not build on the branch `ralph/demo`"),
    "half merged": (_open_conflict, "left open with conflicts"),
}


@pytest.mark.parametrize("name", ASTRAY)
def test_work_astray_is_not_saved(name: str, repo: Worktree) -> None:
    act, message = ASTRAY[name]
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    repo.write("first.txt", "first\n")
    base = checkpoint.save(0, opened.checkpoint, MESSAGE, only_changes=False).checkpoint
    checkpoint.ensure_at(base, "1")
    act(repo)
    with pytest.raises(WorkDiverged, match=message):
        checkpoint.save(0, base, "checkpoint: 2\n", only_changes=False)
    checkpoint.revert(0, base, "2", 1)
    assert repo.origin == Origin("ralph/demo", base)
    assert repo.files()["first.txt"] == "first\n"


def test_work_beside_the_initial_state_does_not_lose_it(repo: Worktree) -> None:
    repo.write("mine.txt", "not committed yet\n")
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    _to_the_origin(repo)
    with pytest.raises(WorkDiverged):
        checkpoint.save(0, opened.checkpoint, MESSAGE, only_changes=False)


def test_an_amended_checkpoint_is_not_astray(repo: Worktree) -> None:
    checkpoint, opened = repo.open()
    checkpoint.ensure_at(opened.checkpoint, "1")
    repo.write("mine.txt", "mine\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-q", "--amend", "-m", "rewritten")
    saved = checkpoint.save(0, opened.checkpoint, "checkpoint: 1\n", only_changes=False)
    assert repo.tree(saved.commit)["mine.txt"] == "mine"
