"""Whatever an agent writes about its own story: the file ends as if it had written nothing."""

from pathlib import Path

import pytest

from untildone.adapters.stories.source_kind import Options
from untildone.domain.errors import StoryLost
from untildone.ports import StorySource
from untildone.wiring.sources import kind

BMAD = "_bmad-output/implementation-artifacts"
TRACKING = f"{BMAD}/sprint-status.yaml"
PAGE = f"{BMAD}/1-1-a.md"
BACKLOG = "backlog/tasks/task-{n} - T.md"

Files = dict[str, str]
Edits = dict[str, tuple[str, str]]

CASES: dict[str, tuple[Files, Edits]] = {
    "backlog-md": (
        {
            BACKLOG.format(n=n): f"---\nid: task-{n}\ntitle: T{n}\nstatus: To Do\n---\n"
            "## Acceptance Criteria\n<!-- AC:BEGIN -->\n- [ ] #1 a\n<!-- AC:END -->\n"
            for n in (1, 2)
        },
        {BACKLOG.format(n=1): ("To Do", "Done")},
    ),
    "taskmaster": (
        {
            ".taskmaster/tasks/tasks.json": '{"master": {"tasks": [\n'
            ' {"id": 1, "title": "A", "status": "pending", "subtasks": [\n'
            '  {"id": 1, "title": "a", "status": "in-progress"},\n'
            '  {"id": 2, "title": "b", "status": "cancelled"}]},\n'
            ' {"id": 2, "title": "B", "status": "pending"}]}}\n'
        },
        {".taskmaster/tasks/tasks.json": ('"A", "status": "pending"', '"A", "status": "done"')},
    ),
    "bmad": (
        {
            TRACKING: "development_status:\n  1-1-a: in-progress\n  1-2-b: ready-for-dev\n",
            PAGE: "# Story 1.1: A\n\nStatus: in-progress\n\n## Tasks / Subtasks\n\n- [ ] one\n",
            f"{BMAD}/1-2-b.md": "# Story 1.2: B\n\nStatus: ready-for-dev\n",
        },
        {TRACKING: ("1-1-a: in-progress", "1-1-a: done"), PAGE: ("in-progress", "done")},
    ),
    "kiro": (
        {".kiro/specs/s/tasks.md": "- [ ] 1. A\n  - [ ] 1.1 a\n  - [-] 1.2 b\n- [ ] 2. B\n"},
        {".kiro/specs/s/tasks.md": ("[ ] 1.1 a\n  - [-]", "[x] 1.1 a\n  - [x]")},
    ),
    "prd-json": (
        {
            "prd.json": '{"userStories": [\n {"id": "1", "title": "A", "passes": false,'
            ' "status": "open"},\n {"id": "2", "title": "B", "passes": false, "status": "open"}]}\n'
        },
        {"prd.json": ('"A", "passes": false', '"A", "passes": true')},
    ),
}


def made(root: Path, name: str) -> StorySource:
    for path, text in CASES[name][0].items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    found = kind(name)
    (change,) = (row.name for row in found.find(root))
    return found.make(root, change, Options())


def contents(root: Path) -> Files:
    return {str(p.relative_to(root)): p.read_text() for p in root.rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", CASES)
def test_the_loop_writes_the_same_bytes(tmp_path: Path, name: str) -> None:
    silent, bold = made(tmp_path / "silent", name), made(tmp_path / "bold", name)
    before = silent.load()
    silent.settle(before.stories[0], before)
    before = bold.load()
    for path, (old, new) in CASES[name][1].items():
        text = (tmp_path / "bold" / path).read_text()
        assert old in text
        (tmp_path / "bold" / path).write_text(text.replace(old, new, 1))
    assert bold.settle(before.stories[0], before) == ()
    assert contents(tmp_path / "bold") == contents(tmp_path / "silent")
    assert [story.done for story in bold.load().stories] == [True, False]


def test_a_backlog_task_that_was_put_among_the_completed_comes_back(tmp_path: Path) -> None:
    source = made(tmp_path, "backlog-md")
    before = source.load()
    place = tmp_path / BACKLOG.format(n=2)
    (tmp_path / "backlog/completed").mkdir()
    moved = place.rename(tmp_path / "backlog/completed" / place.name)
    (said,) = source.settle(before.stories[0], before)
    assert said.startswith("Unticked in story task-2")
    assert (place.exists(), moved.exists()) == (True, False)
    assert [story.done for story in source.load().stories] == [True, False]


@pytest.mark.parametrize("name", ["backlog-md", "bmad"])
def test_a_story_whose_file_was_deleted_fails_the_attempt(tmp_path: Path, name: str) -> None:
    source = made(tmp_path, name)
    before = source.load()
    (tmp_path / list(CASES[name][0])[-1]).unlink()
    with pytest.raises(StoryLost, match="Open tasks of other stories are gone"):
        source.settle(before.stories[0], before)


def test_an_object_that_was_deleted_fails_the_attempt_one_with_another_title_does_not(
    tmp_path: Path,
) -> None:
    source, path = made(tmp_path, "prd-json"), tmp_path / "prd.json"
    before, text = source.load(), path.read_text()
    path.write_text(text.replace('"title": "B"', '"title": "Quite another one"'))
    assert "No longer found" in source.settle(before.stories[0], before)[0]
    path.write_text(text.split(',\n {"id": "2"')[0] + "]}\n")
    with pytest.raises(StoryLost, match="story 2: “B”"):
        source.settle(before.stories[0], before)
