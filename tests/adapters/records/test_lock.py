"""One loop per worktree."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from untildone.adapters.records.lock import WorktreeLock
from untildone.domain.errors import UserError

HOLD = """
import sys
from pathlib import Path
from untildone.adapters.records.lock import WorktreeLock
lock = WorktreeLock(Path(sys.argv[1]))
lock.take("demo")
print("held", flush=True)
sys.stdin.read()
"""


def test_taken_and_released(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    lock, other = WorktreeLock(path), WorktreeLock(path)
    assert not lock.is_held()
    lock.take("demo")
    assert (lock.is_held(), other.is_held()) == (True, True)
    with pytest.raises(UserError, match=f"worktree: demo, process {os.getpid()}$"):
        other.take("other")
    lock.release()
    lock.release()
    assert not other.is_held()
    other.take("other")
    assert path.read_text() == f"other, process {os.getpid()}"
    other.release()


def test_it_dies_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        assert WorktreeLock(path).is_held()
        with pytest.raises(UserError, match=f"process {holder.pid}"):
            WorktreeLock(path).take("demo")
        holder.kill()
        holder.wait()
    assert not WorktreeLock(path).is_held()
    lock = WorktreeLock(path)
    lock.take("demo")
    lock.release()


def test_a_holder_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = WorktreeLock(path)
    lock.take("demo")
    path.write_text("")
    with pytest.raises(UserError, match="just starting"):
        WorktreeLock(path).take("demo")
    lock.release()
