"""A kill at any git command of ours: the next `prepare` repairs the slot, and nothing is lost."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters.slots.lanes import Lanes, files, is_sound
from tests.adapters.worktree import Worktree, shell_git
from untildone.adapters.checks.clean_checkout import remove_folder
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Captured, Processes
from untildone.adapters.slots import slots
from untildone.adapters.slots.slot import CLONE, WORKTREE

STEP = 5
# Of the kill points every fifth on a push, the others with the rest of the full set.
FIRST = [1, *(pytest.param(first, marks=pytest.mark.full) for first in range(2, STEP + 1))]
pytestmark = pytest.mark.parametrize("first", FIRST)


class Killed(BaseException):
    """The process is gone: nothing catches it."""


class Mortal(Processes):
    """Dies before its k-th program, or after it."""

    def __init__(self, wake_fd: int, k: int, *, after: bool) -> None:
        super().__init__(wake_fd)
        self._left = k
        self._after = after

    def capture(self, command: Command, interrupted: Callable[[], bool]) -> Captured:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Killed
        answer = super().capture(command, interrupted)
        if self._left == 0:
            raise Killed
        return answer


def dies(lanes: Lanes, repo: Worktree, k: int, *, after: bool) -> bool:
    """Whether `prepare` was killed at its k-th git command."""
    repo.processes = Mortal(repo.processes._wake_fd, k, after=after)
    lanes.restart()
    try:
        lanes.prepare()
    except Killed:
        return True
    finally:
        repo.processes = Processes(repo.processes._wake_fd)
        lanes.restart()
    return False


@pytest.mark.parametrize("kind", [CLONE, WORKTREE])
@pytest.mark.parametrize("after", [False, True])
def test_a_new_slot_is_made_whenever_the_loop_was_killed(
    lanes: Lanes, tmp_path: Path, after: bool, kind: str, first: int
) -> None:
    lanes = Lanes(lanes.repo, tmp_path / "more", kind)
    for k in range(first, 100, STEP):
        if not dies(lanes, lanes.repo, k, after=after):
            break
        again = lanes.prepare()
        assert files(again.slot.top) == files(lanes.repo.top)
        assert shell_git(again.slot.top, "status", "--porcelain") == ""
        assert lanes.slots.delete(0).deleted
    assert k > STEP
    assert is_sound(lanes.repo.top)


@pytest.mark.parametrize("kind", [CLONE, WORKTREE])
@pytest.mark.parametrize("after", [False, True])
def test_what_only_a_slot_has_survives_every_kill_of_its_next_use(
    lanes: Lanes, tmp_path: Path, after: bool, kind: str, first: int
) -> None:
    lanes = Lanes(lanes.repo, tmp_path / "more", kind)
    for k in range(first, 100, STEP):
        base = lanes.head
        prepared = lanes.prepare()
        script = (
            f"echo c{k} > c; git add c; git commit -qm c; echo f{k} > f; echo s{k} > s; git add s"
        )
        lanes.attempt(prepared, f"{script}; echo t{k} > s")
        lanes.repo.sh("commit", "-q", "--allow-empty", "-m", f"landed {k}")
        died = dies(lanes, lanes.repo, k, after=after)
        again = lanes.prepare()
        assert files(again.slot.top) == files(lanes.repo.top)
        assert shell_git(again.slot.top, "rev-parse", "HEAD") == lanes.head != base
        known = lanes.repo.sh("rev-list", "--objects", "--glob=refs/ralph/moved")
        for text in (f"c{k}\n", f"f{k}\n", f"s{k}\n", f"t{k}\n"):
            assert lanes.repo.sh("hash-object", "--stdin", stdin=text) in known
        if not died:
            break
    assert k > 2 * STEP
    assert is_sound(lanes.repo.top)


@pytest.mark.parametrize("kind", [CLONE, WORKTREE])
@pytest.mark.parametrize("k", [1, 2])
def test_a_deletion_that_is_killed_leaves_no_half_of_a_slot(
    lanes: Lanes, tmp_path: Path, kind: str, k: int, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    del first
    lanes = Lanes(lanes.repo, tmp_path / "more", kind)
    work = lanes.story("echo c > c")
    left = iter([remove_folder] * (k - 1))

    def mortal(folder: Path) -> None:
        found = next(left, None)
        if found is None:
            raise Killed
        found(folder)

    with monkeypatch.context() as patched:
        patched.setattr(slots, "remove_folder", mortal)
        try:
            lanes.slots.delete(0)
        except Killed:
            assert not lanes.slots.slot(0).folder.exists()
    lanes.restart()
    again = lanes.prepare()
    assert files(again.slot.top) == files(lanes.repo.top)
    assert shell_git(again.slot.top, "status", "--porcelain") == ""
    assert lanes.slots.delete(0).deleted
    assert not list((tmp_path / "more").iterdir())
    assert len(lanes.repo.sh("worktree", "list").splitlines()) == 1
    assert not [name for name in lanes.refs() if "lane" in name or "slots" in name]
    assert lanes.file(work, "c") == "c"
