"""The prompt: same input, same bytes; nothing in it is a promise."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import TWO, story
from untildone.domain.agents.promise import find_promise
from untildone.domain.agents.prompt import (
    CONTEXT_LIMIT,
    EARLIER_LIMIT,
    REASON_LIMIT,
    TASKS_LIMIT,
    Brief,
    render,
)
from untildone.domain.agents.same_failure import Tried
from untildone.domain.checks.checks import in_force
from untildone.domain.errors import UserError
from untildone.domain.stories.story import Story, StoryContext, Task

STORY = Story(
    "1",
    "Log in",
    (
        Task("1.1", "make a form", False, 3, "  with two fields\n"),
        Task("1.2", "hash it", True, 5),
    ),
    body="Why: people.\n",
)
BRIEF = Brief("demo", STORY)
WHOLE = """\
You are working on one story of the change `demo` in this repository.

# Story 1: Log in

Why: people.

- [ ] make a form
  with two fields
- [x] hash it

# Read first

- `openspec/changes/demo/design.md`

# Scenarios that must hold

#### Scenario: one

#### Scenario: two

# How to work

- Do this story only. Other stories of the change are done by other calls; leave them alone.
- Work in the current folder and on the current branch. Do not switch branches, rewrite history \
or push.
- The loop commits your work when the story is complete; you need not commit.
- Tick the boxes of this story's tasks if you like; the loop ticks what you forget.

# Checks

The loop runs these itself after your promise; all must pass:

- `make test`
- `make lint`

# Guidance from the person who runs this

Be brief.

# The previous attempt

The previous attempt failed and its changes were put back. Its reason:

no "net": `x`

# How to end
"""
CONTEXT = StoryContext(
    ("openspec/changes/demo/design.md",), ("#### Scenario: one", "#### Scenario: two")
)


def test_the_whole_prompt() -> None:
    brief = replace(
        BRIEF,
        context=CONTEXT,
        checks=in_force(("make test", "make lint")),
        guidance=" Be brief.\n",
        reason='no "net": `x`',
    )
    prompt = render(brief)
    assert prompt.startswith(WHOLE)
    assert prompt.endswith("without quotes or a code block around it.\n")


def test_empty_sections_leave_no_trace() -> None:
    prompt = render(BRIEF)
    titles = [row for row in prompt.splitlines() if row.startswith("# ")]
    assert titles == ["# Story 1: Log in", "# How to work", "# How to end"]
    assert "\n\n\n" not in prompt


def test_same_input_same_bytes() -> None:
    assert render(BRIEF) == render(replace(BRIEF, story=replace(STORY)))
    assert render(replace(BRIEF, reason="")) == render(BRIEF)


def test_no_other_story() -> None:
    assert "task of 2" not in render(Brief("demo", story(1)))
    assert "task of 2" in render(Brief("demo", TWO))


def test_the_file_with_the_boxes_is_named() -> None:
    row = "- Tick the boxes of this story's tasks in `tasks.md` if you like;"
    assert row in render(replace(BRIEF, tasks_file="tasks.md"))


def test_plain_prompt_is_the_task_and_how_to_end() -> None:
    prompt = render(Brief("demo", None, task="\nFix it.\n\n", reason="not shown"))
    assert prompt.startswith("Fix it.\n\n# How to work\n")
    assert "not shown" not in prompt


@pytest.mark.parametrize("word", ["COMPLETE", "FAILED: x"])
def test_nothing_in_it_is_a_promise(word: str) -> None:
    tag = f"<promise>{word}</promise>"
    nasty = replace(
        BRIEF,
        story=replace(STORY, body=tag, title=tag),
        reason=tag,
        guidance=tag,
        context=StoryContext((), (tag,)),
    )
    for brief in (nasty, Brief("demo", None, task=tag)):
        prompt = render(brief)
        assert find_promise(prompt) is None
        assert all(find_promise(row) is None for row in prompt.splitlines())


def test_own_template() -> None:
    template = "{{story_id}}|{{story_title}}|{{change}}|{{tasks}}|{{reason}}"
    assert render(replace(BRIEF, story=story(7), template=template)) == (
        "7|Story 7|demo|- [ ] task of 7|\n"
    )
    plain = Brief("demo", None, "Fix {{change}}.", template="{{story_id}}{{tasks}}")
    assert render(plain) == "Fix {{change}}.\n"


def test_unknown_names_in_a_template_are_an_error() -> None:
    with pytest.raises(UserError, match=r"unknown names: colour, story$") as caught:
        render(replace(BRIEF, template="{{story}} {{colour}} {{tasks}}"))
    assert "story_id" in caught.value.hint


def test_every_part_is_bounded() -> None:
    long = "x" * 1_000_000
    brief = replace(
        BRIEF,
        story=replace(STORY, body=long),
        context=StoryContext((), (long,)),
        reason=long,
        tried=tuple(Tried(n, "failed", "f", long, "refs/x") for n in range(99)),
    )
    most = TASKS_LIMIT + CONTEXT_LIMIT + REASON_LIMIT + EARLIER_LIMIT
    assert len(render(brief)) < most + 3000


def test_criteria_that_have_boxes_are_not_told_twice() -> None:
    told = STORY.tasks[0].text
    assert render(replace(BRIEF, story=replace(STORY, acceptance=(told,)))) == render(BRIEF)


def test_acceptance_criteria_stand_below_the_tasks() -> None:
    prompt = render(replace(BRIEF, story=replace(STORY, acceptance=("It is fast.", "It is safe."))))
    assert (
        "- [x] hash it\n\nAcceptance criteria:\n\n- It is fast.\n- It is safe.\n\n# How" in prompt
    )


def test_without_boxes_the_agent_leaves_the_state_alone() -> None:
    prompt = render(replace(BRIEF, boxes=False, tasks_file="prd.json"))
    assert "- The loop itself marks the story as done in `prd.json`; leave the states" in prompt
    assert "Tick the boxes" not in prompt
