"""ralphy's YAML task list: read, ordered by group, and ticked without touching a comment."""

from pathlib import Path

import pytest

from untildone.adapters.stories.ralphy import SOURCE
from untildone.adapters.stories.source_kind import Options
from untildone.domain.errors import StoriesError

TASKS = """\
# What to build
tasks:
  - title: Create the model # first
    completed: false
    parallel_group: 1
  - title: "Write: the docs"   # quotes
    description: |
      Say what it does.

      And why.
  - title: Add the API
    completed: false
    parallel_group: 1
    dependsOn: [Create the model]
"""


def test_a_title_names_one_task_only(tmp_path: Path) -> None:
    (tmp_path / "tasks.yaml").write_text("tasks:\n- title: A\n- title: a\n- title: A\n- id: A\n")
    book = SOURCE.make(tmp_path, "tasks", Options()).load()
    (problem,) = book.problems
    assert (problem.line, problem.why) == (4, "Lines 2 and 4 start stories with the same title: A")


def test_tasks_are_read_and_written_in_place(tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    file.write_bytes(TASKS.replace("\n", "\r\n").encode())
    source = SOURCE.make(tmp_path, "tasks", Options())
    book = source.load()
    assert (book.source, book.path, book.problems) == ("ralphy", "tasks.yaml", ())
    assert [(s.id, s.line, s.priority, s.parallel, s.depends_on) for s in book.stories] == [
        ("create-the-model", 3, 1, True, ()),
        ("write-the-docs", 6, 0, False, ()),
        ("add-the-api", 11, 1, True, ("create-the-model",)),
    ]
    assert [s.group for s in book.stories] == [1, 0, 1]
    assert book.stories[1].body == "Say what it does.\n\nAnd why."
    assert book.open_stories(frozenset())[0].id == "write-the-docs"
    for story in book.stories:
        source.settle(story, source.load())
    wanted = TASKS.replace("completed: false", "completed: true").replace(
        "   # quotes\n", "   # quotes\n    completed: true\n"
    )
    assert file.read_bytes() == wanted.replace("\n", "\r\n").encode()
    source.take_back(book)
    assert not any(story.done for story in source.load().stories)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tasks:\n  - &a title: x\n", r"tasks\.yaml:2: A value that begins with `&`"),
        ("tasks:\n  - title: x\n    completed: [\n", r"tasks\.yaml:3: "),
    ],
)
def test_yaml_that_is_not_read_is_an_error_with_its_line(
    tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "tasks.yaml").write_text(text)
    with pytest.raises(StoriesError, match=why):
        SOURCE.make(tmp_path, "tasks", Options()).load()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "No story was found"),
        ("tasks:\n", "No story was found"),
        ("tasks:\n  - title: a\n    completed: yes\n", "`completed` has to be true or false"),
        ("tasks:\n  - id: 1\n    title: a\n  - id: 1\n    title: b\n", "same id: 1"),
    ],
)
def test_what_cannot_be_run_is_a_problem(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "tasks.yaml").write_text(text)
    (problem,) = SOURCE.make(tmp_path, "tasks", Options()).load().problems
    assert why in problem.why


@pytest.mark.parametrize(
    "text",
    [
        "includes:\n  - a: b.yaml\ntasks:\n  - name: default\n    actions:\n      - cmd: x\n",
        "- name: install\n  apt:\n    name: git\n    state: present\n",
        "apiVersion: tekton.dev/v1\nkind: Task\n---\nkind: Task\n",
        "research_task:\n  description: Look\n  agent: one\n",
    ],
)
def test_a_file_that_only_shares_the_name_is_not_listed(tmp_path: Path, text: str) -> None:
    (tmp_path / "tasks.yaml").write_text(text)
    assert SOURCE.find(tmp_path) == ()
    assert not SOURCE.recognises(tmp_path, "tasks")
    for text in ("tasks:\n- title: A\n", "tasks:\n  - id: a\n    description: A\n"):
        (tmp_path / "tasks.yaml").write_text(text)
        assert [row.name for row in SOURCE.find(tmp_path)] == ["tasks"]
