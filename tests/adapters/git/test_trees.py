"""Trees that are compared and made without git are those that git has."""

import random

import pytest

from tests.adapters.worktree import Worktree
from untildone.adapters.git.git import Git
from untildone.adapters.git.trees import Trees, UnlikeTree
from untildone.domain.errors import StepError

NAMES = ("a", "b", "b.txt", "b-", "ü", "d", "e")


def drawn_tree(repo: Worktree, drawn: random.Random) -> str:
    """A tree with files, links, programs and folders, some in the place of one another."""
    paths: list[str] = []
    for _ in range(drawn.randint(0, 12)):
        path = "/".join(drawn.choices(NAMES, k=drawn.randint(1, 3)))
        if not any(
            path == p or path.startswith(f"{p}/") or p.startswith(f"{path}/") for p in paths
        ):
            paths.append(path)
    rows = ""
    for path in paths:
        blob = repo.sh("hash-object", "-w", "--stdin", stdin=drawn.choice("xyz"))
        rows += f"{drawn.choice(('100644', '100755', '120000'))} {blob}\t{path}\0"
    repo.sh("read-tree", "--empty")
    repo.sh("update-index", "-z", "--index-info", stdin=rows)
    return repo.sh("write-tree")


def shown(git: Git, old: str, new: str) -> list[tuple[str, bool, str]]:
    """What git says: path, whether it is new, the mode now."""
    return [
        (change.path, change.status == "A", change.new_mode if change.status != "D" else "")
        for change in git.diff_trees(old, new)
    ]


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
@pytest.mark.parametrize("seed", range(8))
def test_what_differs_and_what_is_made_is_as_git_has_it(
    repo: Worktree, seed: int, *, packed: bool
) -> None:
    drawn = random.Random(seed)
    old, new = drawn_tree(repo, drawn), drawn_tree(repo, drawn)
    if packed:
        for tree in (old, new):
            repo.sh("update-ref", f"refs/tags/{tree}", repo.sh("commit-tree", "-m", "x", tree))
        repo.sh("repack", "-adq")
    trees = Trees(repo.git())
    differences = trees.diff(old, new)
    assert [
        (d.path.decode(), d.old is None, d.new[0].decode() if d.new else "") for d in differences
    ] == shown(repo.git(), old, new)
    assert trees.diff(new, new) == []
    assert trees.changed(old, [(d.path, d.new) for d in differences]) == new
    assert trees.changed(new, [(d.path, d.old) for d in differences]) == old
    repo.sh("fsck", "--strict")


def test_a_tree_of_nothing_is_stored(repo: Worktree) -> None:
    trees, whole = Trees(repo.git()), repo.git().tree_of("HEAD")
    assert trees.changed(whole, [(b"a.txt", None)]) == repo.sh("mktree", stdin="")
    assert [d.path for d in trees.diff(repo.sh("mktree", stdin=""), whole)] == [b"a.txt"]


def test_a_change_that_is_none_is_not_made(repo: Worktree) -> None:
    trees, whole = Trees(repo.git()), repo.git().tree_of("HEAD")
    with pytest.raises(UnlikeTree):
        trees.changed(whole, [(b"b.txt", None)])


def test_a_tree_that_is_missing_is_said(repo: Worktree) -> None:
    with pytest.raises(StepError, match="missing"):
        Trees(repo.git()).diff("1" * 40, repo.git().tree_of("HEAD"))
