"""Spec Kit features: phases, numbers, legends, and what waits for what."""

from pathlib import Path

import pytest

from untildone.adapters.stories import speckit
from untildone.adapters.stories.source_kind import Found, Options
from untildone.adapters.stories.speckit import SpecKit
from untildone.domain.errors import StoriesError
from untildone.domain.stories.story import StoryContext

TASKS = """\
# Tasks: Photo albums

**Input**: Design documents from `/specs/001-albums/`

## Format: `[ID] [P?] [Story] Description`

- **[P]**: Can run in parallel

## Phase 1: Setup (Shared Infrastructure)

- [X] T001 Create the project
- [ ] T002 [P] Configure linting

## Phase 2: Foundational

- [ ] T003 Make the schema in src/schema.py

**Checkpoint**: Foundation ready

## Phase 3: User Story 1 - Browse (Priority: P1) 🎯 MVP

**Goal**: See albums

**Independent Test**: Open the page and count

### Tests for User Story 1

- [ ] T004 [P] [US1] Contract test in tests/test_albums.py

### Implementation for User Story 1

- [ ] T005 [US1] Page in src/page.py (depends on T004)
- [ ] T005a [US1] More of it

**Checkpoint**: Albums are shown

## Phase 4: User Story 2 - Sort (Priority: P2)

- [ ] T006 [P] [US2] Sort by date
- [ ] T007 [P] [US2] Sort by name

## Phase 5: Polish

- [ ] T008 Documentation
- [ ] Review by the team
T009 Without a box

## Notes

- [P] tasks = different files, no dependencies
- [Story] label maps task to specific user story
"""


def put(root: Path, text: str = TASKS, name: str = "001-albums") -> SpecKit:
    folder = root / "specs" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tasks.md").write_text(text)
    return SpecKit(root, name)


def test_phases_are_stories(tmp_path: Path) -> None:
    book = put(tmp_path).load()
    assert [(s.id, [t.id for t in s.tasks]) for s in book.stories] == [
        ("phase-1", ["T001", "T002"]),
        ("phase-2", ["T003"]),
        ("phase-3", ["T004", "T005", "T005a"]),
        ("phase-4", ["T006", "T007"]),
        ("phase-5", ["T008"]),
    ]
    assert (book.total, book.complete, book.problems) == (9, 1, ())
    assert [(s.depends_on, s.priority, s.parallel) for s in book.stories] == [
        ((), None, False),
        (("phase-1",), None, False),
        (("phase-2",), 1, False),
        (("phase-2",), 2, True),
        (("phase-2", "phase-3", "phase-4"), None, False),
    ]
    assert [s.acceptance for s in book.stories[1:3]] == [
        ("Checkpoint: Foundation ready",),
        ("Independent Test: Open the page and count", "Checkpoint: Albums are shown"),
    ]


def test_what_is_no_task_is_told(tmp_path: Path) -> None:
    lines = TASKS.split("\n")
    ignored = {lines[remark.line - 1] for remark in put(tmp_path).load().ignored}
    assert ignored == {
        "- [ ] Review by the team",
        "- [P] tasks = different files, no dependencies",
        "- [Story] label maps task to specific user story",
        "T009 Without a box",
    }


def test_a_file_that_holds_only_the_legend_has_no_tasks(tmp_path: Path) -> None:
    book = put(tmp_path, "- [P] tasks = different files\nT001 Review\n").load()
    assert (book.stories, len(book.problems)) == ((), 1)


def test_a_file_without_any_number_is_an_ordinary_list(tmp_path: Path) -> None:
    text = "# Tasks\n\n## Work\n- [x] Draw\n- [ ] T1 Paint\n\n## Notes\n- [P] tasks = parallel\n"
    source = put(tmp_path, text)
    book = source.load()
    assert [(s.id, [t.done for t in s.tasks]) for s in book.stories] == [("work", [True, False])]
    assert [remark.line for remark in book.ignored] == [8]
    source.settle(book.stories[0], book)
    path = tmp_path / "specs/001-albums/tasks.md"
    assert path.read_text() == text.replace("[ ]", "[x]")


@pytest.mark.parametrize("line", ["T001 Draw", "- T001 Draw", "* **T001** Draw"])
def test_boxes_beside_numbers_that_have_none_are_no_tasks(tmp_path: Path, line: str) -> None:
    book = put(tmp_path, f"## Work\n{line}\n\n## Checks\n- [x] All tests are there\n").load()
    assert (book.stories, [problem.line for problem in book.problems]) == ((), [5])
    assert "T001" in book.problems[0].why


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("- [ ] [P] T012 Draw", "T012 [P] Draw"),
        ("- [ ] [P][US1] T012: Draw", "T012 [P][US1] Draw"),
        ("- [ ] [T012] [P] Draw", "T012 [P] Draw"),
        ("- [ ] **[T012]** Draw", "T012 Draw"),
        ("- [ ] ✅ T012 Draw", "T012 ✅ Draw"),
        ("- [ ] ⚠️ [US2] **T012 Draw** it", "T012 ⚠️ [US2] **Draw** it"),
        ("- [ ] [P] T012", "T012 [P]"),
    ],
)
def test_a_number_that_is_not_the_first_word(tmp_path: Path, line: str, text: str) -> None:
    source = put(tmp_path, f"## Phase 1: A\n- [x] T001 a\n{line}\n")
    book = source.load()
    assert [(t.id, t.text, t.done) for t in book.stories[0].tasks] == [
        ("T001", "T001 a", True),
        ("T012", text, False),
    ]
    assert (book.ignored, book.problems) == ((), ())
    source.settle(book.stories[0], book)
    done = line.replace("- [ ]", "- [x]")
    written = (tmp_path / "specs/001-albums/tasks.md").read_text()
    assert written == f"## Phase 1: A\n- [x] T001 a\n{done}\n"
    assert source.load().stories[0].done


@pytest.mark.parametrize("text", ["See T012", "(T012) is done", "[a](b) T012", "T12 x", "[T012"])
def test_a_number_further_back_names_no_task(tmp_path: Path, text: str) -> None:
    book = put(tmp_path, f"## Phase 1: A\n- [x] T001 a\n- [ ] {text}\n").load()
    assert ([t.id for t in book.stories[0].tasks], len(book.ignored)) == (["T001"], 1)


def test_every_task_as_a_story(tmp_path: Path) -> None:
    put(tmp_path)
    book = SpecKit(tmp_path, "001-albums", Options("task")).load()
    assert [s.id for s in book.stories] == [
        *("T001", "T002", "T003", "T004", "T005", "T005a", "T006", "T007", "T008"),
    ]
    waits = {s.id: s.depends_on for s in book.stories}
    assert waits["T002"] == ()
    assert waits["T003"] == ("T001", "T002")
    assert waits["T005"] == ("T003", "T004")
    assert waits["T006"] == ("T003",)
    assert waits["T008"] == ("T003", "T004", "T005", "T005a", "T006", "T007")
    assert book.problems == ()
    assert [s.id for s in book.stories if s.parallel] == ["T002", "T004", "T006", "T007"]


def test_the_whole_feature_as_a_story(tmp_path: Path) -> None:
    put(tmp_path)
    (story,) = SpecKit(tmp_path, "001-albums", Options("change")).load().stories
    assert (story.id, len(story.tasks), story.depends_on) == ("001-albums", 9, ())


def test_phases_of_the_same_number_keep_the_names_of_their_headings(tmp_path: Path) -> None:
    text = "## Phase 1: A\n- [ ] T001 a\n## Phase 1: B\n- [ ] T002 b\n## Later\n- [ ] T003 c\n"
    book = put(tmp_path, text).load()
    assert [s.id for s in book.stories] == ["phase-1-a", "phase-1-b", "later"]
    assert book.problems == ()


def test_a_dependency_on_a_task_that_is_not_there_holds_its_phase_back(tmp_path: Path) -> None:
    text = "## Phase 1: A\n- [ ] T001 [US1] a, depends on T099\n## Phase 2: B\n- [ ] T002 [US2] b\n"
    book = put(tmp_path, text).load()
    assert [(story.question, story.id) for story in book.stories] == [
        ("It depends on what is not in this change: T099", "phase-1"),
        ("", "phase-2"),
    ]
    assert book.problems == ()


@pytest.mark.parametrize("words", ["T001 + T002", "T001, T002", "T001 and T002", "T001 & T002"])
def test_a_task_depends_on_all_that_its_text_names(tmp_path: Path, words: str) -> None:
    put(tmp_path, f"- [ ] T001 a\n- [ ] T002 b\n- [ ] T003 c \u2014 depends on {words}\n")
    book = SpecKit(tmp_path, "001-albums", Options("task")).load()
    assert set(book.stories[2].depends_on) == {"T001", "T002"}


@pytest.mark.parametrize(
    "words",
    [
        *("T001-T003", "T001 - T003", "T001\u2013T003", "T001 through T003", "T001 to T003"),
        *("T001-003", "T003-T001", "T001, T002-T003", "T001-T002 and T003", "T000-T003"),
        pytest.param(f"T001 To T003, T001-T{'0' * 5000}3", id="many digits"),
    ],
)
def test_a_range_names_all_tasks_in_it(tmp_path: Path, words: str) -> None:
    ids = ("T001", "T002", "T002a", "T003", "T004")
    rows = "".join(f"- [ ] {name} x\n" for name in ids)
    put(tmp_path, f"## Work\n{rows}- [ ] T005 y (depends on {words}) to T004\n")
    book = SpecKit(tmp_path, "001-albums", Options("task")).load()
    assert ({*book.stories[-1].depends_on} | {"T002a"}, book.problems) == ({*ids[:4]}, ())


def test_a_range_of_tasks_that_are_not_there_holds_its_task_back(tmp_path: Path) -> None:
    put(tmp_path, "## Work\n- [ ] T001 a\n- [ ] T002 b (depends on T011-T013)\n")
    book = SpecKit(tmp_path, "001-albums", Options("task")).load()
    assert book.stories[1].question == (
        "It depends on what is not in this change: "
        "T011 (did you mean `T001`?), T013 (did you mean `T001`?)"
    )


def test_the_phases_hold_where_the_texts_make_a_circle_of_them(tmp_path: Path) -> None:
    text = (
        "## Phase 1: A\n- [ ] T001 a (depends on T003)\n- [ ] T002 b\n## Phase 2: B\n- [ ] T003 c\n"
    )
    book = put(tmp_path, text).load()
    assert ([s.depends_on for s in book.stories], book.problems) == ([(), ("phase-1",)], ())
    assert ["whole phases" in remark.why for remark in book.ignored] == [True]
    alone = put(tmp_path, "- [ ] T001 a, depends on T002\n- [ ] T002 b, depends on T001\n").load()
    assert len(alone.problems) == 1


@pytest.mark.parametrize(
    ("text", "must"),
    [
        ("**Checkpoint:** all of it", "Checkpoint: all of it"),
        ("**Checkpoint**: all\nof it\n\nmore", "Checkpoint: all of it"),
        ("**Independent Test (US1)**: all of it\n- a", "Independent Test: all of it"),
        ("**Independent Test:** all of it\n---", "Independent Test: all of it"),
    ],
)
def test_what_must_hold_is_read_to_its_end(tmp_path: Path, text: str, must: str) -> None:
    book = put(tmp_path, f"## Phase 1: A\n- [ ] T001 a\n\n{text}\n").load()
    assert book.stories[0].acceptance == (must,)


def test_very_many_tasks_wait_by_their_order_alone(tmp_path: Path) -> None:
    rows = "\n".join(f"- [ ] T{n:04d} x" for n in range(400))
    put(tmp_path, f"## Phase 1: A\n{rows}\n## Phase 2: B\n{rows.replace('T0', 'T1')}\n")
    book = SpecKit(tmp_path, "001-albums", Options("task")).load()
    assert {s.depends_on for s in book.stories} == {()}


def test_features_are_found(tmp_path: Path) -> None:
    assert speckit.find(tmp_path) == ()
    put(tmp_path)
    put(tmp_path, "- [x] T001 a\n", "002-b")
    (tmp_path / "specs/003-c").mkdir()
    (tmp_path / "specs/readme.md").write_text("x")
    found = speckit.find(tmp_path)
    assert found == (Found("001-albums", 9, 1), Found("002-b", 1, 1))
    known = {name: speckit.recognises(tmp_path, name) for name in ("001-albums", "003-c", "..", "")}
    assert known == {"001-albums": True, "003-c": False, "..": False, "": False}
    with pytest.raises(StoriesError, match="Spec Kit feature"):
        SpecKit(tmp_path, "a/b")


def test_the_documents_of_a_feature_and_no_checklist(tmp_path: Path) -> None:
    source = put(tmp_path)
    for name in ("spec.md", "plan.md", "contracts/api.yaml", "checklists/requirements.md"):
        path = tmp_path / "specs/001-albums" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    constitution = tmp_path / ".specify/memory/constitution.md"
    constitution.parent.mkdir(parents=True)
    constitution.write_text("x")
    assert source.context(source.load().stories[0]) == StoryContext(
        (
            "specs/001-albums/spec.md",
            "specs/001-albums/plan.md",
            "specs/001-albums/contracts/api.yaml",
            ".specify/memory/constitution.md",
        )
    )


def test_a_number_with_a_part_behind_it_is_the_id(tmp_path: Path) -> None:
    rows = ("T071 a", "T071-A [P] b", "**T071-B** c, depends on T071-a", "T071.1 d", "[T072C] e")
    put(tmp_path, "## Phase 1: A\n" + "".join(f"- [ ] {row}\n" for row in rows))
    book = SpecKit(tmp_path, "001-albums", Options("task")).load()
    assert [(s.id, s.depends_on) for s in book.stories] == [
        ("T071", ()),
        ("T071-A", ()),
        ("T071-B", ("T071-A",)),
        ("T071.1", ()),
        ("T072C", ()),
    ]
    assert book.problems == ()
    (group,) = SpecKit(tmp_path, "001-albums").load().stories
    assert [task.id for task in group.tasks] == ["T071", "T071-A", "T071-B", "T071.1", "T072C"]
