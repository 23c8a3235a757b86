"""What the loop relies on when checks run in a clean checkout."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters.worktree import made
from tests.fakes.clean_checkout import FakeCleanCheckout
from untildone.adapters.checks.clean_checkout import CleanCheckout as RealCleanCheckout
from untildone.adapters.git.git import Git
from untildone.ports import CleanCheckout

# A checkout, with a tree and its parent commit.
Make = Callable[[Path], tuple[CleanCheckout, str, str]]


def _real(root: Path) -> tuple[CleanCheckout, str, str]:
    repo = made(root)
    git = Git(repo.processes, repo.top)
    git.use_common_dir(repo.place.common_dir)
    git.use_fallback_identity_if_none()
    run_folder = root / f"run-of-{root.name}"
    run_folder.mkdir()
    checkout = RealCleanCheckout(git, repo.place, run_folder)
    return checkout, repo.sh("rev-parse", "HEAD^{tree}"), repo.sh("rev-parse", "HEAD")


def _fake(root: Path) -> tuple[CleanCheckout, str, str]:
    return FakeCleanCheckout(), "tree", "parent"


MAKERS: dict[str, Make] = {"real": _real, "fake": _fake}


@pytest.fixture(params=MAKERS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[CleanCheckout, str, str]:
    return MAKERS[request.param](tmp_path)


def test_it_can_be_made_again_and_removed_twice(scene: tuple[CleanCheckout, str, str]) -> None:
    checkout, tree, parent = scene
    folder = checkout.make(tree, parent)
    assert folder
    assert checkout.make(tree, parent) == folder
    checkout.remove()
    checkout.remove()
    assert not Path(folder).exists()


def test_one_that_was_never_made_can_be_removed(scene: tuple[CleanCheckout, str, str]) -> None:
    scene[0].remove()
