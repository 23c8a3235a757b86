"""A new story is written as its neighbours are, and every other byte stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from untildone.domain.errors import StoriesError
from untildone.domain.stories.story import NewStory
from untildone.ports import GrowingSource
from untildone.wiring.sources import story_source

if TYPE_CHECKING:
    from pathlib import Path

NUMBERED = "# Tasks\n\n## 1. Alpha\n\n- [x] 1.1 a\n- [ ] 1.2 b\n\n## 2. Bravo\n\n- [ ] 2.1 c\n"
PHASES = (
    "# Tasks\n\n## Phase 1: Setup\n- [ ] T001 a\n- [ ] T002 [P] b\n\n---\n\n## Notes\n\nWords.\n"
)
KIRO = "# Plan\n\n- [x] 1. Alpha\n  - [x] 1.1 a\n    - more words\n- [ ] 2. Bravo\n  - [ ] 2.1 b\n"
PRD = """\
{
  "project": "x",
  "userStories": [
    {
      "id": "US-009",
      "title": "Alpha",
      "acceptanceCriteria": ["a"],
      "priority": 1,
      "passes": true,
      "notes": "n"
    }
  ]
}
"""
RALPHY = "tasks:\n  - title: Alpha\n    completed: true\n  - title: Bravo\n    completed: false\n"
NEW = NewStory("Delta")


@pytest.mark.parametrize(
    ("path", "source", "text", "new", "added"),
    [
        ("tasks.md", "tasks-md", NUMBERED, NEW, "\n## 3. Delta\n\n- [ ] 3.1 Delta\n"),
        (
            *("tasks.md", "tasks-md", NUMBERED, NewStory("Delta", ("one", "two"), ("1", "2"))),
            "\n## 3. Delta\n\nDepends: 1, 2\n\n- [ ] 3.1 one\n- [ ] 3.2 two\n",
        ),
        (
            *("tasks.md", "tasks-md", "# T\n\n## Alpha\n* [ ] a\n", NEW),
            "\n## Delta\n* [ ] Delta\n",
        ),
        (
            *("tasks.md", "tasks-md", "# T\n\n### Alpha\n\n1. [ ] a\n2. [ ] b", NEW),
            "\n\n### Delta\n\n1. [ ] Delta\n",
        ),
        ("tasks.md", "tasks-md", "- [ ] a\n- [x] b\n", NEW, "- [ ] Delta\n"),
        ("tasks.md", "tasks-md", "- [ ] a\n\n- [x] b\n", NEW, "\n- [ ] Delta\n"),
        (
            *("tasks.md", "tasks-md", "- [ ] a\n", NewStory("Delta", ("one",), ("a",))),
            "- [ ] Delta\n  Depends: a\n  - [ ] one\n",
        ),
        ("tasks.md", "tasks-md", "", NEW, "## 1. Delta\n\n- [ ] 1.1 Delta\n"),
        ("tasks.md", "tasks-md", "# Tasks\n", NEW, "\n## 1. Delta\n\n- [ ] 1.1 Delta\n"),
        ("TODO.md", "markdown", "## Now\n\n- [ ] a\n", NEW, "\n## Delta\n\n- [ ] Delta\n"),
        (
            *(".kiro/specs/demo/tasks.md", "kiro", KIRO, NewStory("Delta", ("one", "two"))),
            "- [ ] 3. Delta\n  - [ ] 3.1 one\n  - [ ] 3.2 two\n",
        ),
        (".kiro/specs/demo/tasks.md", "kiro", "- [ ] 1. Alpha\n", NEW, "- [ ] 2. Delta\n"),
        (
            *(".kiro/specs/demo/tasks.md", "kiro", "- [ ] 1. A\n\n- [ ] 1.1 a\n\n- [ ]* 1.2 b\n"),
            NewStory("Delta", ("one",), ("1",)),
            "- [ ] 2. Delta\n  Depends: 1\n- [ ] 2.1 one\n",
        ),
        (
            *("tasks.yaml", "ralphy", RALPHY, NewStory("Delta: it", ("one",), ("bravo",))),
            '  - title: "Delta: it"\n    completed: false\n    acceptanceCriteria:\n'
            "      - one\n    dependsOn:\n      - bravo\n",
        ),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_at_the_end(
    tmp_path: Path, newline: str, path: str, source: str, text: str, new: NewStory, added: str
) -> None:
    text = text.replace("\n", newline)
    grown = grow(tmp_path, path, source, text, new)
    sign = newline if newline in text else "\n"
    assert grown == text + added.replace("\n", sign)


def test_before_what_belongs_to_no_story(tmp_path: Path) -> None:
    grown = grow(tmp_path, "specs/001-x/tasks.md", "speckit", PHASES, NewStory("Delta", ("d",)))
    story = "\n\n## Phase 2: Delta\n- [ ] T003 d\n\n---"
    assert grown == PHASES.replace("\n\n---", story)


def test_behind_another(tmp_path: Path) -> None:
    new = NewStory("Delta", after=("1", "Alpha"))
    grown = grow(tmp_path, "tasks.md", "tasks-md", NUMBERED, new)
    assert grown == NUMBERED.replace("\n## 2", "\n## 3. Delta\n\n- [ ] 3.1 Delta\n\n## 2")
    grown = grow(tmp_path, ".kiro/specs/demo/tasks.md", "kiro", KIRO, new)
    assert grown == KIRO.replace("- [ ] 2. B", "- [ ] 3. Delta\n- [ ] 2. B")


def test_an_object_with_the_fields_of_the_one_before(tmp_path: Path) -> None:
    new = NewStory("Delta", ("one",), ("US-009",))
    grown = grow(tmp_path, "prd.json", "prd-json", PRD, new)
    story = """,
    {
      "id": "US-010",
      "title": "Delta",
      "acceptanceCriteria": [
        "one"
      ],
      "priority": 2,
      "passes": false,
      "dependsOn": [
        "US-009"
      ]
    }
  ]"""
    assert grown == PRD.replace("\n  ]", story)
    short = '[{"id": 1, "title": "A", "status": "DONE"}]'
    assert grow(tmp_path, "prd.json", "prd-json", short, NEW) == (
        '[{"id": 1, "title": "A", "status": "DONE"}, {"id": 2, "title": "Delta", "status": "OPEN"}]'
    )


@pytest.mark.parametrize(
    ("path", "source", "text"),
    [
        ("prd.json", "prd-json", '{"stories": {"a": {"title": "A", "passes": false}}}'),
        ("prd.json", "prd-json", '[{"id": "login", "title": "A", "passes": false}]'),
        ("prd.json", "prd-json", '{"stories": []}'),
        ("tasks.yaml", "ralphy", "tasks: [{title: A, completed: false}]\n"),
    ],
)
def test_no_one_answer(tmp_path: Path, path: str, source: str, text: str) -> None:
    with pytest.raises(StoriesError):
        grow(tmp_path, path, source, text, NEW)


def grow(root: Path, path: str, source: str, text: str, new: NewStory) -> str:
    """The text with the new story, which is read as it was meant."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    change = {"speckit": "001-x", "markdown": "todo"}.get(source, "demo")
    opened = story_source(source, root, change)
    assert opened
    before = {story.key for story in opened.load().stories}
    assert isinstance(opened, GrowingSource)
    grown = opened.grown(new)
    assert grown.path == path
    assert not grown.book.problems
    (story,) = [story for story in grown.book.stories if story.key not in before]
    assert story.title.endswith(new.title)
    assert set(story.depends_on) >= set(new.depends)
    assert file.read_bytes() == text.encode()
    return grown.data.decode()
