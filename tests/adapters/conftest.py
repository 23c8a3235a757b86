"""Fixtures that most adapter tests share."""

from pathlib import Path

import pytest

from tests.adapters.worktree import Worktree, made
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe


@pytest.fixture
def repo(tmp_path: Path) -> Worktree:
    return made(tmp_path)


@pytest.fixture
def wake() -> WakePipe:
    return WakePipe()


@pytest.fixture
def processes(wake: WakePipe) -> Processes:
    return Processes(wake.fd)
