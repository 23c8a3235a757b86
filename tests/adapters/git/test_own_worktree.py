"""Worktrees made for runs: putting one away goes on wherever it was cut short."""

from pathlib import Path

import pytest

from untildone.adapters.git.own_worktree import note_user, retire, user_of
from untildone.adapters.git.place import Place

RUN = "20260101-000000-abcd"


@pytest.fixture
def user(tmp_path: Path) -> Place:
    """A user's worktree, as folders only."""
    (tmp_path / "repo/.git/untildone").mkdir(parents=True)
    return Place(tmp_path / "repo", tmp_path / "repo/.git", tmp_path / "repo/.git")


@pytest.fixture
def linked(tmp_path: Path, user: Place) -> Place:
    """A worktree made for it, with one run and one submodule's repository."""
    git_dir = user.common_dir / "worktrees/repo-ralph-demo"
    place = Place(tmp_path / "repo-ralph-demo", git_dir, user.common_dir)
    for folder in (place.top, git_dir / "modules/sub", git_dir / "untildone/runs" / RUN):
        folder.mkdir(parents=True)
    (place.top / ".git").write_text(f"gitdir: {git_dir}\n")
    (place.top / "ignored.log").write_text("precious\n")
    (git_dir / "modules/sub/objects").write_text("only here\n")
    (git_dir / "untildone/runs" / RUN / "journal.jsonl").write_text("{}\n")
    note_user(place, user)
    return place


def _all_is_put_away(user: Place, linked: Place, run_id: str) -> None:
    kept = user.git_dir / "untildone/runs" / run_id
    assert not linked.top.exists()
    assert not linked.git_dir.exists()
    assert (kept / "worktree.git/modules/sub/objects").read_text() == "only here\n"


def test_everything_is_put_away(user: Place, linked: Place) -> None:
    assert user_of(linked) == user.top
    said = retire(linked, user, RUN)
    kept = user.git_dir / "untildone/runs" / RUN
    assert str(kept / "worktree") in said
    assert sorted(path.name for path in kept.iterdir()) == [
        "journal.jsonl",
        "worktree",
        "worktree.git",
    ]
    assert (kept / "worktree/ignored.log").read_text() == "precious\n"
    assert not (kept / "worktree/.git").exists()
    _all_is_put_away(user, linked, RUN)


def test_it_goes_on_after_the_files(user: Place, linked: Place) -> None:
    own = linked.git_dir / "untildone/runs" / RUN
    linked.top.rename(own / "worktree")
    retire(linked, user, RUN)
    kept = user.git_dir / "untildone/runs" / RUN / "worktree"
    assert (kept / "ignored.log").read_text() == "precious\n"
    assert not (kept / ".git").exists()
    _all_is_put_away(user, linked, RUN)


def test_it_goes_on_after_the_runs(user: Place, linked: Place) -> None:
    own = linked.git_dir / "untildone/runs" / RUN
    linked.top.rename(own / "worktree")
    (user.git_dir / "untildone/runs").mkdir()
    own.rename(user.git_dir / "untildone/runs" / RUN)
    retire(linked, user, "another-id")  # no run is left there to name it
    assert (user.git_dir / "untildone/runs" / RUN / "worktree/ignored.log").exists()
    _all_is_put_away(user, linked, "another-id")


def test_the_lock_alone_says_whose_it_is(user: Place, linked: Place) -> None:
    (linked.git_dir / "untildone/made_for").unlink()
    assert user_of(linked) is None
    (linked.git_dir / "locked").write_text(f"untildone made it for: {user.top}\n")
    assert user_of(linked) == user.top
    (linked.git_dir / "locked").write_text("on a portable disk\n")
    assert user_of(linked) is None
