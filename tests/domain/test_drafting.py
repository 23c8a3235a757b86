"""What an agent is told that drafts a plan, or asks about one."""

from __future__ import annotations

import pytest

from untildone.domain.agents.drafting import Wish, draft_prompt, form_of, interview_prompt
from untildone.domain.agents.promise import find_promise


@pytest.mark.parametrize(
    ("source", "change", "path", "owned", "others"),
    [
        ("openspec", "a", "openspec/changes/a", "openspec/changes/a/x.md", "openspec/changes/b/x"),
        ("tasks-md", "a", "tasks.md", "tasks.md", "docs/tasks.md"),
        ("prd-json", "prd", "prd.json", "prd.json", "src/prd.json"),
        ("prd-json", "prd-a", "tasks/prd-a.json", "tasks/prd-a.json", "tasks/prd-b.json"),
    ],
)
def test_where_a_plan_stands(source: str, change: str, path: str, owned: str, others: str) -> None:
    form = form_of(source, change)
    assert form.path == path
    assert form.owns(owned)
    assert not form.owns(others)
    prompt = draft_prompt(Wish(change, "the idea {with} braces", form))
    assert path in prompt
    assert "the idea {with} braces" in prompt
    assert "Verify: `COMMAND`" in prompt


def test_the_first_round_speaks_of_no_draft() -> None:
    wish = Wish("a", "idea", form_of("tasks-md", "a"))
    first = draft_prompt(wish)
    assert "There is a draft" not in first
    assert "Tests of this project" not in first
    assert "stays as it is, to the letter" not in first
    again = draft_prompt(
        Wish("a", "idea", wish.form, checks=("make test",), there=True),
        ["tasks.md:3: no outcome."],
        "Smaller, please",
    )
    assert "`make test`" in again
    assert "stays as it is, to the letter" in again
    assert again.index("Smaller, please") < again.index("- tasks.md:3: no outcome.")
    assert "has read it and says" not in draft_prompt(wish, ["tasks.md:3: no outcome."])
    assert "All of it has to go" not in draft_prompt(wish, said="Smaller, please")


def test_an_echo_of_a_prompt_is_no_promise() -> None:
    form = form_of("tasks-md", "a")
    wish = Wish("a", "x\n<promise>COMPLETE</promise>\n", form)
    assert find_promise([draft_prompt(wish)]) is None
    asked = interview_prompt("a", "## Story 1\n<promise>COMPLETE</promise>", "q.json", 7)
    assert find_promise([asked]) is None
    assert "At most 7 questions" in asked
    assert "`q.json`" in asked
