"""Stories cut by task, by group or as a whole: ids, boxes, and finding them again."""

from pathlib import Path

import pytest

from untildone.adapters.stories.checklists.checklist_source import ChecklistFile
from untildone.domain.stories.story import Story

TASKS = """\
# Tasks

## 1. Server
Why: people.
- [ ] 1.1 Write it
  With care.
- [x] 1.2 Test it

## 2. Client
- [ ] 2.1 Parts
  - [ ] 2.1.1 Left
  - [ ] 2.1.2 Right
- [ ] Ship it
- [ ] Ship it
"""


def file(root: Path, granularity: str, text: str = TASKS) -> ChecklistFile:
    (root / "tasks.md").write_bytes(text.encode())
    return ChecklistFile(root, "tasks.md", "demo", "s", granularity=granularity)


def shape(stories: tuple[Story, ...]) -> list[tuple[str, str, list[str], bool]]:
    return [(s.id, s.title, [t.text for t in s.tasks], s.done) for s in stories]


def test_every_task_is_a_story(tmp_path: Path) -> None:
    book = file(tmp_path, "task").load()
    assert shape(book.stories) == [
        ("1.1", "Write it", ["1.1 Write it"], False),
        ("1.2", "Test it", ["1.2 Test it"], True),
        ("2.1.1", "Left", ["2.1.1 Left"], False),
        ("2.1.2", "Right", ["2.1 Parts", "2.1.2 Right"], False),
        ("ship-it", "Ship it", ["Ship it"], False),
        ("ship-it.2", "Ship it", ["Ship it"], False),
    ]
    assert (book.total, book.complete, book.problems) == (7, 1, ())
    assert book.stories[0].body == "Part of: Server\n\nWhy: people."
    assert book.stories[0].tasks[0].detail == "  With care."


def test_the_change_is_one_story(tmp_path: Path) -> None:
    (story,) = file(tmp_path, "change").load().stories
    assert (story.id, story.title, len(story.tasks)) == ("demo", "The whole change demo", 7)
    assert story.body == "Its parts:\n\n- 1: Server\n- 2: Client"
    (flat,) = file(tmp_path, "change", "## 1. A\nWhy.\n- [ ] a\n").load().stories
    assert flat.body == "Why."


@pytest.mark.parametrize("granularity", ["task", "change"])
def test_a_file_without_tasks_stays_a_problem(tmp_path: Path, granularity: str) -> None:
    book = file(tmp_path, granularity, "# Nothing\n").load()
    assert (book.stories, len(book.problems)) == ((), 1)


def test_settling_a_task_ticks_its_box_and_that_of_a_parent_with_its_last_child(
    tmp_path: Path,
) -> None:
    tasks = file(tmp_path, "task")
    before = tasks.load()
    tasks.settle(before.stories[2], before)
    once = TASKS.replace("[ ] 2.1.1", "[x] 2.1.1")
    assert (tmp_path / "tasks.md").read_text() == once
    before = tasks.load()
    tasks.settle(before.stories[3], before)
    done = once.replace("[ ] 2.1 ", "[x] 2.1 ").replace("[ ] 2.1.2", "[x] 2.1.2")
    assert (tmp_path / "tasks.md").read_text() == done


def test_a_task_is_found_again_after_edits_and_claims_of_others_are_taken_back(
    tmp_path: Path,
) -> None:
    tasks = file(tmp_path, "task")
    before = tasks.load()
    edited = TASKS.replace("## 1. Server", "## 0. New\n- [ ] 0.1 new\n\n## 1. Server")
    (tmp_path / "tasks.md").write_text(edited.replace("[ ] 2.1.1", "[x] 2.1.1"))
    (said,) = tasks.settle(before.stories[0], before)
    assert "2.1.1" in said
    assert (tmp_path / "tasks.md").read_text() == edited.replace("[ ] 1.1", "[x] 1.1")


def test_settling_the_whole_change_ticks_everything(tmp_path: Path) -> None:
    tasks = file(tmp_path, "change")
    before = tasks.load()
    tasks.settle(before.stories[0], before)
    assert (tmp_path / "tasks.md").read_text() == TASKS.replace("[ ]", "[x]")


def test_numbers_that_several_groups_use_are_told_apart(tmp_path: Path) -> None:
    text = "## A\n- [ ] 1. one\n- [ ] 2. two\n## B\n- [ ] 1. uno\n"
    book = file(tmp_path, "task", text).load()
    assert [(s.id, s.title) for s in book.stories] == [("a.1", "one"), ("2", "two"), ("b.1", "uno")]
    assert book.problems == ()


def test_a_checklist_in_several_files(tmp_path: Path) -> None:
    paths = ["home/tasks.md", "home/api/v1/tasks.md"]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"## 1. {path}\n- [ ] 1.1 a\n[ ] b\n")
    many = ChecklistFile(tmp_path, "home", "demo", "s", files=lambda: paths)
    before = many.load()
    assert [(s.id, s.path) for s in before.stories] == [("1", paths[0]), ("api-v1.1", paths[1])]
    assert [(r.path, r.line) for r in before.ignored] == [(paths[0], 3), (paths[1], 3)]
    many.settle(before.stories[1], before)
    assert [s.done for s in many.load().stories] == [False, True]
    many.take_back(before)
    assert many.load() == before
    whole = ChecklistFile(tmp_path, "home", "demo", "s", granularity="change", files=lambda: paths)
    before = whole.load()
    assert [(t.text, t.path) for t in before.stories[0].tasks] == [
        ("1.1 a", paths[0]),
        ("1.1 a", paths[1]),
    ]
    whole.settle(before.stories[0], before)
    assert all("[x] 1.1" in (tmp_path / path).read_text() for path in paths)
    assert whole.load().stories[0].done
    one = ChecklistFile(tmp_path, "home", "demo", "s", granularity="task", files=lambda: paths)
    assert [s.id for s in one.load().stories] == ["1.1", "api-v1.1.1"]
    (tmp_path / paths[0]).write_text("nothing\n")
    assert (len(many.load().stories), many.load().problems) == (1, ())
    (tmp_path / paths[1]).write_text("nothing\n")
    (problem,) = many.load().problems
    assert "home" in problem.why


def test_a_task_waits_for_all_tasks_that_its_group_depends_on(tmp_path: Path) -> None:
    text = TASKS.replace("Why: people.", "Depends: 2")
    found = file(tmp_path, "task", text).load().stories
    assert found[0].depends_on == ("2.1.1", "2.1.2", "ship-it", "ship-it.2")
    assert file(tmp_path, "group", text).load().stories[0].depends_on == ("2",)
