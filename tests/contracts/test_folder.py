"""What the loop relies on when it keeps something in the run's folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.folder import FakeFolder
from untildone.adapters.records.run_folder import RunFolder
from untildone.ports import Folder


def _real(home: Path) -> Folder:
    folder = RunFolder(home, "r1")
    folder.make()
    return folder


MAKERS: dict[str, Callable[[Path], Folder]] = {"real": _real, "fake": lambda home: FakeFolder()}


@pytest.fixture(params=MAKERS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    return MAKERS[request.param](tmp_path)


def test_each_iteration_has_a_log_of_its_own(folder: Folder) -> None:
    assert folder.log_file(1) == folder.log_file(1) != folder.log_file(2)


def test_there_is_a_scratch_folder_for_every_iteration(folder: Folder) -> None:
    assert folder.scratch(1) == folder.scratch(1)
    assert folder.scratch(2)


def test_open_tasks_come_back(folder: Folder) -> None:
    assert folder.kept_open() == []
    for tasks in ([["1", "First", "a"]], [["2", "Second", "b"], ["2", "Second", "c"]]):
        folder.keep_open(tasks)
        assert folder.kept_open() == tasks


def test_a_prompt_may_be_kept_again(folder: Folder) -> None:
    folder.keep_prompt(1, "Grüße")
    folder.keep_prompt(1, "Grüße noch einmal")


def test_a_plan_comes_back_for_its_iteration(folder: Folder) -> None:
    assert folder.kept_plan(1) == {}
    texts = {"tasks.md": b"- [ ] a\xff\n", "b.md": b""}
    folder.keep_plan(1, texts)
    assert (folder.kept_plan(1), folder.kept_plan(2)) == (texts, {})
