"""Protected files on a real disk."""

import os
import subprocess
from pathlib import Path

import pytest

from untildone.adapters.checks.protected_files import ProtectedFiles
from untildone.adapters.git.git import Git
from untildone.adapters.process.process import Processes
from untildone.domain.checks.protection import Violation
from untildone.domain.checks.runner_settings import RunnerSetting


class Scene:
    """A repository with a few files, one of them ignored."""

    def __init__(self, processes: Processes, root: Path) -> None:
        self.top = root / "repo"
        self.top.mkdir()
        for path in ("tests/a.py", "tests/b.py", "src/c.py", "check.sh"):
            self.write(path, path)
        (self.top / "tests/link").symlink_to("a.py")
        self.write(".gitignore", ".env\n")
        self.write(".env", "SECRET")
        self.git = Git(processes, self.top)
        self.run("init", "-q")
        self.run("add", "-A")
        self.run("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")
        self.commit = self.git.resolve("HEAD")
        self.note = root / "protected.json"
        self.protected = self.fresh()

    def fresh(self) -> ProtectedFiles:
        return ProtectedFiles(self.git, self.top, self.note)

    def write(self, path: str, text: str) -> None:
        (self.top / path).parent.mkdir(parents=True, exist_ok=True)
        (self.top / path).write_text(text)

    def run(self, *args: str) -> None:
        subprocess.run(["git", *args], cwd=self.top, check=True)


@pytest.fixture
def scene(processes: Processes, tmp_path: Path) -> Scene:
    return Scene(processes, tmp_path)


def test_nothing_was_changed(scene: Scene) -> None:
    scene.protected.note(scene.commit, ("tests/**", ".env"), ("check.sh", "tests", "gone.sh"))
    assert scene.protected.violations() == ()
    scene.write("tests/new.py", "a new file is allowed")
    scene.write("src/c.py", "not protected")
    assert scene.protected.violations() == ()


def test_every_way_to_change_a_file(scene: Scene) -> None:
    scene.protected.note(scene.commit, ("tests/**",), ("check.sh",))
    scene.write("tests/a.py", "tests/A.py")
    (scene.top / "tests/b.py").rename(scene.top / "b.py")
    (scene.top / "check.sh").chmod(0o755)
    (scene.top / "tests/link").unlink()
    (scene.top / "tests/link").symlink_to("b.py")
    assert scene.protected.violations() == (
        Violation("check.sh", "was file, is executable"),
        Violation("tests/a.py", "changed"),
        Violation("tests/b.py", "deleted or renamed"),
        Violation("tests/link", "changed"),
    )
    (scene.top / "tests/a.py").unlink()
    (scene.top / "tests/a.py").mkdir()
    assert scene.protected.violations()[1] == Violation("tests/a.py", "changed")


def test_what_an_agent_tells_git_hides_nothing(scene: Scene) -> None:
    scene.protected.note(scene.commit, (), ("check.sh",))
    scene.run("update-index", "--assume-unchanged", "check.sh")
    before = (scene.top / "check.sh").stat()
    scene.write("check.sh", "tampere!")
    os.utime(scene.top / "check.sh", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [found.path for found in scene.protected.violations()] == ["check.sh"]


def test_a_new_process_compares_with_what_was_noted(scene: Scene) -> None:
    assert scene.fresh().violations() == ()
    scene.protected.note(scene.commit, ("tests/a.py", ".env"), ())
    scene.write("tests/a.py", "x")
    scene.write(".env", "x")
    assert scene.fresh().violations() == (
        Violation(".env", "changed", kept=False),
        Violation("tests/a.py", "changed"),
    )


def test_a_change_of_what_git_does_not_have_is_not_forgotten(scene: Scene) -> None:
    scene.protected.note(scene.commit, ("tests", ".env"), ())
    (scene.top / ".env").unlink()
    scene.write("tests/a.py", "edited and put back is the new state")
    scene.protected.note(scene.commit, ("tests", ".env"), ())
    assert scene.protected.violations() == (Violation(".env", "deleted or renamed", kept=False),)
    scene.write(".env", "SECRET")
    assert scene.protected.violations() == ()


def test_other_stories_other_files(scene: Scene) -> None:
    scene.protected.note(scene.commit, (), ("check.sh",))
    scene.protected.note(scene.commit, (), ())
    scene.write("check.sh", "x")
    assert scene.protected.violations() == ()


SETTINGS = (RunnerSetting("p", "**/conf.py"), RunnerSetting("p", "**/a.toml", "tool.p"))


def test_settings_of_runners_new_ones_too_wherever_they_are(scene: Scene) -> None:
    scene.write("conf.py", "was here")
    scene.write("a.toml", "[tool.p]\nx = 1\n")
    scene.protected.note(scene.commit, (), (), SETTINGS)
    scene.write("a.toml", "# another spelling\ny = 2\n[tool.p]\nx=1\n")
    for folder in ("node_modules", ".git/hooks"):
        scene.write(f"{folder}/conf.py", "nobody reads this")
    assert scene.protected.violations() == ()
    (scene.top / "conf.py").unlink()
    scene.write("src/conf.py", "new")
    (scene.top / "src/a.toml").mkdir()
    (scene.top / "tests/a.toml").symlink_to("nowhere")
    scene.write("a.toml", "[tool.p]\nx = 2\n")
    found = (
        Violation("a.toml", "tool.p: changed"),
        Violation("conf.py", "deleted or renamed"),
        Violation("src/conf.py", "new"),
        Violation("tests/a.toml", "tool.p: can no longer be read"),
    )
    assert scene.protected.violations() == found
    assert scene.fresh().violations() == found


def test_new_settings_that_a_put_back_left_are_not_forgotten(scene: Scene) -> None:
    scene.protected.note(scene.commit, (), (), SETTINGS)
    scene.write(".gitignore", "conf.py\n")
    scene.write("conf.py", "ignored, so it stays")
    scene.protected.note(scene.commit, (), (), SETTINGS)
    assert scene.protected.violations() == (Violation("conf.py", "new"),)
    scene.write("src/conf.py", "of the person")
    scene.run("add", "-f", "src/conf.py")
    scene.run("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")
    scene.protected.note(scene.git.resolve("HEAD"), (), (), SETTINGS)
    assert scene.protected.violations() == (Violation("conf.py", "new"),)
