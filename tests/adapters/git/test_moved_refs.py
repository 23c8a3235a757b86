"""A ref that we move ourselves: the same files as git leaves, or git does it."""

import re
from pathlib import Path

import pytest

from tests.adapters.worktree import Worktree, made
from untildone.adapters.git.git import Git
from untildone.domain.errors import StepError

BRANCH = "refs/heads/feature/x"
OWN = "refs/ralph/work/x"
TIME = re.compile(r"> \d+ ")


def git_of(repo: Worktree, *, ours: bool) -> Git:
    git = repo.git()
    git.use_common_dir(repo.place.common_dir)
    git.use_fallback_identity_if_none()
    if ours:
        git.use_git_dir(repo.place.git_dir)
    return git


def commits(repo: Worktree) -> tuple[str, str]:
    old = repo.sh("rev-parse", "HEAD")
    tree = repo.sh("rev-parse", "HEAD^{tree}")
    return old, repo.sh("commit-tree", tree, "-p", old, "-m", "next")


def left(repo: Worktree, name: str) -> dict[str, str]:
    """The ref and the logs, without the times."""
    folder = repo.place.git_dir
    files = {path: folder / path for path in (name, f"logs/{name}", "logs/HEAD")}
    return {
        path: TIME.sub("> T ", file.read_text()) for path, file in files.items() if file.exists()
    }


@pytest.mark.parametrize("name", [BRANCH, OWN])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_it_leaves_what_git_leaves(tmp_path: Path, name: str, elsewhere: bool) -> None:
    found = []
    for ours in (True, False):
        repo = made(tmp_path / str(ours))
        if elsewhere:
            repo.sh("checkout", "-q", "--detach")
        old, _ = commits(repo)
        repo.sh("update-ref", OWN, old)
        repo.sh("commit", "-q", "--allow-empty", "-m", "one")
        new = repo.sh("rev-parse", "HEAD")
        repo.sh("update-ref", name, old)
        git_of(repo, ours=ours).update_refs([(name, new, old)], "checkpoint:  1\tand\n more")
        assert repo.sh("rev-parse", name) == new
        assert repo.sh("fsck", "--no-dangling") == ""
        hidden = {old: "OLD", new: "NEW"}
        shown = left(repo, name)
        for value, word in hidden.items():
            shown = {path: text.replace(value, word) for path, text in shown.items()}
        found.append({path: text.splitlines()[-1] for path, text in shown.items()})
    assert found[0] == found[1]


def test_no_process_is_started(repo: Worktree) -> None:
    old, new = commits(repo)
    git = git_of(repo, ours=True)
    git.config("user.name")  # asked once
    git._program = "/nonexistent"
    git.update_refs([(BRANCH, new, old)], "checkpoint: 1")
    assert repo.sh("rev-parse", BRANCH) == new
    assert not list(repo.place.git_dir.rglob("*.lock"))


def test_what_is_packed_is_for_git(repo: Worktree) -> None:
    old, new = commits(repo)
    repo.sh("pack-refs", "--all")
    git_of(repo, ours=True).update_refs([(BRANCH, new, old)], "checkpoint: 1")
    assert repo.sh("rev-parse", BRANCH) == new


def test_a_link_in_the_place_of_the_ref_is_not_written_through(repo: Worktree) -> None:
    old, new = commits(repo)
    target = repo.top / "mine.txt"
    target.write_text(f"{old}\n")
    ref = repo.place.git_dir / BRANCH
    ref.unlink()
    ref.symlink_to(target)
    git_of(repo, ours=True).update_refs([(BRANCH, new, old)], "checkpoint: 1")
    assert target.read_text() == f"{old}\n"
    assert repo.sh("rev-parse", BRANCH) == new


def test_a_ref_that_moved_meanwhile_stays(repo: Worktree) -> None:
    old, new = commits(repo)
    other = repo.sh("commit-tree", "HEAD^{tree}", "-m", "other")
    repo.sh("update-ref", BRANCH, other)
    with pytest.raises(StepError):
        git_of(repo, ours=True).update_refs([(BRANCH, new, old)], "checkpoint: 1")
    assert repo.sh("rev-parse", BRANCH) == other
    assert not list(repo.place.git_dir.rglob("*.lock"))


def test_a_lock_of_somebody_else_is_respected(repo: Worktree) -> None:
    old, new = commits(repo)
    lock = repo.place.git_dir / f"{BRANCH}.lock"
    lock.touch()
    with pytest.raises(StepError):
        git_of(repo, ours=True).update_refs([(BRANCH, new, old)], "checkpoint: 1")
    assert (repo.sh("rev-parse", BRANCH), lock.exists()) == (old, True)


def test_a_ref_of_ours_comes_and_goes_without_a_process(repo: Worktree) -> None:
    old, new = commits(repo)
    git = git_of(repo, ours=True)
    git.config("user.name")
    git._program = "/nonexistent"
    git.update_refs([("refs/ralph/attempts/x/1.2/1", old, "")], "store")
    assert repo.sh("rev-parse", "refs/ralph/attempts/x/1.2/1") == old
    git.update_refs([("refs/ralph/attempts/x/1.2/1", new, None)], "store")
    assert repo.sh("rev-parse", "refs/ralph/attempts/x/1.2/1") == new
    git.update_refs([("refs/ralph/attempts/x/1.2/1", "", new)], "forget")
    assert repo.sh("for-each-ref", "refs/ralph/attempts") == ""
    assert not (repo.place.git_dir / "refs/ralph/attempts").exists()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["refs/ralph/attempts/x", "refs/ralph/attempts/x/1/2"])
def test_a_ref_that_bars_the_way_is_for_git_to_tell(
    repo: Worktree, name: str, packed: bool
) -> None:
    old, new = commits(repo)
    repo.sh("update-ref", name, old)
    if packed:
        repo.sh("pack-refs", "--all")
    with pytest.raises(StepError):
        git_of(repo, ours=True).update_refs([("refs/ralph/attempts/x/1", new, "")], "store")
    assert repo.sh("for-each-ref", "--format=%(refname)", "refs/ralph/attempts") == name
    assert not list(repo.place.git_dir.rglob("*.lock"))


def test_a_packed_ref_goes_for_good(repo: Worktree) -> None:
    old, new = commits(repo)
    repo.sh("update-ref", OWN, old)
    repo.sh("pack-refs", "--all")
    repo.sh("update-ref", OWN, new)
    git_of(repo, ours=True).update_refs([(OWN, "", new)], "forget")
    assert repo.sh("for-each-ref", OWN) == ""


def test_a_ref_that_moved_meanwhile_is_not_removed(repo: Worktree) -> None:
    old, new = commits(repo)
    repo.sh("update-ref", OWN, new)
    with pytest.raises(StepError):
        git_of(repo, ours=True).update_refs([(OWN, "", old)], "forget")
    assert repo.sh("rev-parse", OWN) == new
    assert not list(repo.place.git_dir.rglob("*.lock"))
