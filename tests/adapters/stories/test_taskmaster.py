"""Task Master's tasks.json: tags, subtasks, its words for states, and edits in place."""

import json
from pathlib import Path

import pytest

from untildone.adapters.stories.source_kind import Options
from untildone.adapters.stories.taskmaster import SOURCE
from untildone.domain.errors import StoriesError
from untildone.ports import StorySource

TASKS = """\
{
  "master": {
    "tasks": [
      {"id": 1, "title": "Set up", "description": "Start", "status": "done", "dependencies": []},
      {
        "id": 2, "title": "Model", "details": "Use a table", "testStrategy": "Run it",
        "status": "pending", "dependencies": [1], "priority": "high",
        "subtasks": [
          {"id": 1, "title": "Fields", "status": "done", "dependencies": []},
          {"id": 2, "title": "Keys", "status": "in-progress", "dependencies": [1, "3.1"]}
        ]
      },
      {"id": "3", "title": "Ideas", "dependencies": ["1"], "status": "deferred"},
      {"id": 4, "title": "Old", "status": "cancelled", "dependencies": []}
    ],
    "metadata": {}
  },
  "feature-x": {"tasks": [{"id": 1, "title": "Other", "status": "review"}]},
  "empty": {"tasks": []}
}
"""
FILE = ".taskmaster/tasks/tasks.json"


def made(root: Path, text: str = TASKS, change: str = "master", path: str = FILE) -> StorySource:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
    return SOURCE.make(root, change, Options())


def test_the_tasks_of_a_tag(tmp_path: Path) -> None:
    book = made(tmp_path).load()
    assert (book.path, book.problems) == (FILE, ())
    assert [(s.id, s.done, s.depends_on, s.line) for s in book.stories] == [
        ("1", True, (), 4),
        ("2", False, ("1", "3"), 5),
        ("3", False, ("1",), 13),
        ("4", True, (), 14),
    ]
    model = book.stories[1]
    assert [(t.id, t.text, t.done, t.mark) for t in model.tasks] == [
        ("2", "Model", False, "pending"),
        ("2.1", "2.1 Fields", True, "done"),
        ("2.2", "2.2 Keys", False, "in-progress"),
    ]
    assert model.body == "Details: Use a table\n\nTest strategy: Run it"
    assert model.priority == 1
    assert [s.question for s in book.stories] == ["", "", "Ideas", ""]
    assert [r.why for r in book.ignored] == ["Task 4 counts as done: it is cancelled."]


def test_a_task_is_done_with_its_subtasks_and_taken_back(tmp_path: Path) -> None:
    source = made(tmp_path)
    before = source.load()
    assert source.settle(before.stories[1], before) == ()
    wanted = TASKS.replace('"pending"', '"done"').replace('"in-progress"', '"done"')
    assert (tmp_path / FILE).read_text() == wanted
    source.take_back(before)
    assert (tmp_path / FILE).read_text() == TASKS


def test_a_finished_task_finishes_its_subtasks(tmp_path: Path) -> None:
    book = made(tmp_path, TASKS.replace('"pending"', '"done"')).load()
    assert book.stories[1].done


def test_claims_for_other_tasks_are_taken_back(tmp_path: Path) -> None:
    source = made(tmp_path)
    before = source.load()
    claimed = TASKS.replace('"deferred"', '"done"').replace('"in-progress"', '"done"')
    (tmp_path / FILE).write_text(claimed)
    (said,) = source.settle(before.stories[0], before)[:1]
    assert "2.2" in said
    assert (tmp_path / FILE).read_text() == TASKS


def test_what_was_done_in_other_tasks_gets_its_word_again(tmp_path: Path) -> None:
    source = made(tmp_path)
    before = source.load()
    (tmp_path / FILE).write_text(TASKS.replace('"cancelled"', '"pending"'))
    (said,) = source.settle(before.stories[0], before)
    assert said == "Ticked again in story 4, where it was unticked during story 1: “Old”"
    assert (tmp_path / FILE).read_text() == TASKS


@pytest.mark.parametrize(
    ("change", "state", "titles"),
    [
        ("feature-x", "{}", ["Other"]),
        ("anything", '{"currentTag": "feature-x"}', ["Other"]),
        ("anything", '{"currentTag": "gone"}', ["Set up", "Model", "Ideas", "Old"]),
        ("anything", "broken", ["Set up", "Model", "Ideas", "Old"]),
    ],
)
def test_which_tag_is_meant(tmp_path: Path, change: str, state: str, titles: list[str]) -> None:
    source = made(tmp_path, change=change)
    (tmp_path / ".taskmaster/state.json").write_text(state)
    assert [story.title for story in source.load().stories] == titles


def test_tags_are_changes(tmp_path: Path) -> None:
    made(tmp_path)
    rows = [(found.name, found.total, found.complete, found.why) for found in SOURCE.find(tmp_path)]
    assert rows == [("master", 6, 3, ""), ("feature-x", 1, 0, "")]
    assert SOURCE.recognises(tmp_path, "feature-x")
    assert not SOURCE.recognises(tmp_path, "empty")


@pytest.mark.parametrize(("status", "waits"), [("done", ()), ("pending", ("1",))])
def test_nobody_waits_for_a_subtask_that_is_done(
    tmp_path: Path, status: str, waits: tuple[str, ...]
) -> None:
    first = {"id": 1, "title": "a", "status": "pending", "subtasks": [{"id": 1, "status": status}]}
    second = {"id": 2, "title": "b", "status": "pending", "dependencies": ["1.1"]}
    book = made(tmp_path, json.dumps({"master": {"tasks": [first, second]}})).load()
    assert [story.depends_on for story in book.stories] == [(), waits]


def test_a_subtask_may_have_its_whole_number(tmp_path: Path) -> None:
    parts = [{"id": "1.1", "title": "a", "status": "done"}, {"id": 1.2, "title": "b"}, {"id": 3}]
    first = {"id": 1, "title": "A", "subtasks": parts}
    second = {"id": 2, "title": "B", "dependencies": ["1.1"]}
    source = made(tmp_path, json.dumps({"master": {"tasks": [first, second]}}))
    book = source.load()
    assert [(t.id, t.text) for t in book.stories[0].tasks] == [
        ("1", "A"),
        ("1.1", "1.1 a"),
        ("1.2", "1.2 b"),
        ("1.3", "1.3 "),
    ]
    assert (book.stories[1].depends_on, book.problems) == ((), ())
    source.settle(book.stories[0], book)
    assert source.load().stories[0].done


def test_the_old_layout_is_the_tag_master(tmp_path: Path) -> None:
    old = {"tasks": [{"id": 1, "title": "a", "status": "pending"}], "metadata": {}}
    source = made(tmp_path, json.dumps(old), path="tasks/tasks.json")
    book = source.load()
    assert [story.id for story in book.stories] == ["1"]
    source.settle(book.stories[0], book)
    text = (tmp_path / "tasks/tasks.json").read_text()
    assert text == json.dumps(old).replace("pending", "done")
    assert [found.name for found in SOURCE.find(tmp_path)] == ["master"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "No task was found under the tag: master"),
        ('{"master": {"tasks": []}}', "No task was found"),
        ("[]", "No task was found"),
        ('{"master": {"tasks": [1, "a"]}}', "No task was found"),
        ('{"tasks": [{"id": 1, "status": "todo"}]}', "none of pending"),
        ('{"tasks": [{"id": 1, "status": ["done"]}]}', "has to be a word"),
        ('{"tasks": [{"id": 1}, {"id": "1"}]}', "same id"),
        ('{"tasks": [{"id": 1, "dependencies": [2]}, {"id": 2, "dependencies": [1]}]}', "1"),
    ],
)
def test_what_cannot_be_run_is_a_problem(tmp_path: Path, text: str, why: str) -> None:
    book = made(tmp_path, text).load()
    assert any(why in problem.why for problem in book.problems)


@pytest.mark.parametrize(
    "text",
    [
        '{"master": {"tasks": [{"id": 1}]},\n"master": {"tasks": [{"id": 2}]}}',
        '{"master": {"tasks": [{"id": 1}],\n"tasks": [{"id": 2}]}}',
        '{"tasks": [{"id": 1, "status": "done",\n"status": "pending"}]}',
        '{"tasks": [{"id": 1, "subtasks": [{"id": 1, "status": "done",\n"status": "pending"}]}]}',
    ],
)
def test_the_same_key_twice_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(StoriesError, match=r"tasks\.json:2: The key `\w+` stands here twice\."):
        made(tmp_path, text).load()


def test_a_broken_file_is_an_error_and_a_row(tmp_path: Path) -> None:
    source = made(tmp_path, '{"master": {\n"tasks": [}}')
    with pytest.raises(StoriesError, match=r"tasks\.json:2: "):
        source.load()
    (row,) = SOURCE.find(tmp_path)
    assert row.open
    assert "tasks.json" in row.why


def of(root: Path, *tasks: dict[str, object]) -> StorySource:
    return made(root, json.dumps({"master": {"tasks": tasks}}))


def test_a_task_in_progress_comes_first_when_a_subtask_can_be_worked_on(tmp_path: Path) -> None:
    parts = [{"id": 1, "status": "done"}, {"id": 2, "title": "b", "dependencies": [1]}]
    waiting = [{"id": 1, "status": "pending", "dependencies": ["1.1", 2]}, {"id": 2}]
    book = of(
        tmp_path,
        {"id": 1, "title": "Urgent", "status": "pending", "priority": "critical"},
        {"id": 2, "title": "Begun", "status": "in-progress", "priority": "low", "subtasks": parts},
        {"id": 3, "title": "Begun, no part", "status": "in-progress", "priority": "low"},
        {"id": 4, "title": "All wait", "status": "in-progress", "subtasks": waiting[:1]},
        {"id": 5, "title": "One waits", "status": "in-progress", "subtasks": waiting},
    ).load()
    order = [story.id for story in book.open_stories(frozenset())]
    assert order == ["5", "2", "1", "4", "3"]


def test_priority_then_fewer_dependencies_then_the_id(tmp_path: Path) -> None:
    book = of(
        tmp_path,
        {"id": 10, "title": "a", "dependencies": []},
        {"id": 9, "title": "b", "dependencies": [1], "priority": "medium"},
        {"id": 1, "title": "c", "status": "done"},
        {"id": 2, "title": "d"},
        {"id": "x", "title": "e", "priority": "high"},
    ).load()
    order = [story.id for story in book.open_stories(frozenset())]
    assert order == ["x", "2", "10", "9"]


def test_a_task_that_depends_on_none_there_is_held_back_alone(tmp_path: Path) -> None:
    book = of(
        tmp_path, {"id": 1, "title": "a", "dependencies": [7]}, {"id": 2, "title": "b"}
    ).load()
    assert book.problems == ()
    assert [bool(story.question) for story in book.stories] == [True, False]


def test_a_subtask_that_is_no_object_leaves_its_task_unfinished(tmp_path: Path) -> None:
    book = of(tmp_path, {"id": 1, "title": "a", "subtasks": ["write it"]}).load()
    assert "no object" in book.unfinished
