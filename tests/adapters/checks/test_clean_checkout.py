"""A fresh checkout for checks."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from untildone.adapters.checks.clean_checkout import (
    NOTE,
    CleanCheckout,
    remove_folder,
    remove_noted,
)
from untildone.adapters.git.git import Git
from untildone.adapters.git.place import Place
from untildone.adapters.process.process import Processes
from untildone.domain.errors import StepError


class Scene:
    """A repository with one commit, one ignored file and a sparse checkout in force."""

    def __init__(self, processes: Processes, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.top, self.run, temporary = root / "repo", root / "r1", root / "tmp"
        for folder in (self.top, self.run, temporary):
            folder.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(temporary))
        self.checkout = temporary / "untildone-room-r1"
        self.git("init", "-q")
        (self.top / "a").mkdir()
        (self.top / "a/b.txt").write_text("b")
        (self.top / "run.sh").write_text("#!/bin/sh\n")
        (self.top / "run.sh").chmod(0o755)
        (self.top / ".gitignore").write_text("ignored\n")
        (self.top / "ignored").write_text("x")
        self.git("add", "-A")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")
        self.git("config", "core.sparseCheckout", "true")
        own = Git(processes, self.top)
        own.use_common_dir(self.top / ".git")
        own.use_fallback_identity_if_none()
        self.commit = own.resolve("HEAD")
        self.tree = own.tree_of("HEAD")
        place = Place(self.top, self.top / ".git", self.top / ".git")
        self.clean = CleanCheckout(own, place, self.run)

    def git(self, *args: str, cwd: Path | None = None) -> str:
        done = subprocess.run(["git", *args], cwd=cwd or self.top, check=True, capture_output=True)
        return done.stdout.decode()

    def make(self) -> str:
        return self.clean.make(self.tree, self.commit)


@pytest.fixture
def scene(processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(processes, tmp_path, monkeypatch)


def test_the_files_of_the_tree_and_nothing_else(scene: Scene) -> None:
    index = (scene.top / ".git/index").read_bytes()
    assert scene.make() == str(scene.checkout)
    found = sorted(p.relative_to(scene.checkout) for p in scene.checkout.rglob("*") if p.is_file())
    files = [str(path) for path in found if path.parts[0] != ".git"]
    assert files == [".gitignore", "a/b.txt", "run.sh"]
    assert os.access(scene.checkout / "run.sh", os.X_OK)
    assert scene.git("status", "--porcelain", cwd=scene.checkout) == ""
    assert scene.git("log", "--format=%s", cwd=scene.checkout) == "what is checked\nx\n"
    assert scene.git("rev-parse", "--show-toplevel", cwd=scene.checkout).strip() == str(
        scene.checkout
    )
    assert len(scene.git("worktree", "list").splitlines()) == 1
    assert (scene.top / ".git/index").read_bytes() == index
    scene.clean.remove()
    assert not scene.checkout.exists()
    assert not (scene.run / NOTE).exists()


def test_what_a_killed_loop_left_is_removed(scene: Scene) -> None:
    scene.make()
    (scene.checkout / "a").chmod(0o500)
    remove_noted(scene.run / NOTE)
    assert not scene.checkout.exists()
    remove_noted(scene.run / NOTE)
    scene.make()
    scene.make()
    assert (scene.checkout / "run.sh").exists()


def test_what_is_not_ours_stays(scene: Scene) -> None:
    target = scene.run / "precious"
    target.mkdir()
    scene.checkout.symlink_to(target)
    with pytest.raises(StepError, match="The clean room cannot be made"):
        scene.make()
    scene.clean.remove()
    assert target.is_dir()
    assert scene.checkout.is_symlink()


@pytest.mark.parametrize("noted", ["", ".", "relative", "{folder}", "{folder}/untildone-room"])
def test_a_note_that_names_no_room_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: str
) -> None:
    inside = tmp_path / "untildone-room-project" / "relative"
    inside.mkdir(parents=True)
    (inside / "work.txt").write_text("mine\n")
    note = tmp_path / NOTE
    for here in (inside, inside.parent):
        monkeypatch.chdir(here)
        note.write_text(noted.format(folder=inside))
        remove_noted(note)
        assert (inside / "work.txt").read_text() == "mine\n"
        assert not note.exists()


def test_the_folder_that_we_are_in_is_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "untildone-room-project" / "src"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    for folder in (inside, inside.parent, Path(), tmp_path):
        with pytest.raises(StepError, match="This command is in the folder"):
            remove_folder(folder)
    assert inside.is_dir()


def test_some_files_as_they_are_in_the_parent(scene: Scene) -> None:
    (scene.top / "a/b.txt").write_text("changed")
    (scene.top / "run.sh").unlink()
    (scene.top / "a/[x].txt").write_text("new")
    scene.git("add", "-A")
    scene.tree = scene.git("write-tree").strip()
    scene.clean.make(scene.tree, scene.commit, ("run.sh",))
    assert (scene.checkout / "run.sh").exists()
    assert (scene.checkout / "a/b.txt").read_text() == "changed"
    scene.clean.make(scene.tree, scene.commit, ("a/b.txt",))
    assert (scene.checkout / "a/b.txt").read_text() == "b"
    assert (scene.checkout / "a/[x].txt").read_text() == "new"
    assert not (scene.checkout / "run.sh").exists()
    scene.clean.make(scene.tree, scene.commit, ("a/[x].txt",))
    assert not (scene.checkout / "a/[x].txt").exists()
    scene.clean.put_back()
    assert not (scene.checkout / "a/[x].txt").exists()


def test_the_next_check_does_not_see_what_the_last_one_changed(scene: Scene) -> None:
    scene.make()
    (scene.checkout / "a/b.txt").write_text("changed")
    (scene.checkout / "run.sh").unlink()
    (scene.checkout / "installed").write_text("x")
    scene.git("add", "-A", cwd=scene.checkout)
    scene.clean.put_back()
    assert (scene.checkout / "a/b.txt").read_text() == "b"
    assert os.access(scene.checkout / "run.sh", os.X_OK)
    assert (scene.checkout / "installed").exists()
    shutil.rmtree(scene.checkout)
    scene.clean.put_back()
    assert (scene.checkout / "a/b.txt").read_text() == "b"
