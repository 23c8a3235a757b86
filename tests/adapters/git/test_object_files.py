"""What we read and write in a git folder without git is what git would read and write."""

from pathlib import Path

import pytest

from tests.adapters.worktree import Worktree, made, shell_git
from untildone.adapters.git.git import Git
from untildone.adapters.git.object_files import has_no_refs, ref_in_file
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe

MESSAGE = "Grüße\n\nKey: value\n"


def facts(repo: Worktree, commit: str) -> list[str]:
    form = "--format=%T %P|%an|%ae|%cn|%ce|%B"
    return repo.sh("log", "-1", form, commit).split("|")


@pytest.mark.parametrize("settings", [{}, {"author.name": "Ä"}, {"i18n.commitEncoding": "latin1"}])
def test_a_commit_is_as_git_makes_it(repo: Worktree, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        repo.sh("config", name, value)
    git = repo.git()
    tree, head = git.write_tree(), repo.sh("rev-parse", "HEAD")
    theirs = repo.sh("commit-tree", tree, "-p", head, stdin=MESSAGE)
    git.use_fallback_identity_if_none()
    ours = git.commit_tree(tree, [head], MESSAGE)
    assert facts(repo, ours) == facts(repo, theirs)
    assert git.commit_tree(tree, [head], MESSAGE)  # once more: it may be there already
    repo.sh("fsck", "--strict")


def test_times_are_of_here_and_now(repo: Worktree) -> None:
    git = repo.git()
    git.use_fallback_identity_if_none()
    commit = git.commit_tree(git.write_tree(), [], "x\n")
    theirs = repo.sh("commit-tree", git.write_tree(), stdin="x\n")
    zones = [repo.sh("log", "-1", "--format=%ad", "--date=format:%z", c) for c in (commit, theirs)]
    times = [int(repo.sh("log", "-1", "--format=%at", c)) for c in (commit, theirs)]
    assert zones[0] == zones[1]
    assert abs(times[0] - times[1]) < 60


def test_a_repository_with_longer_names(tmp_path: Path) -> None:
    top = tmp_path / "long"
    top.mkdir()
    shell_git(top, "init", "-q", "--object-format=sha256")
    git = Git(Processes(WakePipe().fd), top)
    git.use_fallback_identity_if_none()
    commit = git.commit_tree(git.line("mktree"), [], "x\n")
    assert len(commit) == 64
    shell_git(top, "update-ref", "refs/heads/x", commit)
    assert git.resolve("refs/heads/x") == commit
    shell_git(top, "fsck", "--strict")


def test_a_store_that_cannot_be_written_is_for_git_to_say(repo: Worktree) -> None:
    git = repo.git()
    git.use_fallback_identity_if_none()
    tree = git.write_tree()
    git.use_common_dir(repo.top / "nowhere")
    assert repo.sh("cat-file", "-t", git.commit_tree(tree, [], "x\n")) == "commit"


def test_refs(repo: Worktree) -> None:
    common, head = repo.place.common_dir, repo.sh("rev-parse", "HEAD")
    assert ref_in_file(common, "refs/heads/feature/x") == head
    assert ref_in_file(common, "refs/heads/none") == ""
    assert ref_in_file(common, "refs/heads/feature") is None
    repo.sh("symbolic-ref", "refs/heads/other", "refs/heads/feature/x")
    assert ref_in_file(common, "refs/heads/other") is None
    assert repo.git().resolve("refs/heads/other") == head
    repo.sh("pack-refs", "--all")
    assert ref_in_file(common, "refs/heads/feature/x") is None
    assert repo.git().resolve("refs/heads/feature/x") == head
    assert ref_in_file(common, "refs/heads/none") == ""
    assert has_no_refs(common, "refs/heads/none")
    assert not has_no_refs(repo.top / "elsewhere", "refs/heads/none")


def test_a_new_worktree_is_found(tmp_path: Path) -> None:
    repo = made(tmp_path)
    repo.sh("worktree", "add", "-q", "../linked", "-b", "linked")
    linked = Git(repo.processes, tmp_path / "linked")
    linked.use_common_dir(repo.place.common_dir)
    assert linked.resolve("refs/heads/linked") == repo.sh("rev-parse", "linked")
