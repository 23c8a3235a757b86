"""Which story comes next."""

from itertools import product

import pytest
from msgspec.structs import replace

from tests.fakes.plans import book, story
from untildone.domain.errors import StoriesError
from untildone.domain.stories.schedule import Schedule
from untildone.domain.stories.story import Remark, Story, StoryBook, Task, checked

ONE, TWO, THREE = story(1), story(2), story(3)
TICKED = story(1, done=True)
FINISHED = frozenset({ONE.key})
NONE: frozenset[tuple[str, str]] = frozenset()


def urgent(of: Story, priority: int) -> Story:
    return replace(of, priority=priority)


def ranked(of: Story, rank: float) -> Story:
    return replace(of, rank=rank)


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
    "the lower priority": (book(urgent(ONE, 3), TWO, urgent(THREE, 1)), NONE, urgent(THREE, 1)),
    "priority before none": (book(ONE, urgent(TWO, 0)), NONE, urgent(TWO, 0)),
    "equal priorities as they stand": (
        *(book(ONE, urgent(THREE, 1), urgent(TWO, 1)), NONE),
        urgent(THREE, 1),
    ),
    "the lower rank, whatever the priority": (
        *(book(urgent(ONE, 1), ranked(urgent(TWO, 2), 2.5), ranked(urgent(THREE, 3), 2)), NONE),
        ranked(urgent(THREE, 3), 2),
    ),
    "of equal ranks the lower priority": (
        *(book(ranked(urgent(ONE, 2), 7), ranked(urgent(TWO, 1), 7)), NONE),
        ranked(urgent(TWO, 1), 7),
    ),
    "a priority does not go before a dependency": (
        *(book(urgent(story(1, after=("2",)), 1), urgent(TWO, 2)), NONE),
        urgent(TWO, 2),
    ),
    "finished but unticked again lets its dependents go": (
        *(book(story(3, after=("1",)), ONE, TWO), FINISHED),
        story(3, after=("1",)),
    ),
}


@pytest.mark.parametrize("name", NEXT)
def test_next_story(name: str) -> None:
    stories, finished, expected = NEXT[name]
    assert stories.next_story(finished) == expected


def test_the_same_question_has_the_same_answer() -> None:
    stories = book(ONE, TWO)
    assert stories.next_story(NONE) is stories.next_story(NONE)
    assert stories.next_story(FINISHED) == TWO
    assert stories.next_story(NONE) == ONE


def test_a_story_put_aside_is_not_next_and_holds_up_its_dependents() -> None:
    chain = (ONE, story(2, after=("1",)), story(3, after=("2",)), story(4, after=("1", "5")))
    stories = book(*chain, story(5), story(6, done=True, after=("1",)), story(7, after=("5",)))
    aside = {ONE.key}
    assert stories.next_story(NONE, aside) == story(5)
    assert stories.schedule.held_up(NONE, aside) == {
        chain[1].key: ("1",),
        chain[2].key: ("2",),
        chain[3].key: ("1",),
    }
    both = [ONE.key, story(5).key]
    assert stories.schedule.held_up(NONE, both)[chain[3].key] == ("1", "5")
    assert stories.schedule.held_up(frozenset({ONE.key}), aside) == {}
    assert stories.schedule.held_up(NONE, [ONE.key, chain[1].key]) == {
        chain[2].key: ("2",),
        chain[3].key: ("1",),
    }


def problems(*stories: Story) -> list[str]:
    return [remark.why for remark in book(*stories).problems]


WRONG: dict[str, tuple[tuple[Story, ...], list[str]]] = {
    "nothing": ((ONE, story(2, after=("1",))), []),
    "two ways to one": (
        (ONE, story(2, after=("1",)), story(3, after=("1",)), story(4, after=("2", "3"))),
        [],
    ),
    "equal ids": ((ONE, story(1)), ["Lines 1 and 1 start stories with the same id: 1"]),
    "equal ids in two files": (
        (replace(ONE, path="a.md"), replace(ONE, path="b.md", line=7)),
        ["Lines a.md:1 and 7 start stories with the same id: 1"],
    ),
    "of a finished story": ((story(2, after=("x",), done=True),), []),
    "itself": ((story(1, after=("1",)),), ["Stories wait for each other: 1 → 1"]),
    "two circles and one behind": (
        (
            *(story(1, after=("2",)), story(2, after=("3", "9")), story(3, after=("2",))),
            *(story(4, after=("5",)), story(5, after=("4", "9")), story(6, after=("5",)), story(9)),
        ),
        [
            "Stories wait for each other: 2 → 3 → 2",
            "Stories wait for each other: 4 → 5 → 4",
        ],
    ),
    "broken by a tick": ((story(1, after=("2",)), story(2, after=("1",), done=True)), []),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_between_stories(name: str) -> None:
    stories, expected = WRONG[name]
    assert problems(*stories) == expected


MISSING: dict[str, tuple[tuple[Story, ...], str]] = {
    "like another": (
        (story(2, after=("logn", "logn")), replace(ONE, id="login")),
        "It depends on what is not in this change: logn (did you mean `login`?)",
    ),
    "like its own": (
        (replace(story(1, after=("US-01",)), id="US-001"), replace(ONE, id="US-002")),
        "It depends on what is not in this change: US-01 (did you mean `US-002`?)",
    ),
    "unlike all": (
        (story(2, after=("x", "1", "y")), ONE),
        "It depends on what is not in this change: x, y",
    ),
    "of a finished story": ((story(2, after=("x",), done=True),), ""),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_story_that_depends_on_what_is_not_there_is_held_back_alone(name: str) -> None:
    stories, held = MISSING[name]
    found = book(*stories)
    assert [s.question for s in found.stories] == [held, *("" for _ in stories[1:])]
    assert found.problems == ()


def test_many_unknown_dependencies_are_all_told_and_few_get_a_suggestion() -> None:
    found = book(*(story(n, after=(f"{n}x",)) for n in range(100, 120)))
    assert all(s.held for s in found.stories)
    assert sum("did you mean" in s.held for s in found.stories) == 10


def test_a_deep_chain_and_a_deep_circle_take_no_stack() -> None:
    chain = [story(n, after=(str(n + 1),)) for n in range(1, 5000)]
    assert problems(*chain, story(5000)) == []
    assert book(*chain, story(5000)).next_story(NONE) == story(5000)
    (found,) = problems(*chain, story(5000, after=("1",)))
    assert found.startswith("Stories wait for each other: 1 → 2 → 3")


def test_a_problem_is_an_error_that_names_its_file() -> None:
    broken = book(replace(ONE, depends_on=("1",), path="specs/a.md"))
    with pytest.raises(StoriesError, match=r"specs/a\.md:1: Stories wait for each other"):
        checked(broken)
    assert replace(broken, change="x").problems == broken.problems
    assert checked(book(ONE)) == book(ONE)


def test_books_are_equal_by_what_they_hold() -> None:
    assert book(ONE) == book(ONE)
    assert hash(book(ONE)) == hash(book(ONE))
    assert book(ONE) != book(TWO)
    assert book(ONE) != book(ONE, ignored=(Remark(1, "x"),))
    assert book(ONE) != "book"


def test_where_a_story_stands() -> None:
    assert book().place(ONE) == "tasks"
    assert book().place(replace(ONE, path="a.md")) == "a.md"


def test_a_story_without_tasks_is_not_done() -> None:
    assert not replace(ONE, tasks=()).done


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


def asking(of: Story) -> Story:
    return replace(of, tasks=tuple(replace(task, asks=True) for task in of.tasks))


ORDERS = {
    "as they stand": (ONE, TWO, THREE),
    "by priority": (urgent(ONE, 3), urgent(TWO, 2), urgent(THREE, 1)),
    "by rank": (ONE, ranked(TWO, 2), ranked(THREE, 1)),
    "with questions": (asking(ONE), TWO, asking(THREE)),
}


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("done", list(product([True, False], repeat=3)))
@pytest.mark.parametrize("was", list(product([True, False], repeat=3)))
@pytest.mark.parametrize("stories", ORDERS.values(), ids=ORDERS)
def test_a_book_with_other_states_is_as_one_that_was_made_so(
    stories: tuple[Story, ...], was: tuple[bool, ...], done: tuple[bool, ...], asked: bool
) -> None:
    before = book(*map(ticked, stories, was))
    if asked:
        before.next_story(NONE)
    changed = {at: ticked(stories[at], now) for at, now in enumerate(done) if now is not was[at]}
    after = before.with_states(changed)
    fresh = book(*map(ticked, stories, done))
    assert after == fresh
    assert (after.total, after.complete) == (fresh.total, fresh.complete)
    assert after.open_stories(NONE) == fresh.open_stories(NONE)
    for finished in (NONE, FINISHED):
        assert after.open_stories(finished) == fresh.open_stories(finished)
        assert after.next_story(finished) == fresh.next_story(finished)
        assert after.schedule.asking(finished) == fresh.schedule.asking(finished)
        opened = [fresh.schedule.is_open(story.key, finished) for story in stories]
        assert [after.schedule.is_open(story.key, finished) for story in stories] == opened
    assert after.files == fresh.files
    assert [after.find(story.key) for story in stories] == list(fresh.stories)
    assert [story.done for story in before.stories] == list(was)
    same = [at for at in range(3) if at not in changed]
    assert all(after.stories[at] is before.stories[at] for at in same)


def test_a_schedule_keeps_the_first_of_two_stories_with_one_key() -> None:
    first, second = ONE, replace(ONE, line=9)
    after = Schedule([first, second]).with_finished([(second, ticked(second, done=True))])
    assert after.by_key[ONE.key] is first


def test_a_done_story_with_another_text_is_no_open_one() -> None:
    done = ticked(ONE, done=True)
    after = Schedule([done, TWO]).with_finished([(done, replace(done, line=9))])
    assert (after.todo, after.complete) == ((TWO,), 1)


def ticked(of: Story, done: bool) -> Story:
    return replace(of, tasks=tuple(replace(task, done=done) for task in of.tasks))


def test_only_so_much_of_what_cannot_be_run_is_named() -> None:
    rows = tuple(Remark(n, f"Entry {n} has no file.", unfinished=True) for n in range(12))
    said = replace(book(ONE), ignored=rows).unfinished
    assert said.startswith("The change `demo` is not done: 12 entries are left that cannot be run.")
    assert said.endswith("Entry 9 has no file. And 2 more.")
    assert book(ONE).unfinished == ""
