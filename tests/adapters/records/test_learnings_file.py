"""The file for learnings and its copy."""

import os
from pathlib import Path

import pytest

from untildone.adapters.records.learnings_file import PREFIX, LearningsFile
from untildone.domain.agents.learnings import CAP, CUT, Notes


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "top").mkdir()
    return tmp_path / "top"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store" / "demo.md"


@pytest.fixture
def learnings(top: Path, store: Path) -> LearningsFile:
    return LearningsFile(top, "demo", store)


def test_nothing_is_written_for_nothing(learnings: LearningsFile, top: Path, store: Path) -> None:
    assert learnings.open() == Notes(str(top / f"{PREFIX}demo.md"))
    learnings.keep()
    assert list(top.iterdir()) == []
    assert not store.parent.exists()


def test_it_comes_back_and_into_another_worktree(
    learnings: LearningsFile, top: Path, store: Path, tmp_path: Path
) -> None:
    file = Path(learnings.open().path)
    file.write_text("use make\n")
    learnings.keep()
    file.unlink()
    assert learnings.look().text == "use make\n"
    assert not file.exists()
    assert learnings.open().text == file.read_text() == "use make\n"
    (tmp_path / "other").mkdir()
    assert LearningsFile(tmp_path / "other", "demo", store).open().text == "use make\n"
    assert LearningsFile(top, "a/b", store.with_name("b.md")).open().path.endswith("-a-b.md")


def test_what_a_killed_loop_did_not_keep_is_kept_later(
    learnings: LearningsFile, store: Path
) -> None:
    Path(learnings.look().path).write_text("late\n")
    assert learnings.open().text == store.read_text() == "late\n"
    Path(learnings.look().path).write_text("")
    assert learnings.open().text == store.read_text() == ""


@pytest.mark.parametrize("lines", [3000, 3_000_000])
def test_it_does_not_grow_for_ever(learnings: LearningsFile, store: Path, lines: int) -> None:
    file = Path(learnings.look().path)
    file.write_text("".join(f"line {n}\n" for n in range(lines)))
    text = learnings.open().text
    assert len(text) <= CAP
    assert text.startswith(f"{CUT}line ")
    assert text.endswith(f"line {lines - 1}\n")
    assert file.read_text() == store.read_text() == text


def test_what_is_no_plain_file_is_not_read(
    learnings: LearningsFile, top: Path, tmp_path: Path
) -> None:
    file = Path(learnings.look().path)
    (tmp_path / "secret").write_text("secret\n")
    file.symlink_to(tmp_path / "secret")
    assert learnings.open().text == ""
    file.unlink()
    os.mkfifo(file)
    assert learnings.open().text == ""
    file.unlink()
    file.mkdir()
    assert learnings.open().text == ""


def test_what_cannot_be_written_is_no_reason_to_stop(top: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    learnings = LearningsFile(top, "demo", tmp_path / "file" / "demo.md")
    Path(learnings.look().path).write_text("use make\n")
    assert learnings.open().text == "use make\n"
