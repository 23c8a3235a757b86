"""DraftIndex of snapshots, files kept beside git, and moves that survive a power cut."""

import contextlib
import errno
import os
import shutil
from pathlib import Path

import pytest

from tests.adapters.worktree import Worktree
from untildone.adapters.checkpoints.guard import Flag, Guard, NewFiles
from untildone.adapters.checkpoints.snapshot.draft_index import DraftIndex
from untildone.adapters.checkpoints.snapshot.ignore_rules import IgnoredAtStart
from untildone.adapters.checkpoints.snapshot.snapshot import Snapshots
from untildone.adapters.checkpoints.snapshot.withheld_files import (
    keep,
    kept_files,
    plan_give_back,
    put_beside,
)
from untildone.adapters.git.index import add_all
from untildone.adapters.records.durable import move_file


def no_rename(self: Path, target: Path) -> Path:
    raise OSError(errno.EXDEV, "another disk")


@pytest.fixture
def drafts(repo: Worktree) -> DraftIndex:
    repo.folder.make()
    return DraftIndex(repo.git(), repo.place, repo.folder.path)


@pytest.fixture
def snapshots(repo: Worktree) -> Snapshots:
    repo.folder.make()
    return Snapshots.of_run(repo.git(), repo.place, repo.folder.path, Guard(100))


def test_nothing_is_in_the_repository_before_it_is_installed(
    repo: Worktree, drafts: DraftIndex
) -> None:
    repo.write("new.txt", "new\n")
    before = repo.sh("count-objects"), repo.sh("status", "--porcelain")
    draft = drafts.begin()
    assert add_all(draft).ok
    tree = draft.write_tree()
    assert (repo.sh("count-objects"), repo.sh("status", "--porcelain")) == before
    blob = repo.sh("hash-object", "new.txt")
    with contextlib.suppress(OSError):  # unless another object happens to live there
        (repo.place.common_dir / "objects" / blob[:2]).rmdir()
    drafts.install([tree, blob], complete=True)
    assert repo.sh("cat-file", "blob", blob) == "new"
    assert repo.sh("write-tree") == tree
    repo.sh("fsck", "--strict")


def test_what_is_not_named_is_dropped(repo: Worktree, drafts: DraftIndex) -> None:
    repo.write("new.txt", "new\n")
    assert add_all(drafts.begin()).ok
    drafts.install([], complete=False)
    assert not (repo.folder.path / "draft").exists()


def test_what_a_killed_process_left_is_dropped(repo: Worktree, drafts: DraftIndex) -> None:
    repo.write("new.txt", "new\n")
    assert add_all(drafts.begin()).ok
    DraftIndex(repo.git(), repo.place, repo.folder.path).begin()
    assert not [p for p in (repo.folder.path / "draft/objects").rglob("*") if p.is_file()]


def test_a_locked_index_is_said(repo: Worktree, drafts: DraftIndex) -> None:
    drafts.begin()
    lock = repo.place.git_dir / "index.lock"
    lock.touch()
    with pytest.raises(FileExistsError):
        drafts.install([], complete=True)
    lock.unlink()
    drafts.install([], complete=True)
    assert not lock.exists()


def test_a_path_with_odd_signs_serves_as_object_store(repo: Worktree) -> None:
    odd = repo.top.with_name('odd: "quoted"\\ name')
    repo.top.rename(odd)
    place = type(repo.place)(odd, odd / ".git", odd / ".git")
    moved = Worktree(odd, repo.processes, place)
    moved.folder.make()
    draft = DraftIndex(moved.git(), place, moved.folder.path).begin()
    assert draft.diff_trees("HEAD", draft.write_tree()) == ()


def test_move_to_another_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "source", tmp_path / "new/target"
    source.write_text("data")
    source.chmod(0o600)
    calls = [no_rename, Path.rename]
    monkeypatch.setattr(Path, "rename", lambda self, to: calls.pop(0)(self, to))
    move_file(source, target)
    assert target.read_text() == "data"
    assert target.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.rglob("*")] == ["new", "target"]


def test_a_failing_move_leaves_the_file(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("data")
    (tmp_path / "target").mkdir()
    with pytest.raises(OSError, match="target"):
        move_file(tmp_path / "source", tmp_path / "target")
    assert (tmp_path / "source").read_text() == "data"


def test_a_second_look_keeps_both_files(repo: Worktree, snapshots: Snapshots) -> None:
    folder = repo.folder.path / "kept/1/1"
    for path, text in (("a.key", "one"), ("a.key", "two"), ("a.key/b.key", "three")):
        if (repo.top / "a.key").is_file():
            (repo.top / "a.key").unlink()
        repo.write(path, text)
        keep(
            repo.top,
            [Flag(path, 3, "why"), Flag("gone.key", 3, "why")],
            folder,
            snapshots.obstacles,
        )
    assert kept_files(folder) == ("a.key/b.key",)
    aside = sorted((repo.folder.path / "aside").iterdir())
    assert [path.read_text() for path in aside] == ["one", "two"]
    (repo.top / "a.key").rmdir()
    repo.write("a.key", "in the way")
    runs = folder.parent
    before, after = plan_give_back(repo.top, folder, runs / "replaced", runs)
    put_beside(repo.top, runs, before, after, snapshots.obstacles)
    assert (repo.top / "a.key/b.key").read_text() == "three"


def test_ignored_paths_hold_for_what_is_below(repo: Worktree) -> None:
    repo.folder.make()
    ignored = IgnoredAtStart(repo.folder.path)
    ignored.begin(b"*.o\n", ["build/"])
    ignored.add(["sp ace*.key", "line\nbreak.key"])
    again = IgnoredAtStart(repo.folder.path)
    names = ("build", "build/x", "sp ace*.key", "line\nbreak.key", "build.txt", "spxace.key")
    assert [again.covers(name) for name in names] == [True] * 4 + [False] * 2
    assert again.excludes.read_bytes() == b"*.o\n/build/\n/sp\\ ace\\*.key\n"


def test_large_files_are_looked_for_when_the_disk_fills(
    repo: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = iter([1000, 950, 700, 900, 100])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, next(free)))
    repo.folder.make()
    new_files = NewFiles(
        repo.git(), repo.place, Guard(100), IgnoredAtStart(repo.folder.path).covers
    )
    repo.write("large.bin", "x" * 101)
    found = [len(new_files.large(repo.git())) for _ in range(5)]
    assert found == [1, 0, 1, 0, 1]  # the first look of a process knows no earlier one


@pytest.mark.timeout(30)
def test_git_never_reads_a_large_file(repo: Worktree, snapshots: Snapshots) -> None:
    """Sixty-four GiB of nothing take no room on disk, but git would need minutes for them."""
    repo.write("large.bin")
    os.truncate(repo.top / "large.bin", 64 << 30)
    snapshot = snapshots.take(repo.sh("rev-parse", "HEAD"))
    assert snapshot.flagged == (Flag("large.bin", 64 << 30, "larger than 100 bytes"),)
    assert snapshot.changes == ()
