"""Which story comes next."""

import pytest

from tests.fakes.plans import book, story
from untildone.domain.story import Story, StoryBook, Task

ONE, TWO, THREE = story(1), story(2), story(3)
TICKED = story(1, done=True)
FINISHED = frozenset({ONE.key})
NONE: frozenset[tuple[str, str]] = frozenset()

NEXT: dict[str, tuple[StoryBook, frozenset[tuple[str, str]], Story | None]] = {
    "the first": (book(ONE, TWO), NONE, ONE),
    "the first open": (book(TICKED, TWO), NONE, TWO),
    "finished by this run": (book(ONE, TWO), FINISHED, TWO),
    "none": (book(), NONE, None),
    "all ticked": (book(TICKED), NONE, None),
    "all finished": (book(ONE), FINISHED, None),
    "waits for its dependency": (book(story(1, after=("2",)), TWO), NONE, TWO),
    "dependency ticked": (book(TICKED, story(2, after=("1",))), NONE, story(2, after=("1",))),
    "dependency finished": (book(ONE, story(2, after=("1",))), FINISHED, story(2, after=("1",))),
    "all dependencies": (book(story(3, after=("1", "2")), TICKED, TWO), NONE, TWO),
    "a circle": (book(story(1, after=("2",)), story(2, after=("1",))), NONE, None),
}


@pytest.mark.parametrize("name", NEXT)
def test_next_story(name: str) -> None:
    stories, finished, expected = NEXT[name]
    assert stories.next_story(finished) == expected


def test_open_stories_in_file_order() -> None:
    stories = book(THREE, TICKED, TWO)
    assert stories.open_stories(NONE) == (THREE, TWO)
    assert stories.open_stories(frozenset({THREE.key})) == (TWO,)


def test_a_story_is_found_by_number_and_text() -> None:
    stories = book(story(1, title="Log  in\tnow"), TWO)
    assert stories.stories[0].key == ("1", "Log in now")
    assert stories.find(("1", "Log in now")) == stories.stories[0]
    assert stories.find(("1", "Log out")) is None


def test_done_and_counts() -> None:
    half = Story("1", "Half", (Task("1.1", "a", True, 1), Task("1.2", "b", False, 2)))
    stories = book(half, story(2, done=True))
    assert [s.done for s in stories.stories] == [False, True]
    assert (stories.total, stories.complete) == (3, 2)
    assert (book().total, book().complete) == (0, 0)
