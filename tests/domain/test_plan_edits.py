"""What of an edited plan is kept when an attempt is put back."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import book, story
from untildone.domain.run.plan_edits import (
    MOST_EDITS,
    changed_stories,
    edited,
    line_edits,
    refusal,
)
from untildone.domain.stories.same_story import same_story
from untildone.domain.stories.story import Remark, Story, StoryBook, Task

ONE, TWO, THREE = story(1), story(2), story(3)
BOTH = book(ONE, TWO)
TICKED = story(2, done=True)


def with_task(of: Story, text: str, *, done: bool = False) -> Story:
    return replace(of, tasks=(*of.tasks, Task("9", text, done, line=9)))


def with_text(of: Story, text: str) -> Story:
    return replace(of, tasks=(replace(of.tasks[0], text=text), *of.tasks[1:]))


KEPT: dict[str, StoryBook] = {
    "nothing changed": BOTH,
    "a new story": book(ONE, TWO, THREE),
    "a new story first": book(THREE, ONE, TWO),
    "another title": book(ONE, replace(TWO, title="Other")),
    "another text": book(ONE, with_text(TWO, "another task of 2")),
    "a note": book(ONE, replace(TWO, body="Mind the gap.")),
    "one more task": book(ONE, with_task(TWO, "more")),
    "one more task of the story that was attempted": book(with_task(ONE, "more"), TWO),
    "it waits for more": book(ONE, replace(TWO, depends_on=("1",))),
}
REFUSED: dict[str, tuple[StoryBook, str]] = {
    "a story is gone": (book(ONE), "story 2 would be gone"),
    "a story is ticked": (book(ONE, TICKED), "tasks of story 2 would be gone"),
    "the story that was attempted": (
        *(book(replace(ONE, body="Or do nothing."), TWO), "it changes story 1, which was"),
    ),
    "its task": (book(with_text(ONE, "less"), TWO), "it changes story 1, which was attempted"),
    "a check": (book(ONE, replace(TWO, body="Verify: `true`")), "what decides about story 2"),
    "criteria": (book(ONE, replace(TWO, acceptance=("ok",))), "what decides about story 2"),
    "a problem": (replace(BOTH, problems=(Remark(1, "Broken."),)), "Broken."),
}


@pytest.mark.parametrize("case", KEPT)
def test_more_work_and_other_words_are_kept(case: str) -> None:
    assert refusal(BOTH, KEPT[case], ONE.key) == ""


@pytest.mark.parametrize("case", REFUSED)
def test_what_decides_about_a_story_stays(case: str) -> None:
    after, why = REFUSED[case]
    assert why in refusal(BOTH, after, ONE.key)


def test_a_finished_task_stays_finished() -> None:
    assert "another state" in refusal(book(ONE, TICKED), BOTH, ONE.key)
    more = book(ONE, with_task(TICKED, "more"))
    assert refusal(book(ONE, TICKED), more, ONE.key) == ""


def test_what_an_edit_is_about() -> None:
    after = book(ONE, replace(TWO, title="Other"), THREE)
    assert changed_stories(BOTH, after) == ["story 2 (Other)", "the new story 3 (Story 3)"]


def test_lines_are_edited_one_by_one() -> None:
    old, new = b"a\nb\nc\nd", b"a\nB\nc\nx\nd"
    edits = line_edits(old, new)
    assert len(edits) == 2
    assert edited(old, edits) == new
    assert edited(old, edits[:1]) == b"a\nB\nc\nd"
    assert edited(old, edits[1:]) == b"a\nb\nc\nx\nd"


def test_a_file_written_anew_is_one_edit() -> None:
    old = b"".join(b"%d\nsame\n" % n for n in range(MOST_EDITS + 1))
    new = old.replace(b"\nsame", b"x\nsame")
    (edit,) = line_edits(old, new)
    assert edited(old, [edit]) == new


def alone(title: str, **more: object) -> Story:
    """A story that has nothing but its title."""
    return replace(Story("7", title, (Task("7", title, done=False, line=1),)), **more)


RENAMED: dict[str, tuple[Story, Story, bool]] = {
    "the same tasks": (ONE, replace(ONE, id="first", title="Other"), True),
    "other tasks": (ONE, replace(with_text(ONE, "else"), title="Other"), False),
    "a title like it": (alone("Add a login page"), alone("Add the login page"), True),
    "another title": (alone("Add a login page"), alone("Remove it"), False),
    "another title for the same text": (
        *(alone("Add a login page", body="As a user"), alone("Sign in", body="As a user")),
        True,
    ),
    "tasks in place of a title": (alone("Add a page"), with_task(alone("Add a page!"), "x"), False),
}


@pytest.mark.parametrize("case", RENAMED)
def test_a_renamed_story_is_the_same_one(case: str) -> None:
    was, now, same = RENAMED[case]
    after = book(TWO, now)
    assert same_story(was, book(was, TWO), after) == (now if same else None)


def test_of_two_that_are_alike_neither_is_the_one() -> None:
    after = book(replace(ONE, title="A"), replace(ONE, id="9", title="B"))
    assert same_story(ONE, book(ONE), after) is None
