"""BMAD sprints: the tracking file, story files, and states that only a review makes done."""

from pathlib import Path

import pytest

from untildone.adapters.stories import bmad
from untildone.adapters.stories.bmad import Bmad
from untildone.adapters.stories.source_kind import Found
from untildone.domain.errors import StoriesError
from untildone.domain.stories.story import StoryContext

HOME = "_bmad-output/implementation-artifacts"
TRACKING = """\
# generated: 2026-01-01
project: shop  # ours

development_status:
  epic-1: in-progress
  1-1-log-in: done
  1-2-log-out: ready-for-dev   # next
  1-3-later: backlog
  epic-1-retrospective: optional

  epic-2: backlog
  2-1-pay: in-progress
"""
PAGE = """\
# Story {number}: {title}

Status: {status}

## Story

As a user,
I want it.

## Acceptance Criteria

1. It is quick
2. It is safe

## Tasks / Subtasks

- [ ] Task 1: build (AC: 1)
  - [ ] 1.1 part
- [x] Task 2: test

## Dev Notes

- [ ] a note
"""


def put(root: Path, tracking: str | None = TRACKING, home: str = HOME) -> Bmad:
    folder = root / home
    folder.mkdir(parents=True, exist_ok=True)
    if tracking is not None:
        (folder / bmad.TRACKING).write_text(tracking)
    for name, number, title, status in (
        ("1-1-log-in", "1.1", "Log in", "done"),
        ("1-2-log-out", "1.2", "Log out", "ready-for-dev"),
        ("2-1-pay", "2.1", "Pay", "in-progress"),
    ):
        text = PAGE.format(number=number, title=title, status=status)
        (folder / f"{name}.md").write_text(text)
    return Bmad(root, "sprint")


def test_stories_of_a_sprint(tmp_path: Path) -> None:
    source = put(tmp_path)
    book = source.load()
    assert [(s.id, s.title, s.done) for s in book.stories] == [
        ("1-1-log-in", "Log in", True),
        ("1-2-log-out", "Log out", False),
        ("2-1-pay", "Pay", False),
    ]
    story = book.stories[1]
    assert story.acceptance == ("It is quick", "It is safe")
    assert (story.line, story.path) == (7, f"{HOME}/1-2-log-out.md")
    assert [task.text for task in story.tasks[1:]] == [
        "Task 1: build (AC: 1)",
        "1.1 part",
        "Task 2: test",
    ]
    assert story.body == "As a user,\nI want it."
    assert source.context(story) == StoryContext((story.path,))
    assert [remark.line for remark in book.ignored] == [8]
    assert (book.problems, book.path) == ((), f"{HOME}/sprint-status.yaml")


def test_one_epic(tmp_path: Path) -> None:
    put(tmp_path)
    assert [story.id for story in Bmad(tmp_path, "epic-2").load().stories] == ["2-1-pay"]
    (problem,) = Bmad(tmp_path, "epic-3").load().problems
    assert "No story" in problem.why


def test_a_finished_story_goes_to_review(tmp_path: Path) -> None:
    source = put(tmp_path)
    page = tmp_path / HOME / "1-2-log-out.md"
    old = page.read_text()
    before = source.load()
    assert source.settle(before.stories[1], before) == ()
    expected = TRACKING.replace("1-2-log-out: ready-for-dev ", "1-2-log-out: review ")
    assert (tmp_path / HOME / bmad.TRACKING).read_text() == expected
    work, note = old.split("## Dev Notes")
    ticked = work.replace("[ ]", "[x]").replace("Status: ready-for-dev", "Status: review")
    assert page.read_text() == f"{ticked}## Dev Notes{note}"
    assert [story.done for story in source.load().stories] == [True, True, False]


def test_what_an_agent_claims_is_taken_back(tmp_path: Path) -> None:
    source = put(tmp_path)
    before = source.load()
    files = [tmp_path / HOME / name for name in (bmad.TRACKING, "2-1-pay.md")]
    old = [file.read_text() for file in files]
    files[0].write_text(old[0].replace("2-1-pay: in-progress", "2-1-pay: done"))
    files[1].write_text(
        old[1].replace("Status: in-progress", "Status: done").replace("[ ] Task", "[x] Task")
    )
    (said,) = source.settle(before.stories[1], before)
    assert "2-1-pay" in said
    assert files[1].read_text() == old[1]
    assert "2-1-pay: in-progress" in files[0].read_text()
    files[1].write_text(old[1].replace("[ ] Task", "[x] Task"))
    source.take_back(before)
    assert files[1].read_text() == old[1]


def test_what_was_done_in_other_stories_stays_done(tmp_path: Path) -> None:
    source = put(tmp_path)
    before = source.load()
    file = tmp_path / HOME / bmad.TRACKING
    file.write_text(TRACKING.replace("1-1-log-in: done", "1-1-log-in: in-progress"))
    (said,) = source.settle(before.stories[1], before)
    assert said.startswith("Ticked again in story 1-1-log-in")
    assert "1-1-log-in: done\n" in file.read_text()


def test_story_files_without_a_tracking_file(tmp_path: Path) -> None:
    source = put(tmp_path, None, "docs/stories")
    (tmp_path / "docs/stories/1-10-last.md").write_text("# Last\n\n**Status:** Approved\n")
    (tmp_path / "docs/stories/1-4-draft.md").write_text("# Draft\n\nStatus: Draft\n")
    book = source.load()
    assert [(s.id, s.done) for s in book.stories] == [
        ("1-1-log-in", True),
        ("1-2-log-out", False),
        ("1-10-last", False),
        ("2-1-pay", False),
    ]
    assert "draft" in book.ignored[0].why
    source.settle(book.stories[2], book)
    text = (tmp_path / "docs/stories/1-10-last.md").read_text()
    assert text == "# Last\n\n**Status:** Ready for Review\n"
    assert source.load().stories[2].done


@pytest.mark.parametrize("tracking", ["a: &b 1\n", "project: x\n", "", "development_status: 3\n"])
def test_a_tracking_file_that_says_nothing_is_a_problem(tmp_path: Path, tracking: str) -> None:
    assert len(put(tmp_path, tracking).load().problems) == 1


def test_a_story_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    source = put(tmp_path)
    (tmp_path / HOME / "2-1-pay.md").write_bytes("# Pay".encode("utf-16"))
    (problem,) = source.load().problems
    assert problem.path == f"{HOME}/2-1-pay.md"


def test_a_lost_story_changes_nothing(tmp_path: Path) -> None:
    source = put(tmp_path)
    before = source.load()
    (tmp_path / HOME / bmad.TRACKING).write_text(TRACKING.replace("1-2-log-out", "1-2-other"))
    with pytest.raises(StoriesError):
        source.settle(before.stories[1], before)


def test_what_is_done_and_has_no_file_is_told(tmp_path: Path) -> None:
    added = "  1-4-old: done\n  1-5-odd: skipped-for-now\n"
    book = put(tmp_path, TRACKING.replace("  1-3-later", f"{added}  1-3-later")).load()
    assert [story.id for story in book.stories] == ["1-1-log-in", "1-2-log-out", "2-1-pay"]
    assert [(remark.line, remark.why) for remark in book.ignored] == [
        (8, "Story 1-4-old (done) has no file and counts as done."),
        (9, "Story 1-5-odd (skipped-for-now) has no file and counts as done."),
        (10, "Story 1-3-later (backlog) has no file; BMAD's create-story makes it."),
    ]


def test_a_sprint_in_which_nothing_is_left_is_done(tmp_path: Path) -> None:
    tracking = "development_status:\n  epic-1: done\n  1-4-a: done\n  1-5-b: review\n"
    book = put(tmp_path, tracking).load()
    assert (book.stories, book.problems, len(book.ignored)) == ((), (), 2)
    assert bmad.find(tmp_path) == (Found("sprint"),)
    assert not bmad.find(tmp_path)[0].open
    for left in ("1-6-c: backlog", "2-1-pay: blocked", "a/b: ready-for-dev", "1-6-c:"):
        book = put(tmp_path, f"{tracking}  {left}\n").load()
        (problem,) = book.problems
        assert problem.why == "No story of this sprint has a file and can be run."
        assert [remark.line for remark in book.ignored] == [3, 4, 5]


def test_the_sprint_is_found(tmp_path: Path) -> None:
    assert bmad.find(tmp_path) == ()
    (tmp_path / "docs/stories").mkdir(parents=True)
    (tmp_path / "docs/stories/readme.md").write_text("x")
    assert bmad.find(tmp_path) == ()
    put(tmp_path)
    assert bmad.find(tmp_path) == (Found("sprint", 12, 6),)
    names = ("sprint", "epic-1", "epic-x", "demo")
    assert [bmad.recognises(tmp_path, name) for name in names] == [True, True, False, False]


@pytest.mark.parametrize(
    ("location", "folder", "file"),
    [
        ('"{project-root}/docs/stories"', "docs/stories", "2-1-pay.md"),
        ("work/items", "work/items", "story-2-1-pay.md"),
        ("/home/ann/shop/work/items", "work/items", "2-1-pay.md"),
        ("../elsewhere", f"{HOME}/stories", "2-1-pay.md"),
        (HOME, f"{HOME}/epic2", "story-2.1-pay.md"),
    ],
)
def test_story_files_may_be_elsewhere(
    tmp_path: Path, location: str, folder: str, file: str
) -> None:
    tracking = f"story_location: {location}\ndevelopment_status:\n  2-1-pay: ready-for-dev\n"
    source = put(tmp_path, tracking)
    page = tmp_path / HOME / "2-1-pay.md"
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    page.rename(tmp_path / folder / file)
    book = source.load()
    (story,) = book.stories
    assert (story.id, story.path, book.problems) == ("2-1-pay", f"{folder}/{file}", ())
    source.settle(story, book)
    assert "2-1-pay: review" in (tmp_path / HOME / bmad.TRACKING).read_text()
    assert "Status: review" in (tmp_path / folder / file).read_text()


@pytest.mark.parametrize(
    ("word", "stories"),
    [
        ("completed", [True]),
        ("deprecated", [True]),
        ("merged", [True]),
        ("deferred-post-mvp", []),
        ("blocked", []),
        ("optional", []),
        ("changes-requested", [False]),
    ],
)
def test_other_words_for_the_state(tmp_path: Path, word: str, stories: list[bool]) -> None:
    book = put(tmp_path, f"development_status:\n  2-1-pay: {word}\n  1-1-log-in: done\n").load()
    assert [story.done for story in book.stories if story.id == "2-1-pay"] == stories
    assert book.problems == ()


def test_any_key_with_a_file_is_a_story_of_the_epic_it_stands_in(tmp_path: Path) -> None:
    tracking = (
        "development_status:\n  epic-2: done\n  epic-2.5: in-progress\n  25b-1-parity: backlog\n"
        "  hotfix-login: in-progress\n  1-2-log-out: ready-for-dev\n"
        "  epic-2.5-retrospective: done\n  epic-3: backlog\n  2-1-pay: in-progress\n"
    )
    put(tmp_path, tracking)
    (tmp_path / HOME / "hotfix-login.md").write_text("# Fix it\n\nStatus: in-progress\n")
    book = Bmad(tmp_path, "sprint").load()
    assert [s.id for s in book.stories] == ["hotfix-login", "1-2-log-out", "2-1-pay"]
    assert ["25b-1-parity" in remark.why for remark in book.ignored] == [True]
    assert bmad.recognises(tmp_path, "epic-2.5")
    inner = Bmad(tmp_path, "epic-2.5").load()
    assert [s.id for s in inner.stories] == ["hotfix-login", "1-2-log-out"]


def test_a_status_below_its_heading(tmp_path: Path) -> None:
    folder = tmp_path / "docs/stories"
    folder.mkdir(parents=True)
    text = (
        "# Story 1.1: Pay\r\n\r\n## Status\r\n\r\n**Approved**\r\n\r\n## Story\r\n\r\nAs a user\r\n"
    )
    (folder / "1.1.pay.story.md").write_bytes(text.encode())
    (folder / "1.2.later.story.md").write_text("# Story 1.2: Later\n\n## Status\nDraft\n")
    source = Bmad(tmp_path, "sprint")
    book = source.load()
    assert [(s.id, s.title, s.done) for s in book.stories] == [("1.1.pay.story", "Pay", False)]
    source.settle(book.stories[0], book)
    wanted = text.replace("Approved", "Ready for Review").encode()
    assert (folder / "1.1.pay.story.md").read_bytes() == wanted
    assert source.load().stories[0].done


def test_a_tracking_file_of_another_shape_says_what_it_lacks(tmp_path: Path) -> None:
    book = put(tmp_path, "epics:\n  - id: E1\n    stories:\n      - id: S1\n").load()
    (problem,) = book.problems
    assert "development_status" in problem.why


def test_a_key_that_makes_the_same_name_is_left_alone(tmp_path: Path) -> None:
    tracking = "development_status:\n  2-1-pay: in-progress\n  2-1\U0001f642-pay: ready-for-dev\n"
    source = put(tmp_path, tracking)
    book = source.load()
    assert [story.id for story in book.stories] == ["2-1-pay"]
    source.settle(book.stories[0], book)
    wanted = tracking.replace("in-progress", "review")
    assert (tmp_path / HOME / bmad.TRACKING).read_text() == wanted


def test_a_sprint_with_entries_that_have_no_file_is_not_done(tmp_path: Path) -> None:
    done = TRACKING.replace("ready-for-dev", "done").replace("in-progress", "done")
    source = put(tmp_path, done)
    book = source.load()
    assert [story.done for story in book.stories] == [True, True, True]
    assert book.problems == ()
    assert "Story 1-3-later (backlog) has no file" in book.unfinished
    (found,) = bmad.find(tmp_path)
    assert (found.open, found.why) == (True, book.unfinished)
    put(tmp_path, done.replace("1-3-later: backlog", "1-3-later: optional"))
    assert source.load().unfinished == ""


def test_a_status_that_is_not_known_is_told(tmp_path: Path) -> None:
    book = put(tmp_path, TRACKING.replace("2-1-pay: in-progress", "2-1-pay: included")).load()
    assert not book.stories[2].done
    assert book.ignored[-1].why == (
        "Story 2-1-pay counts as open; its status is not known: included"
    )


def test_an_error_names_no_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoriesError, match="There is no BMAD sprint here"):
        Bmad(tmp_path, "sprint").load()


def test_an_open_epic_without_stories_keeps_the_sprint_from_being_done(tmp_path: Path) -> None:
    rows = "  epic-1: done\n  1-1-log-in: done\n  epic-2: done\n  epic-3: deferred\n"
    source = put(tmp_path, f"development_status:\n{rows}")
    assert source.load().unfinished == ""
    rows += "  epic-1-log-in: backlog\n  epic-4: backlog\n  # to be written\n"
    rows += "  epic-4-retrospective: optional\n"
    source = put(tmp_path, f"development_status:\n{rows}")
    assert "The epic epic-4 (backlog) has no stories yet." in source.load().unfinished
    assert Bmad(tmp_path, "epic-1").load().unfinished == ""
    assert source.load().problems == ()


@pytest.mark.parametrize("word", ["archived", "dropped", "wont-do (see 1.1)"])
def test_what_nobody_wants_any_more_counts_as_done(tmp_path: Path, word: str) -> None:
    source = put(tmp_path, f"development_status:\n  1-1-log-in: {word}\n  1-9-x: {word}\n")
    book = source.load()
    assert [story.done for story in book.stories] == [True]
    assert book.unfinished == ""
