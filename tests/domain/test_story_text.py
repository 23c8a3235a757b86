"""Lines of a story's text that are meant for the loop."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import book, story
from untildone.domain.stories.story import Story, Task
from untildone.domain.stories.story_text import Said, is_setting, said, with_dependencies

SAID = {
    "Agent: codex": Said(agent="codex"),
    "- **Agent:** `codex`": Said(agent="codex"),
    "**Model**: gpt-5.2": Said(model="gpt-5.2"),
    "Agent: codex\nModel: o4": Said("codex", "o4"),
    "Agent: codex:o4": Said("codex", "o4"),
    "Agent: codex:o4\nModel: o5": Said("codex", "o5"),
    "Agent: codex\nAgent: claude": Said(agent="codex"),
    "Touches: src/api/**, docs": Said(touches=("src/api/**", "docs")),
    "Touches: `src/a.py` tests/*.py": Said(touches=("src/a.py", "tests/*.py")),
    "Touches: the page and more": Said(),
    "Depends: 1, 2.1 and T003": Said(depends=("1", "2.1", "T003")),
    "Depends: none": Said(),
    "Depends: 1,": Said(),
    "Depends: on the first phase": Said(),
    "Model: the one of the user": Said(),
    "Agent: codex, claude": Said(),
    "Model opus": None,
    "model: opus": None,
    "```\nAgent: codex\n```": Said(),
    "": None,
}


@pytest.mark.parametrize("text", SAID)
def test_what_a_line_says(text: str) -> None:
    assert said([text]) == SAID[text]


def test_the_lines_are_known_wherever_they_stand() -> None:
    assert [is_setting(row) for row in ("Touches: a.py", "Depends on 1", "x")] == [
        *(True, False, False),
    ]


def with_text(of: Story, body: str = "", detail: str = "") -> Story:
    tasks = (replace(of.tasks[0], detail=detail), *of.tasks[1:])
    return replace(of, body=body, tasks=tasks)


def test_a_story_has_what_its_text_says() -> None:
    told = with_text(story(2), "Agent: codex\nTouches: src/**", "  Model: o4")
    found = book(story(1), told).stories[1]
    assert (found.agent, found.model, found.touches) == ("codex", "o4", ("src/**",))


def test_a_field_of_the_format_comes_before_a_line() -> None:
    told = replace(with_text(story(1), "Agent: codex"), agent="claude", touches=("a",))
    found = book(told).stories[0]
    assert (found.agent, found.touches) == ("claude", ("a",))


def test_a_line_of_text_makes_a_story_wait() -> None:
    first = replace(story(1), tasks=(Task("1.1", "a", done=False, line=1),))
    waiting = with_text(story(2), "Depends: 1.1")
    found = book(waiting, first)
    assert [s.depends_on for s in found.stories] == [("1",), ()]
    assert found.next_story(frozenset()) == first
    assert book(*found.stories) == found


def test_a_number_that_two_stories_use_names_neither() -> None:
    found = book(with_text(story(3), "Depends: t"), *(_of(n) for n in (1, 2))).stories[0]
    assert found.depends_on == ("t",)
    assert found.question == "It depends on what is not in this change: t"


def _of(n: int) -> Story:
    return replace(story(n), tasks=(Task("t", "a", done=False, line=n),))


def test_a_story_that_is_done_asks_nothing() -> None:
    assert replace(story(1, done=True), held="Wait.").question == ""


def test_waiting_for_a_group_is_waiting_for_its_members() -> None:
    text = "Why.\n- Depends: 1, 3\nAgent: codex\nDepends: none"
    assert with_dependencies(text, {"1": ["1.1", "1.2"]}) == (
        "Why.\nDepends: 1.1, 1.2, 3\nAgent: codex\nDepends: none"
    )
