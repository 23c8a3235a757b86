"""Kiro specs: two levels, optional tasks, marks of interrupted runs, waves."""

import json
from pathlib import Path

import pytest

from untildone.adapters.stories import kiro
from untildone.adapters.stories.kiro import Kiro
from untildone.adapters.stories.source_kind import Found, Options
from untildone.domain.errors import StoriesError
from untildone.domain.stories.story import StoryContext

TASKS = """\
# Implementation Plan

## Overview

Words.

## Tasks

- [x] 1. Set up the project
  - Make folders
  - _Requirements: 1.1_

- [-] 2. Write the parser
  - [x] 2.1 Read tokens
    - _Requirements: 1.2, 2.1_
  - [~] 2.2 Build the tree
  - [ ]* 2.3 Write property tests
    - **Property 1**

- [ ] 3. Checkpoint - make sure that all tests pass
"""


def put(root: Path, text: str = TASKS, name: str = "parser") -> Kiro:
    folder = root / ".kiro/specs" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tasks.md").write_text(text)
    return Kiro(root, name)


def test_top_level_tasks_are_stories_whatever_the_headings(tmp_path: Path) -> None:
    book = put(tmp_path).load()
    assert [(s.id, [(t.id, t.done) for t in s.tasks], s.done) for s in book.stories] == [
        ("1", [("1", True)], True),
        ("2", [("2", False), ("2.1", True), ("2.2", False)], False),
        ("3", [("3", False)], False),
    ]
    assert book.problems == ()
    (optional,) = book.ignored
    assert (optional.line, "optional" in optional.why) == (17, True)


def test_tasks_without_numbers_belong_to_their_heading(tmp_path: Path) -> None:
    text = (
        "# Plan\n\n## Done\n\n### Task 1: Model\n- [x] Fields\n- [x] Tests\n\n"
        "## Left\n\n### Task 2: Page\n- [ ] Form\n  - [ ] Button\n- **Blocked by:** x\n"
    )
    source = put(tmp_path, text)
    book = source.load()
    assert [(s.id, [t.done for t in s.tasks]) for s in book.stories] == [
        ("task-1-model", [True, True]),
        ("task-2-page", [False, False]),
    ]
    source.settle(book.stories[1], book)
    path = tmp_path / ".kiro/specs/parser/tasks.md"
    assert path.read_text() == text.replace("[ ]", "[x]")
    flat = put(tmp_path, "# Plan\n\n- [ ] One\n- [x] Two\n", "flat").load()
    assert [(s.id, s.done) for s in flat.stories] == [("one", False), ("two", True)]


def test_equal_headings_are_told_apart_by_the_one_above(tmp_path: Path) -> None:
    text = (
        "# Plan\n\n## Phase 1\n\n### Tests\n- [ ] Of A\n\n### 1. Setup\n- [x] A\n\n"
        "## Phase 2\n\n### Tests\n- [ ] Of B\n\n### 1. Setup\n- [ ] B\n\n"
        "## More\n- [ ] C\n\n## More\n- [ ] D\n"
    )
    source = put(tmp_path, text)
    book = source.load()
    assert [(s.id, s.title) for s in book.stories] == [
        ("phase-1-tests", "Phase 1: Tests"),
        ("phase-1-setup", "Phase 1: Setup"),
        ("phase-2-tests", "Phase 2: Tests"),
        ("phase-2-setup", "Phase 2: Setup"),
        ("more", "More"),
        ("more.2", "More"),
    ]
    assert book.problems == ()
    source.settle(book.stories[-1], book)
    path = tmp_path / ".kiro/specs/parser/tasks.md"
    assert path.read_text() == text.replace("[ ] D", "[x] D")


def test_a_parent_is_as_done_as_what_is_below_it(tmp_path: Path) -> None:
    text = "- [ ] 1. A\n  - [x] 1.1 a\n  - [ ]* 1.2 b\n- [x] 2. B\n  - [ ] 2.1 c\n"
    book = put(tmp_path, text).load()
    assert [s.done for s in book.stories] == [True, False]
    source = Kiro(tmp_path, "parser")
    source.settle(book.stories[1], book)
    path = tmp_path / ".kiro/specs/parser/tasks.md"
    assert path.read_text() == text.replace("[ ] 2.1", "[x] 2.1")


def test_a_number_puts_a_task_below_another_at_the_same_column(tmp_path: Path) -> None:
    text = (
        "- [x] 1. A\n- [x] 1.1 a\n  - how a\n\n- [ ] 1.2 b\n  - [ ] 1.2.1 deep\n  - how b\n"
        "- [x]* 1.3 c\n- [ ] 2. B\n- [ ] 12. C\n- [ ] 12.1 d\n"
    )
    book = put(tmp_path, text).load()
    assert [(s.id, [(t.id, t.done, t.detail) for t in s.tasks]) for s in book.stories] == [
        (
            "1",
            [
                ("1", False, ""),
                ("1.1", True, "  - how a"),
                ("1.2", False, "  - how b"),
                ("1.2.1", False, ""),
            ],
        ),
        ("2", [("2", False, "")]),
        ("12", [("12", False, ""), ("12.1", False, "")]),
    ]
    source = Kiro(tmp_path, "parser", Options("task"))
    assert [s.id for s in source.load().stories] == ["1.1", "1.2.1", "2", "12.1"]
    source.settle(source.load().stories[1], source.load())
    path = tmp_path / ".kiro/specs/parser/tasks.md"
    assert path.read_text() == text.replace("[ ] 1.2", "[x] 1.2")


def test_the_last_task_of_a_group_may_be_done_before_the_others(tmp_path: Path) -> None:
    put(tmp_path, "- [ ] 1. A\n  - [ ] 1.1 a\n  - [ ] 1.2 b\n")
    source = Kiro(tmp_path, "parser", Options("task"))
    book = source.load()
    source.settle(book.stories[1], book)
    assert [(s.id, s.done) for s in source.load().stories] == [("1.1", False), ("1.2", True)]
    assert not Kiro(tmp_path, "parser").load().stories[0].done


@pytest.mark.parametrize("box", ["[ ]* 2. B", "[ ]*2. B", "[ ]\\* 2. B", "[ ] * 2. B", "[x]* B"])
def test_what_is_below_an_optional_task_is_optional(tmp_path: Path, box: str) -> None:
    book = put(tmp_path, f"- [x] 1. A\n- {box}\n  - [ ] 2.1 b\n- [ ] 3. C\n").load()
    assert [story.id for story in book.stories] == ["1", "3"]
    assert [remark.line for remark in book.ignored] == [2, 3]


@pytest.mark.parametrize("text", ["**2. Bold**", "*2. Slanted*", "**2.** Bold number"])
def test_stars_around_the_text_do_not_make_it_optional(tmp_path: Path, text: str) -> None:
    book = put(tmp_path, f"- [x] 1. A\n- [ ] {text}\n").load()
    assert [(story.id, story.done) for story in book.stories] == [("1", True), ("2", False)]
    assert book.ignored == ()


def test_a_spec_whose_tasks_are_all_optional_says_so(tmp_path: Path) -> None:
    book = put(tmp_path, "# Plan\n\n- [ ]* 1. A\n").load()
    (problem,) = book.problems
    assert (problem.line, "optional" in problem.why) == (3, True)


def test_settling_ticks_the_required_boxes(tmp_path: Path) -> None:
    source = put(tmp_path)
    book = source.load()
    source.settle(book.stories[1], book)
    done = TASKS.replace("[-] 2.", "[x] 2.").replace("[~] 2.2", "[x] 2.2")
    assert (tmp_path / ".kiro/specs/parser/tasks.md").read_text() == done


WAVES = {
    "waves": {"waves": [{"id": 0, "tasks": ["1"]}, {"id": 1, "tasks": ["2.1", "2.2"]}]},
    "numbers": {"waves": [{"wave": 0, "tasks": [1]}, {"wave": 1, "tasks": [2.1, 2.2]}]},
    "lists": [["1"], ["2.1", {"id": "2.2"}]],
    "names of tasks": {"waves": [{"tasks": ["1."]}, {"tasks": [{"task": "2.1"}]}]},
    "single tasks": {"tasks": [{"id": "1"}, {"id": "2.1", "depends_on": ["1", "99"]}]},
}


@pytest.mark.parametrize("name", WAVES)
def test_waves_say_what_comes_first(tmp_path: Path, name: str) -> None:
    graph = json.dumps(WAVES[name])
    note = 'Every wave (see depends_on or "waves") is a step.\n'
    text = f"{TASKS}\n## Task Dependency Graph\n{note}\n```json\n{graph}\n```\n"
    book = put(tmp_path, text).load()
    assert [s.depends_on for s in book.stories] == [(), ("1",), ("1", "2")]


def test_tasks_of_one_wave_may_be_worked_on_at_once(tmp_path: Path) -> None:
    tasks = "- [ ] 1. One\n- [ ] 2. Two\n- [ ] 3. Three\n- [ ] 4. Four\n"
    graph = '{"waves": [{"id": 0, "tasks": ["1"]}, {"id": 1, "tasks": ["2", "3"]}]}'
    book = put(tmp_path, f"{tasks}\n```json\n{graph}\n```\n").load()
    assert [story.parallel for story in book.stories] == [False, True, True, False]


NOTHING = "The task graph orders nothing: there is no task of this file in its `waves`."


@pytest.mark.parametrize(
    ("graph", "told"),
    [
        ('{"waves": 3}', [(23, NOTHING)]),
        ('{"waves": [null, {"tasks": [true, null, "99"]}]}', [(23, NOTHING)]),
        ('"waves"', [(23, NOTHING)]),
        (
            '{"waves": [\n["1"],\n["2"],\n]}',
            [(26, "The task graph is not JSON, so it orders nothing: Illegal trailing comma")],
        ),
        ("{", []),
        ("7", []),
        ('["1", "99"]', []),
    ],
)
def test_a_graph_that_says_nothing_changes_nothing_and_is_told(
    tmp_path: Path, graph: str, told: list[tuple[int, str]]
) -> None:
    text = f'{TASKS}\n```json\n{graph}\n```\n"waves"\n'
    book = put(tmp_path, text).load()
    assert [s.depends_on for s in book.stories] == [(), (), ()]
    remarks = [remark for remark in book.ignored if "optional" not in remark.why]
    assert [remark.line for remark in remarks] == [line for line, _ in told]
    assert [remark.why[:40] for remark in remarks] == [why[:40] for _, why in told]


def test_what_is_no_task_in_a_wave_is_told(tmp_path: Path) -> None:
    graph = {
        "waves": [None, {"id": 0, "tasks": ["1", True]}, {"id": 1, "tasks": ["2.1", "2.3", "2.9"]}],
        "dependencies": {"7": ["1"], "2.2": ["1.5"]},
    }
    book = put(tmp_path, f"{TASKS}\n```json\n{json.dumps(graph)}\n```\n").load()
    assert [s.depends_on for s in book.stories] == [(), ("1",), ("1", "2")]
    assert [remark.why for remark in book.ignored[1:]] == [
        "The task graph names what is no task of this file: `None`, `True`, 2.9, 7, 1.5"
    ]


def test_of_very_much_that_is_no_task_the_first_is_told(tmp_path: Path) -> None:
    names = ["\ud800", "x" * 900, *(str(number) for number in range(20, 31))]
    book = put(tmp_path, f'{TASKS}\n```\n{{"waves": [["1"], {json.dumps(names)}]}}\n```\n').load()
    listed = ", ".join(["\ufffd", "x" * 40, *map(str, range(20, 28))])
    assert book.ignored[1].why == (
        f"The task graph names what is no task of this file: {listed} and 3 more"
    )


CHECKED = """\
- [ ] 1. A
  - [ ] 1.1 a
  - [ ] 1.2 b
- [ ] 2. Checkpoint - Ensure all tests pass
- [ ] 3. C
  - [ ] 3.1 c
  - [ ] 3.2 d
- [ ] 4. D
  - [ ] e
  - [ ] f
- [ ] 5. Final checkpoint
"""


def by_task(root: Path, graph: object, text: str = CHECKED) -> dict[str, tuple[str, ...]]:
    put(root, f"{text}\n```json\n{json.dumps(graph)}\n```\n")
    book = Kiro(root, "parser", Options("task")).load()
    assert (book.ignored, book.problems) == ((), ())
    return {story.id: story.depends_on for story in book.stories}


def test_a_task_outside_the_waves_waits_for_what_stands_before_it(tmp_path: Path) -> None:
    graph = {"waves": [{"tasks": ["1.1", "3.1"]}, {"tasks": ["1.2", "3.2"]}, {"tasks": ["4"]}]}
    assert by_task(tmp_path, graph) == {
        "1.1": (),
        "1.2": ("1.1", "3.1"),
        "2": ("1.1", "1.2"),
        "3.1": (),
        "3.2": ("1.1", "3.1"),
        "e": ("1.2", "3.2"),
        "f": ("1.2", "3.2"),
        "5": ("2", "3.1", "3.2", "e", "f"),
    }


def test_a_checkpoint_that_is_done_hides_nothing_that_is_open_before_it(tmp_path: Path) -> None:
    graph = {"waves": [["1.1", "1.2"], ["3", "4"]]}
    found = by_task(tmp_path, graph, CHECKED.replace("[ ] 2.", "[x] 2."))
    assert found["5"] == ("1.1", "1.2", "2", "3.1", "3.2", "e", "f")


def test_a_task_outside_the_waves_does_not_wait_for_what_waits_for_it(tmp_path: Path) -> None:
    text = CHECKED.replace("1.2 b\n", "1.2 b\n    - _Depends: 3_\n")
    text = text.replace("3.1 c\n", "3.1 c\n    - _Depends: 2_\n")
    assert by_task(tmp_path, {"waves": [["1.1"], ["4"]]}, text) == {
        "1.1": (),
        "1.2": ("3.1", "3.2", "1.1"),
        "2": ("1.1",),
        "3.1": ("2", "1.1"),
        "3.2": ("1.1", "2", "3.1"),
        "e": ("1.1",),
        "f": ("1.1",),
        "5": ("1.2", "2", "3.1", "3.2", "e", "f"),
    }


def test_waves_come_in_the_order_of_their_numbers_if_all_have_one(tmp_path: Path) -> None:
    for key in ("id", "wave"):
        graph = {"waves": [{key: 2, "tasks": ["3"]}, {key: 1, "tasks": ["1", "2", "4", "5"]}]}
        found = by_task(tmp_path, graph)
        assert (found["1.1"], found["3.1"]) == ((), ("1.1", "1.2", "2", "e", "f", "5"))
    some = {"waves": [{"id": 2, "tasks": ["3"]}, {"tasks": ["1", "2", "4", "5"]}]}
    assert by_task(tmp_path, some)["1.1"] == ("3.1", "3.2")


def test_what_a_graph_says_of_single_tasks_holds_beside_the_waves(tmp_path: Path) -> None:
    graph = {"waves": [["1", "3"]], "dependencies": {"4": [1, "3.1"], "5": 4, "3.2": []}}
    assert by_task(tmp_path, graph) == {
        "1.1": (),
        "1.2": (),
        "2": ("1.1", "1.2"),
        "3.1": (),
        "3.2": (),
        "e": ("1.1", "1.2", "3.1"),
        "f": ("1.1", "1.2", "3.1"),
        "5": ("e", "f"),
    }


def test_a_parent_counts_as_what_is_below_it_at_every_level(tmp_path: Path) -> None:
    text = "- [-] 2. A\n  - [ ] 2.1 a\n  - [~] 2.2 b\n    - [x] c\n"
    source = put(tmp_path, text)
    before = source.load()
    assert [task.done for task in before.stories[0].tasks] == [False, False, True, True]
    source.settle(before.stories[0], before)
    assert source.load().stories[0].done


def test_a_single_task_is_done_while_one_beside_it_is_open(tmp_path: Path) -> None:
    put(tmp_path, "- [ ] 1. A\n  - [ ] 1.1 a\n  - [ ] 1.2 b\n")
    source = Kiro(tmp_path, "parser", Options("task"))
    before = source.load()
    source.settle(before.stories[1], before)
    assert [(s.id, s.done) for s in source.load().stories] == [("1.1", False), ("1.2", True)]
    assert not Kiro(tmp_path, "parser").load().stories[0].done


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_parent_is_ticked_with_the_last_of_its_tasks_in_any_order(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    text = "- [ ] 1. A\n  - [ ] 1.1 a\n  - [ ] 1.2 b\n    - [ ] 1.2.1 c\n"
    text += "  - [ ]* 1.3 d\n  - [ ] 1.4 e\n"
    put(tmp_path, text)
    source = Kiro(tmp_path, "parser", Options("task"))
    file = tmp_path / ".kiro/specs/parser/tasks.md"
    for done, at in enumerate(order):
        before = source.load()
        assert [s.id for s in before.stories] == ["1.1", "1.2.1", "1.4"]
        assert (before.total, "- [x] 1. A" in file.read_text()) == (5, False)
        assert sum(s.done for s in before.stories) == done
        source.settle(before.stories[at], before)
    assert file.read_text() == text.replace("[ ] 1", "[x] 1")
    after = source.load()
    assert (after.complete, after.total) == (5, 5)


def test_both_sizes_count_a_parent_as_open_while_a_task_below_it_is(tmp_path: Path) -> None:
    put(tmp_path, "- [x] 1. A\n  - [~] 1.1 a\n  - [x] 1.2 b\n")
    for size in ("group", "task", "change"):
        book = Kiro(tmp_path, "parser", Options(size)).load()
        assert (size, book.complete, book.total) == (size, 1, 3)


def test_waves_that_cut_through_groups_order_tasks_only(tmp_path: Path) -> None:
    graph = '```json\n{"waves": [["1.1"], ["2.1"], ["1.2"]]}\n```\n'
    text = f"- [ ] 1. A\n  - [ ] 1.1 a\n  - [ ] 1.2 b\n- [ ] 2. B\n  - [ ] 2.1 c\n{graph}"
    book = put(tmp_path, text).load()
    assert ([s.depends_on for s in book.stories], book.problems) == ([(), ()], ())
    assert "whole groups" in book.ignored[0].why
    book = Kiro(tmp_path, "parser", Options("task")).load()
    assert [(s.id, s.depends_on) for s in book.stories] == [
        ("1.1", ()),
        ("1.2", ("2.1",)),
        ("2.1", ("1.1",)),
    ]


def test_dependencies_and_parallel_marks_in_the_text(tmp_path: Path) -> None:
    text = "- [ ] 1. A (P)\n- [ ] 2. B\n  - _Depends: 1, 3_\n- [ ] 3. C\n"
    book = put(tmp_path, text).load()
    assert [(s.depends_on, s.parallel) for s in book.stories] == [
        ((), True),
        (("1", "3"), False),
        ((), False),
    ]
    book = put(tmp_path, "- [ ] 1. A\n  - _Depends: 2_\n- [ ] 2. B\n  - _Depends: 1_\n").load()
    assert [p.why for p in book.problems] == ["Stories wait for each other: 1 → 2 → 1"]


def test_specs_are_found(tmp_path: Path) -> None:
    assert kiro.find(tmp_path) == ()
    put(tmp_path)
    assert kiro.find(tmp_path) == (Found("parser", 5, 2),)
    assert kiro.recognises(tmp_path, "parser")
    with pytest.raises(StoriesError, match="Kiro spec"):
        Kiro(tmp_path, "..")


REQUIREMENTS = """\
# Requirements

### Requirement 1: Reading

#### Acceptance Criteria

1. WHEN a file is read THEN tokens SHALL come
2. IF it is empty THEN none SHALL come

### Requirement 2

#### Acceptance Criteria

1. THE tree SHALL be whole
"""


def test_the_documents_and_the_criteria_that_the_tasks_name(tmp_path: Path) -> None:
    source = put(tmp_path)
    assert source.context(source.load().stories[0]) == StoryContext()
    (tmp_path / ".kiro/specs/parser/requirements.md").write_text(REQUIREMENTS)
    (tmp_path / ".kiro/steering").mkdir()
    (tmp_path / ".kiro/steering/product.md").write_text("x")
    assert source.context(source.load().stories[1]) == StoryContext(
        (".kiro/specs/parser/requirements.md", ".kiro/steering/product.md"),
        ("1.2: IF it is empty THEN none SHALL come", "2.1: THE tree SHALL be whole"),
    )
