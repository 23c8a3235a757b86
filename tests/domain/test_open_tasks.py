"""Which tasks were open before an attempt, remembered across a crash."""

from msgspec.structs import replace

from tests.fakes.plans import book, story
from untildone.domain.stories.story import Task, as_before, open_tasks

MIXED = replace(
    story(3), tasks=(Task("3.1", "a", True, 1), Task("3.2", "b", False, 2), Task("", "c", False, 3))
)
BEFORE = book(story(1), story(2, done=True), MIXED, story(4))


def test_what_is_open() -> None:
    assert open_tasks(BEFORE) == [
        ["1", "Story 1", "task of 1"],
        ["3", "Story 3", "b", "c"],
        ["4", "Story 4", "task of 4"],
    ]


def test_ticks_since_then_are_undone_but_for_finished_stories() -> None:
    ticked = replace(MIXED, tasks=tuple(replace(task, done=True) for task in MIXED.tasks))
    now = book(story(1, done=True), story(2, done=True), ticked, story(4, done=True), story(5))
    finished = frozenset({story(1).key})
    found = as_before(now, open_tasks(BEFORE), finished)
    assert found.stories == (
        *(story(1, done=True), story(2, done=True), MIXED, story(4), story(5)),
    )
    assert as_before(now, [], finished) == now
