"""Fixtures of the slots' tests."""

from pathlib import Path

import pytest

from tests.adapters.slots.lanes import Lanes
from tests.adapters.worktree import Worktree


@pytest.fixture
def lanes(repo: Worktree, tmp_path: Path) -> Lanes:
    repo.write(".gitignore", "node_modules/\n.env\n")
    repo.write("src/b.txt", "b\n")
    repo.sh("add", "-A")
    repo.sh("commit", "-q", "-m", "more")
    return Lanes(repo, tmp_path / "slots")
