"""What the loop relies on when it protects files from an attempt."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters.worktree import made
from tests.fakes.protected_files import FakeProtectedFiles
from untildone.adapters.checks.protected_files import ProtectedFiles as RealProtectedFiles
from untildone.adapters.git.git import Git
from untildone.domain.checks.protection import Violation
from untildone.ports import ProtectedFiles

# Protected files, their checkpoint, and a function that gives `a.txt` another content.
Scene = tuple[ProtectedFiles, str, Callable[[str], None]]


def _real(root: Path) -> Scene:
    repo = made(root)
    git = Git(repo.processes, repo.top)
    files = RealProtectedFiles(git, repo.top, root / "protected.json")

    def write(text: str) -> None:
        repo.write("a.txt", text)

    write("as it was")
    return files, repo.sh("rev-parse", "HEAD"), write


def _fake(root: Path) -> Scene:
    files = FakeProtectedFiles((), (Violation("a.txt", "changed"),), ())
    return files, "c0", lambda text: None


MAKERS: dict[str, Callable[[Path], Scene]] = {"real": _real, "fake": _fake}


@pytest.fixture(params=MAKERS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return MAKERS[request.param](tmp_path)


def test_what_differs_from_what_was_noted_is_named(scene: Scene) -> None:
    files, checkpoint, write = scene
    files.note(checkpoint, (), ("a.txt", "not-there.txt"))
    assert files.violations() == ()
    write("changed")
    (violation,) = files.violations()
    assert (violation.path, violation.what) == ("a.txt", "changed")
    write("as it was")
    assert files.violations() == ()
