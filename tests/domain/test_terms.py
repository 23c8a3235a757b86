"""What decides about a story: read once, kept against every later edit."""

from msgspec.structs import replace

from tests.fakes.plans import ONE, TWO, book
from untildone.domain.checks.terms import (
    Terms,
    all_written,
    as_written,
    changes,
    differing,
    in_force,
    named_agent,
    named_budget,
    own_checks,
    written,
)

BODY = "Verify: `test`\nAllow empty: yes\nTests: may shrink\n"
FULL = replace(TWO, body=BODY, depends_on=("1",), acceptance=("it works",))
KEPT = Terms(
    *("2", "Story 2", ("test",), ()),
    may_be_empty=True,
    tests_may_shrink=True,
    depends_on=("1",),
    acceptance=("it works",),
    at="tasks:2",
)


def test_open_stories_that_say_anything_are_read() -> None:
    done = replace(FULL, id="3", tasks=(replace(FULL.tasks[0], done=True),))
    assert all_written(book(ONE, FULL, done)) == (KEPT,)
    assert written(FULL, book()).key == FULL.key


def test_the_terms_of_the_start_are_in_force_whatever_the_text_says_now() -> None:
    edited = replace(FULL, body="Verify: `true`\n")
    assert in_force(edited, (KEPT,)) == KEPT
    assert in_force(edited, None).checks == ("true",)
    assert own_checks(edited, (KEPT,), ("2=more",)) == ("test", "more")
    assert own_checks(None, (), ("2=more",)) == ()


def test_a_renamed_story_keeps_its_checks_and_is_allowed_nothing() -> None:
    for renamed in (replace(FULL, title="Other"), replace(FULL, id="7")):
        found = in_force(renamed, (KEPT,))
        assert (found.checks, found.may_be_empty, found.tests_may_shrink) == (
            ("test",),
            False,
            False,
        )


def test_a_story_that_came_later_has_no_terms_but_its_dependencies() -> None:
    late = replace(FULL, id="9", title="Late", agent="codex", model="o4", touches=("a.py",))
    found = in_force(late, (KEPT,))
    assert found == Terms(
        *("9", "Late"),
        withheld=("Touches: a.py",),
        depends_on=("1",),
        acceptance=("it works",),
        touches=("a.py",),
    )
    assert not found.frees("a.py")


def test_what_is_not_granted_is_withheld_and_no_change_of_the_text() -> None:
    said = ("Touches: a.py", "Touches: b.py", "Allow empty: yes", "Tests: may shrink")
    free = replace(KEPT, touches=("a.py", "b.py"))
    assert free.allows == said
    assert replace(free, tests_may_change=True).allows == (*said, "Tests: may change")
    assert free.allowing(said) == free
    held = free.allowing(["Touches: b.py"])
    assert (held.frees("a.py"), held.frees("b.py")) == (False, True)
    assert (held.may_be_empty, held.tests_may_shrink, held.frees_tests) == (False, False, False)
    assert held.withheld == (said[0], *said[2:])
    assert changes(held, free) == ()


def test_the_agent_of_a_story_is_the_one_of_the_start() -> None:
    kept = replace(KEPT, agent="codex", model="o4")
    assert named_agent(FULL.key, (kept,)) == ("codex", "o4")
    assert named_agent(("2", "Renamed"), (kept,)) == ("codex", "o4")
    assert named_agent(("9", "Late"), (kept,)) == ("", "")
    assert named_agent(FULL.key, None) == ("", "")
    renamed = in_force(replace(FULL, title="Other", agent="claude"), (kept,))
    assert (renamed.agent, renamed.model) == ("codex", "o4")


def test_dependencies_and_acceptance_are_put_back() -> None:
    edited = replace(FULL, depends_on=(), acceptance=())
    assert as_written(book(ONE, edited), (KEPT, Terms("1", "Story 1"))) == book(ONE, FULL)
    same = book(ONE, FULL)
    assert as_written(same, (KEPT,)) is same
    assert as_written(same, None) is same


def test_an_edit_after_a_look_without_one_is_put_back() -> None:
    known = (KEPT,)
    assert as_written(book(ONE, FULL), known) == book(ONE, FULL)
    edited = replace(FULL, acceptance=("anything",))
    for _ in range(2):
        assert as_written(book(ONE, edited), known) == book(ONE, FULL)
    assert as_written(book(edited), known) == book(FULL)


def test_only_open_stories_that_are_not_as_before_differ() -> None:
    other = replace(FULL, body="other words")
    assert list(differing(book(ONE, FULL), book(ONE, other))) == [other]
    assert list(differing(book(ONE, FULL), book(ONE, replace(FULL)))) == []
    assert list(differing(book(FULL), book(ONE, FULL))) == [ONE, FULL]
    assert list(differing(None, book(ONE, replace(TWO, tasks=(replace(TWO.tasks[0], done=True),)))))
    assert list(differing(None, book(ONE))) == [ONE]
    same = book(ONE, FULL)
    assert list(differing(same, same)) == []


def test_what_changed_is_told_in_words() -> None:
    now = replace(KEPT, checks=("true",), may_be_empty=False, depends_on=())
    assert changes(replace(KEPT, checks=(), not_run=("test",)), now) == (
        "Verify: `true`, was `test`",
        "Allow empty: nothing, was yes",
        "dependencies nothing, was 1",
    )
    assert changes(KEPT, KEPT) == ()


def test_a_check_is_named_by_the_line_it_is_written_in() -> None:
    said = Terms("1", "First", checks=("a", "b"), at="tasks.md:3", lines=(("b", 5),))
    assert (said.place_of("a"), said.place_of("b")) == ("tasks.md:3", "tasks.md:5")


BUDGETED = replace(TWO, body="Budget: cost=2, tokens=9k\nBudget: cost=7\n")
LIMITS = ("story-cost=2", "story-tokens=9k")


def test_a_budget_is_kept_as_it_was_written() -> None:
    was = written(BUDGETED, book())
    assert was.budget == LIMITS
    assert all_written(book(BUDGETED)) == (was,)
    richer = replace(BUDGETED, body="Budget: cost=9")
    assert in_force(richer, (was,)).budget == LIMITS
    assert in_force(replace(richer, title="Other"), (was,)).budget == LIMITS
    assert changes(was, written(richer, book())) == (
        "Budget: story-cost=9, was story-cost=2, story-tokens=9k",
    )
    for prose in ("Budget: as little as possible", "Budget: cost=2, and no more", "Budget: 45m"):
        assert written(replace(TWO, body=prose), book()).budget == ()


def test_a_budget_that_is_given_by_other_means_leaves_the_text() -> None:
    was = written(BUDGETED, book())
    assert was.without_budgets({"story-time"}) is was
    assert was.without_budgets({"story-cost"}).budget == ("story-tokens=9k",)
    assert named_budget(TWO.key, (was,)) == LIMITS
    assert named_budget(ONE.key, (was,)) == named_budget(TWO.key, None) == ()
