"""`untildone interview`, and guidance that is given before the first run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.agent_calls import COMPLETE
from tests.e2e.change import STORIES, TASKS

if TYPE_CHECKING:
    from tests.e2e.bench import Bench
    from tests.e2e.command import Result

pytestmark = pytest.mark.e2e

FILE = "untildone-questions.json"
QUESTIONS = [
    {
        "group": "Words",
        "stories": ["2"],
        "question": "In which\x1b[31m language?",
        "why": "Two fit",
    },
    {
        "group": "Limits",
        "stories": ["1", "9"],
        "question": "How long may a name be?",
        "choices": ["40 signs", "100 signs"],
        "default": "40 signs",
    },
    {"group": "Words", "stories": [], "question": "Are emojis allowed?", "default": "No"},
]


def asks(questions: object = QUESTIONS) -> list[list[Any]]:
    text = json.dumps({"questions": questions}) if not isinstance(questions, str) else questions
    return [["write", FILE, text], ["write", "src/app.py", "x"], ["say", COMPLETE]]


def interview(bench: Bench, *words: str, **options: Any) -> Result:
    return bench.run("interview", "demo", *words, "--agent-cmd", bench.agent, **options)


def guidance(bench: Bench, n: int) -> str:
    prompt = bench.calls()[n - 1].prompt
    _, _, rest = prompt.partition("# Guidance from the person who runs this")
    return rest.partition("\n# ")[0].strip()


def test_answers_of_a_script_reach_the_prompts_of_the_first_run(bench: Bench) -> None:
    bench.plan({1: asks()})
    before = bench.snapshot()
    asked = interview(bench, "--json").ok().json()
    assert bench.snapshot() == before
    rows = asked["questions"]
    assert [(row["id"], row["group"], row["stories"]) for row in rows] == [
        ("q1", "Words", ["2"]),
        ("q2", "Words", []),
        ("q3", "Limits", ["1"]),
    ]
    assert rows[0]["question"] == "In which language?"
    assert asked["calls"] == 1
    prompt = bench.calls()[0].prompt
    assert f"## Story 2: {STORIES[1]}\n- [ ] 2.1 Write the" in prompt
    assert not bench.calls()[0].cwd.startswith(str(bench.repo))
    answers = json.dumps({"answers": {"q1": "In French.", "q3": "100 signs"}})
    taken = interview(bench, "--answers", "-", "--yes", "--json", stdin=answers).ok().json()
    assert taken["run_id"] is None
    assert sorted(row["story_id"] for row in taken["guidance"]) == ["", "1", "2"]
    assert len(bench.calls()) == 1
    run = bench.loop("--on-complete", "keep").ok()
    assert run.events[0]["event"] == "run_started"
    assert len(run.named("guided")) == 3
    both = "Question: Are emojis allowed?\nAnswer: No"
    assert guidance(bench, 4) == both
    assert "Question: In which language?\nAnswer: In French." in guidance(bench, 3)
    assert both in guidance(bench, 2)
    assert "Answer: 100 signs" in guidance(bench, 2)
    bench.run("replay", "demo").ok()


def test_at_a_terminal_numbers_stand_for_choices_and_a_dash_passes_over(bench: Bench) -> None:
    bench.plan({1: asks()})
    terminal = bench.terminal("interview", "demo", "--agent-cmd", bench.agent)
    terminal.wait_text("In which language? (story 2)")
    terminal.type("-\n")
    terminal.wait_text("Are emojis allowed?")
    terminal.type("\n")
    terminal.wait_text("2  100 signs")
    terminal.type("2\n")
    assert terminal.wait() == 0
    listed = bench.run("guide", "demo", "--list", "--json").ok().json()["guidance"]
    texts = {row["story_id"]: row["text"].partition("Answer: ")[2] for row in listed}
    assert texts == {"": "No", "1": "100 signs"}


def test_the_same_plan_is_not_paid_for_twice(bench: Bench) -> None:
    bench.plan(default=asks())
    shown = interview(bench).ok(5)
    assert "How long may a name be?" in shown.stderr
    assert "--answers FILE" in shown.stderr
    interview(bench, "--json").ok()
    assert len(bench.calls()) == 1
    interview(bench, "--json", "--again").ok()
    assert len(bench.calls()) == 2
    bench.write(TASKS, bench.read(TASKS) + "\n## 4. Delta\n\n- [ ] 4.1 Test it\n")
    assert "no questions" in interview(bench, "--answers", FILE).ok(2).stderr
    interview(bench, "--json").ok()
    assert len(bench.calls()) == 3


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("[]", "not in the form"),
        ('{"questions": [{"group": 1}]}', "not in the form"),
        ("{", "form"),
    ],
)
def test_an_answer_in_another_form_is_refused(bench: Bench, written: str, words: str) -> None:
    bench.plan(default=asks(written))
    assert words in interview(bench, "--json").ok(3).stderr
    bench.plan(default=[["say", COMPLETE]])
    assert "no questions into" in interview(bench, "--json").ok(3).stderr


def test_a_plan_that_leaves_nothing_open(bench: Bench) -> None:
    bench.plan(default=asks([]))
    assert "leaves nothing open" in interview(bench, "--yes").ok().stdout
    assert interview(bench, "--json").ok().json()["questions"] == []


def test_what_cannot_be_asked_or_answered(bench: Bench) -> None:
    bench.plan(default=asks())
    unknown = bench.run("interview", "dmo", "--agent-cmd", bench.agent).ok(2)
    assert "Did you mean `demo`" in unknown.stderr
    interview(bench, "--json").ok()
    bad = interview(bench, "--answers", "-", stdin='{"answers": {"q9": "x"}}').ok(2)
    assert "no question q9" in bad.stderr
    assert "cannot be read" in interview(bench, "--answers", "-", stdin="nothing").ok(2).stderr
    assert bench.run("guide", "demo", "--list", "--json").ok().json()["guidance"] == []


def test_answers_for_a_run_that_stands_still_go_to_it(bench: Bench) -> None:
    bench.plan({1: [["say", "<promise>FAILED: no</promise>"]], 2: asks()})
    bench.loop("--max-retries", "0").ok(3)
    taken = interview(bench, "--yes", "--json").ok().json()
    assert taken["run_id"]
    bench.run("resume", "demo", "--json").ok()
    assert "Answer: 40 signs" in guidance(bench, 3)


# -- guide before the first run ----------------------------------------------------------------


def test_guidance_before_the_first_run_is_kept_for_it(bench: Bench) -> None:
    bench.plan()
    said = bench.run("guide", "demo", "Use tabs.").ok()
    assert "untildone run demo" in said.stdout
    bench.run("guide", "demo", "--story", "3", "Only in three.").ok()
    assert "Use tabs." in bench.loop("--dry-run").ok().stdout
    listed = bench.run("guide", "demo", "--list").ok().stdout
    assert listed.splitlines() == ["every story: Use tabs.", "story 3: Only in three."]
    bench.loop("--on-complete", "keep").ok()
    assert [guidance(bench, n) for n in (1, 2, 3)] == [
        *("Use tabs.", "Use tabs.", "Use tabs.\n\nOnly in three."),
    ]
    assert not list(bench.path(".git/untildone/guidance").iterdir())


def test_guidance_before_the_first_run_can_be_taken_back(bench: Bench) -> None:
    bench.plan()
    bench.run("guide", "demo", "Use tabs.").ok()
    bench.run("guide", "demo", "--story", "3", "Only in three.").ok()
    bench.run("guide", "demo", "--story", "3", "--clear").ok()
    assert bench.run("guide", "demo", "--list").ok().stdout == "every story: Use tabs.\n"
    bench.run("guide", "demo", "--clear").ok()
    bench.loop("--on-complete", "keep").ok()
    assert guidance(bench, 1) == ""


def test_guidance_outlives_an_edit_of_the_title_and_names_what_is_gone(bench: Bench) -> None:
    bench.plan()
    bench.run("guide", "demo", "--story", "1", "For one.").ok()
    bench.run("guide", "demo", "--story", "3", "For three.").ok()
    text = bench.read(TASKS).replace("Alpha", "First")
    bench.write(TASKS, text[: text.index("## 3.")])
    run = bench.loop("--on-complete", "keep").ok()
    assert guidance(bench, 1) == "For one."
    (told,) = [e["message"] for e in run.named("warning") if "For three." in e["message"]]
    assert "not there" in told


def test_guidance_before_the_first_run_reaches_one_in_a_worktree(bench: Bench) -> None:
    bench.plan()
    bench.run("guide", "demo", "Use tabs.").ok()
    bench.loop("--checkpoint", "worktree", "--on-complete", "cleanup").ok()
    assert guidance(bench, 1) == "Use tabs."


def test_guidance_after_a_run_was_cleaned_up_is_for_the_next_one(bench: Bench) -> None:
    bench.plan({1: [["say", "<promise>FAILED: no</promise>"]]})
    bench.loop("--max-retries", "0", "--on-complete", "cleanup").ok(3)
    bench.run("guide", "demo", "Use tabs.").ok()
    bench.loop("--on-complete", "keep").ok()
    assert guidance(bench, 2) == "Use tabs."


def test_guidance_for_what_is_not_there_is_refused(bench: Bench) -> None:
    assert "Did you mean `demo`" in bench.run("guide", "dmo", "x").ok(2).stderr
    assert "no story `7`" in bench.run("guide", "demo", "--story", "7", "x").ok(2).stderr
    assert not bench.path(".git/untildone/guidance").exists()
