"""What the loop relies on when agents write learnings."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.learnings_file import FakeLearningsFile
from untildone.adapters.records.learnings_file import LearningsFile as RealLearningsFile
from untildone.ports import LearningsFile

# The learnings, and how an agent writes them.
Scene = tuple[LearningsFile, Callable[[str], None]]


def _real(folder: Path) -> Scene:
    file = RealLearningsFile(folder, "demo", folder / "store/demo.md")

    def write(text: str) -> None:
        Path(file.open().path).write_text(text)

    return file, write


def _fake(folder: Path) -> Scene:
    file = FakeLearningsFile()

    def write(text: str) -> None:
        file.text = text

    return file, write


MAKERS: dict[str, Callable[[Path], Scene]] = {"real": _real, "fake": _fake}


@pytest.fixture(params=MAKERS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return MAKERS[request.param](tmp_path)


def test_a_call_finds_what_the_call_before_it_wrote(scene: Scene) -> None:
    file, write = scene
    first = file.open()
    assert (bool(first.path), first.text) == (True, "")
    write("use make\n")
    file.keep()
    assert (file.open().path, file.open().text) == (first.path, "use make\n")
