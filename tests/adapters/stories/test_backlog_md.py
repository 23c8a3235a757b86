"""Backlog.md: a file per task, its status and its boxes written in place."""

from pathlib import Path

import pytest

from untildone.adapters.stories.backlog_md import SOURCE
from untildone.adapters.stories.source_kind import Options
from untildone.domain.errors import StoryLost
from untildone.ports import StorySource

FIRST = """\
---
id: TASK-1
title: 'First: thing'
status: To Do # not yet
assignee: []
dependencies: []
priority: high
ordinal: 2000
---

## Description

<!-- SECTION:DESCRIPTION:BEGIN -->
Describe it
<!-- SECTION:DESCRIPTION:END -->

## Acceptance Criteria
<!-- AC:BEGIN -->
- [ ] #1 it works
- [x] #2 it is tested
<!-- AC:END -->

## Notes
- [ ] no criterion
"""
SECOND = """\
---
id: TASK-2
title: >-
  A title that is
  folded
status: In Progress
labels:
  - a
dependencies:
  - TASK-1
  - TASK-0
ordinal: 1000
---
"""
OLD = "---\nid: TASK-0\ntitle: Old\nstatus: To Do\n---\n"


@pytest.fixture
def backlog(tmp_path: Path) -> StorySource:
    write(tmp_path, "tasks/task-1 - First-thing.md", FIRST)
    write(tmp_path, "tasks/task-2 - Folded.md", SECOND.replace("\n", "\r\n"))
    write(tmp_path, "completed/task-0 - Old.md", OLD)
    write(tmp_path, "tasks/readme.md", "# Not a task\n")
    return SOURCE.make(tmp_path, "backlog", Options())


def write(root: Path, name: str, text: str) -> None:
    (root / "backlog" / name).parent.mkdir(parents=True, exist_ok=True)
    (root / "backlog" / name).write_bytes(text.encode())


def read(root: Path, name: str) -> str:
    return (root / "backlog/tasks" / name).read_bytes().decode()


def test_tasks_are_read_in_the_order_of_the_board(tmp_path: Path, backlog: StorySource) -> None:
    book = backlog.load()
    assert [(s.id, s.title, s.done, s.depends_on, s.line) for s in book.stories] == [
        ("TASK-2", "A title that is folded", False, ("TASK-1", "TASK-0"), 2),
        ("TASK-1", "First: thing", False, (), 2),
        ("TASK-0", "Old", True, (), 2),
    ]
    first = book.stories[1]
    assert [(t.id, t.text, t.done, t.line) for t in first.tasks] == [
        ("TASK-1", "First: thing", False, 2),
        ("#1", "#1 it works", False, 19),
        ("#2", "#2 it is tested", True, 20),
    ]
    assert first.acceptance == ("it works", "it is tested")
    assert first.body.startswith("## Description\n\nDescribe it\n")
    assert first.path == "backlog/tasks/task-1 - First-thing.md"
    assert [(r.path, "front matter" in r.why) for r in book.ignored] == [
        ("backlog/tasks/readme.md", True)
    ]
    assert book.problems == ()


def test_status_and_boxes_are_written_in_place(tmp_path: Path, backlog: StorySource) -> None:
    before = backlog.load()
    assert backlog.settle(before.stories[1], before) == ()
    wanted = FIRST.replace("To Do #", "Done #").replace("[ ] #1", "[x] #1")
    assert read(tmp_path, "task-1 - First-thing.md") == wanted
    again = backlog.load()
    backlog.settle(again.stories[0], again)
    wanted = SECOND.replace("In Progress", "Done").replace("\n", "\r\n")
    assert read(tmp_path, "task-2 - Folded.md") == wanted
    backlog.take_back(before)
    assert read(tmp_path, "task-1 - First-thing.md") == FIRST
    assert read(tmp_path, "task-2 - Folded.md") == SECOND.replace("\n", "\r\n")


def test_claims_in_other_files_are_taken_back(tmp_path: Path, backlog: StorySource) -> None:
    before = backlog.load()
    claimed = FIRST.replace("To Do", "Done").replace("[ ] #1", "[x] #1")
    write(tmp_path, "tasks/task-1 - First-thing.md", claimed)
    said = backlog.settle(before.stories[0], before)
    assert "TASK-1" in said[0]
    assert read(tmp_path, "task-1 - First-thing.md") == FIRST


def test_what_was_done_in_other_files_stays_done(tmp_path: Path, backlog: StorySource) -> None:
    done = FIRST.replace("To Do", "Done").replace("[ ] #1", "[x] #1")
    write(tmp_path, "tasks/task-1 - First-thing.md", done)
    before = backlog.load()
    write(tmp_path, "tasks/task-1 - First-thing.md", FIRST)
    second = next(story for story in before.stories if story.id == "TASK-2")
    (said,) = backlog.settle(second, before)
    assert said.startswith("Ticked again in story TASK-1")
    assert read(tmp_path, "task-1 - First-thing.md") == done


def test_tasks_without_a_place_on_the_board_come_last_by_priority(
    tmp_path: Path, backlog: StorySource
) -> None:
    for number, priority in ((7, "low"), (8, "high")):
        head = f"id: task-{number}\ntitle: T\nstatus: To Do\npriority: {priority}\n"
        write(tmp_path, f"tasks/task-{number} - T.md", f"---\n{head}dependencies: [task-1]\n---\n")
    added = [story for story in backlog.load().stories if story.title == "T"]
    assert [story.id for story in added] == ["task-8", "task-7"]
    assert added[0].depends_on == ("TASK-1",)


def test_the_board_orders_and_the_priority_is_kept(tmp_path: Path) -> None:
    for number, (priority, ordinal) in enumerate((("low", 1000), ("high", 2000), ("high", 1000))):
        head = f"id: task-{number}\npriority: {priority}\nordinal: {ordinal}"
        write(tmp_path, f"tasks/task-{number} - T.md", f"---\n{head}\n---\n")
    write(tmp_path, "tasks/task-3 - T.md", "---\nid: task-3\npriority: medium\n---\n")
    book = SOURCE.make(tmp_path, "backlog", Options()).load()
    order = [("task-2", 1), ("task-0", 3), ("task-1", 1), ("task-3", 2)]
    assert [(story.id, story.priority) for story in book.stories] == order
    assert [(story.id, story.priority) for story in book.open_stories(frozenset())] == order


def test_the_project_has_its_own_words(tmp_path: Path, backlog: StorySource) -> None:
    write(tmp_path, "config.yml", 'statuses: ["Todo", "Doing", "Shipped it"]\n')
    before = backlog.load()
    backlog.settle(before.stories[1], before)
    assert "status: Shipped it # not yet" in read(tmp_path, "task-1 - First-thing.md")
    assert backlog.load().stories[1].done


def test_a_task_without_a_status_gets_one(tmp_path: Path, backlog: StorySource) -> None:
    write(tmp_path, "tasks/task-1 - First-thing.md", "---\nid: TASK-1\n---\n")
    before = backlog.load()
    backlog.settle(before.find(("TASK-1", "TASK-1")) or before.stories[0], before)
    assert read(tmp_path, "task-1 - First-thing.md") == "---\nid: TASK-1\nstatus: Done\n---\n"


def test_a_renamed_task_is_lost(tmp_path: Path, backlog: StorySource) -> None:
    before = backlog.load()
    (tmp_path / "backlog/tasks/task-2 - Folded.md").unlink()
    with pytest.raises(StoryLost):
        backlog.settle(before.stories[0], before)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("---\nid: TASK-3\nstatus: &x Done\n---\n", 3, "begins with `&`"),
        ("---\nid: TASK-3\nid: TASK-4\n---\n", 3, "twice"),
        ("---\nid: TASK-1\n---\n", 2, "same id: TASK-1"),
    ],
)
def test_what_is_wrong_names_file_and_line(
    tmp_path: Path, backlog: StorySource, text: str, line: int, why: str
) -> None:
    write(tmp_path, "tasks/task-3 - Bad.md", text)
    (problem,) = backlog.load().problems
    assert (problem.path, problem.line) == ("backlog/tasks/task-3 - Bad.md", line)
    assert why in problem.why


@pytest.mark.parametrize(
    ("archived", "why"),
    [
        (False, "It depends on what is not in this change: TASK-9 (did you mean `TASK-2`?)"),
        (True, "It depends on what is archived: TASK-9"),
    ],
)
def test_a_missing_dependency_holds_back_its_own_task_only(
    tmp_path: Path, backlog: StorySource, archived: bool, why: str
) -> None:
    write(tmp_path, "tasks/task-3 - Waits.md", "---\nid: TASK-3\ndependencies: [TASK-9, 1]\n---\n")
    if archived:
        write(tmp_path, "archive/tasks/task-9 - Away.md", "---\nid: TASK-9\n---\n")
    book = backlog.load()
    assert book.problems == ()
    asked = {story.id: story.question for story in book.stories if story.question}
    assert asked == {"TASK-3": why}
    assert book.stories[-1].id == "TASK-0"  # what is archived is no task


def test_ids_are_the_same_in_capitals(tmp_path: Path, backlog: StorySource) -> None:
    write(tmp_path, "tasks/task-3 - Waits.md", "---\nid: task-3\ndependencies: [task-1]\n---\n")
    book = backlog.load()
    story = next(story for story in book.stories if story.id == "task-3")
    assert (story.depends_on, story.question, book.problems) == (("TASK-1",), "", ())


@pytest.mark.parametrize(
    ("told", "prefix"),
    [
        ("['1']", "task"),
        ("[1]", "task"),
        ("[task-001]", "task"),
        ("[TASK-01]", "task"),
        ("1", "task"),
        ("[1, jira-001]", "JIRA"),
    ],
)
def test_a_number_alone_is_a_task(tmp_path: Path, told: str, prefix: str) -> None:
    write(tmp_path, "config.yml", f"task_prefix: {prefix}\n")
    write(tmp_path, "tasks/1.md", f"---\nid: {prefix}-1\n---\n")
    write(tmp_path, "tasks/2.md", f"---\nid: {prefix}-2.1\ndependencies: {told}\n---\n")
    write(tmp_path, "tasks/3.md", f"---\nid: {prefix}-10\ndependencies: ['2.01']\n---\n")
    book = SOURCE.make(tmp_path, "backlog", Options()).load()
    assert book.problems == ()
    assert [(story.id, story.depends_on) for story in book.stories] == [
        (f"{prefix}-1", ()),
        (f"{prefix}-2.1", (f"{prefix}-1",)),
        (f"{prefix}-10", (f"{prefix}-2.1",)),
    ]


def test_criteria_without_marks_around_them(tmp_path: Path, backlog: StorySource) -> None:
    text = (
        "---\nid: task-3\nassignee: @me\n---\n\n## Description\n\nWhy\n\n## Acceptance Criteria\n\n"
        "- [x] one\n- [ ] two\n\n## Implementation Plan\n\n- [ ] step\n"
    )
    write(tmp_path, "tasks/task-3 - Old.md", text)
    book = backlog.load()
    story = next(story for story in book.stories if story.id == "task-3")
    assert [(t.id, t.done) for t in story.tasks] == [
        ("task-3", False),
        ("#1", True),
        ("#2", False),
    ]
    assert story.acceptance == ("one", "two")
    assert story.body == "## Description\n\nWhy\n\n## Implementation Plan\n\n- [ ] step"
    backlog.settle(story, book)
    wanted = text.replace("[ ] two", "[x] two").replace("@me\n", "@me\nstatus: Done\n")
    assert sorted(read(tmp_path, "task-3 - Old.md")) == sorted(wanted)


def test_a_document_among_the_tasks_is_none(tmp_path: Path, backlog: StorySource) -> None:
    write(tmp_path, "completed/doc-1 - Steps.md", "---\nid: doc-1\ntitle: Steps\n---\n")
    book = backlog.load()
    assert "doc-1" not in [story.id for story in book.stories]
    assert [r.path for r in book.ignored if "task-" in r.why] == [
        "backlog/completed/doc-1 - Steps.md"
    ]
    write(tmp_path, "config.yml", 'task_prefix: "doc"\n')
    assert [story.id for story in backlog.load().stories] == ["doc-1"]


def test_an_empty_backlog_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path, "completed/task-0 - Old.md", OLD)
    (tmp_path / "backlog/tasks").mkdir()
    (row,) = SOURCE.find(tmp_path)
    assert (row.name, row.open) == ("backlog", True)
    assert SOURCE.recognises(tmp_path, "backlog")
    assert not SOURCE.recognises(tmp_path, "other")
