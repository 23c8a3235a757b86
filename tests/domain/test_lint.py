"""What is wrong with a plan: each rule by an example that has it and one that has not."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import book, story
from untildone.domain.stories.lint import (
    MOST_NAMED_FILES,
    MOST_TASKS,
    MOST_WORDS,
    Finding,
    Level,
    Surroundings,
    counted,
    lint,
)
from untildone.domain.stories.story import Remark, Story, StoryBook, Task

FINE = "the tests pass"
KEY = "AKIA" + "QWERTYUIOPASDFGH"


def one(body: str = FINE, number: int = 1, title: str = "", **more: object) -> Story:
    return replace(story(number, title=title), body=body, **more)


def rules(*stories: Story, around: Surroundings | None = None, source: str = "") -> list[str]:
    return [
        f"{f.level} {f.rule} {f.story_id}" for f in found(*stories, around=around, source=source)
    ]


def found(
    *stories: Story, around: Surroundings | None = None, source: str = ""
) -> tuple[Finding, ...]:
    plan = StoryBook("demo", source or "fake", "tasks", stories)
    return lint(plan, around or Surroundings())


def test_a_good_plan() -> None:
    assert found(one(), one(number=2, depends_on=("1",))) == ()
    assert counted(()) == ""


def test_what_is_done_is_not_judged() -> None:
    assert found(replace(one("TBD", title="TBD"), tasks=story(1, done=True).tasks)) == ()


@pytest.mark.parametrize(
    ("stories", "told"),
    [
        ((one(), one(number=1, title="Other")), ["error duplicate-id 1"]),
        (
            (one(depends_on=("2",)), one(number=2, depends_on=("1",))),
            ["error cycle 1", "info order 1"],
        ),
        ((one(depends_on=("9",)),), ["error unknown-id 1"]),
        ((one(depends_on=("2",)), one(number=2)), ["info order 1"]),
        ((one(held="Which colour?"),), ["warning question 1"]),
        ((one("nothing"),), ["warning no-outcome 1"]),
        ((one("nothing", acceptance=("It is blue",)),), []),
        ((one(title="TBD"),), ["warning placeholder 1"]),
        ((one(title="Show `TBD` in the list"),), []),
        ((one(title="Use <your key>"),), ["warning placeholder 1"]),
        ((one(title="Add a [TODO](todo.md) list"),), []),
        ((one(agent="claud"),), ["error unknown-agent 1"]),
        ((one(f"{FINE} with {KEY}"),), ["error secret 1"]),
        ((one(f"{FINE}\npassword: hunter2hunter2"),), ["warning secret 1"]),
        ((one("word\n" * (MOST_WORDS + 1) + FINE),), ["warning too-large 1"]),
        (
            (one(FINE + "".join(f" src/a{n}.py" for n in range(MOST_NAMED_FILES + 1))),),
            ["warning too-large 1"],
        ),
    ],
)
def test_rules(stories: tuple[Story, ...], told: list[str]) -> None:
    assert rules(*stories, around=Surroundings(agents=("claude",))) == told


def test_a_format_problem_and_lines_that_are_not_counted() -> None:
    ignored = (Remark(7, "In a code block"), Remark(8, "No story file", "x.md", unfinished=True))
    plan = StoryBook("demo", "fake", "tasks", (one(),), ignored, (Remark(3, "Broken"),))
    assert [(f.level, f.rule, f.path, f.line, f.message) for f in lint(plan, Surroundings())] == [
        (Level.ERROR, "format", "tasks", 3, "Broken"),
        (Level.INFO, "not-counted", "tasks", 7, "In a code block"),
        (Level.WARNING, "not-counted", "x.md", 8, "No story file"),
    ]


def test_an_unknown_id_with_one_answer() -> None:
    (known,) = found(one(FINE + "\nDepends: us-002"), one(number=2, id="US-002"))
    assert (known.fix, known.only_fix, known.row) == (
        "Depends: US-002",
        True,
        "Depends: us-002",
    )
    (of_field,) = found(one(depends_on=("us-2",)), one(number=2, id="US-2"))
    assert (of_field.fix, of_field.only_fix) == ("Depends: US-2", False)
    (two,) = found(one(depends_on=("us-2",)), one(number=2, id="US2"), one(number=3, id="US.2"))
    assert two.fix is None
    # Programs that hold back this one story have plans that can be run.
    assert rules(one(depends_on=("9",)), source="backlog-md") == ["warning unknown-id 1"]


@pytest.mark.parametrize(
    ("row", "rule", "fix", "only"),
    [
        ("Depends: the story with id 2", "empty-dependency", "Depends: 2", False),
        ("Depends: whatever comes first", "empty-dependency", None, False),
        ("Depends: none", "", None, False),
        ("Depends: 2", "", None, False),
        ("- **Verify:** make check", "prose-check", "- Verify: `make check`", True),
        ("Verify: make sure that it works", "prose-check", "Verify: `pytest -q`", False),
        ("Verify:", "prose-check", "Verify: `pytest -q`", False),
        ("Verify: `make check`", "", None, False),
        ("Verify that it works", "", None, False),
        ("```\nVerify: make check\n```", "", None, False),
        ("Verify: `TODO`", "placeholder", "Verify: `pytest -q`", False),
        ("Verify: `run <the tests>`", "placeholder", "Verify: `pytest -q`", False),
        ("Verify: `absent -q`", "cannot-start", None, False),
    ],
)
def test_lines_for_the_loop(row: str, rule: str, fix: str | None, *, only: bool) -> None:
    around = Surroundings(
        suggested="pytest -q",
        known=lambda word: word == "make",
        trouble=lambda text: (Level.ERROR, "no") if "absent" in text else None,
    )
    told = found(one(), one(f"{FINE}\n{row}", 2, id="3"), one(number=4, id="2"), around=around)
    told = tuple(f for f in told if f.level is not Level.INFO)
    assert [(f.rule, f.fix, f.only_fix) for f in told] == [(rule, fix, only)] * bool(rule)


def test_without_a_known_check_nothing_is_suggested() -> None:
    assert [f.fix for f in found(one(f"{FINE}\nVerify: `...`\nVerify: by hand"))] == [None, None]


def test_a_fault_of_all_stories_is_told_once() -> None:
    bare = [one("nothing", n) for n in range(1, 6)]
    (told,) = found(*bare)
    assert (told.story_id, told.message.partition(" open")[0]) == (None, "None of the 5")
    assert len(found(*bare, one(number=6))) == 5
    assert found(*bare, around=Surroundings(checked=True)) == ()


def test_too_many_tasks_and_too_few_words() -> None:
    tasks = tuple(Task(str(n), f"test {n}", done=False, line=n) for n in range(MOST_TASKS + 1))
    assert rules(one(tasks=tasks)) == ["warning too-large 1"]
    vague = Story("1", "Tests", (Task("1", "Tests", done=False, line=1),), line=1)
    assert rules(vague) == ["warning too-vague 1"]


def test_one_story_beside_the_others() -> None:
    chain = [one(number=n, depends_on=(str(n - 1),)) for n in range(2, 6)]
    assert rules(one(), *chain, one(number=6)) == ["info orphan 6"]


def test_where_a_finding_is() -> None:
    rows = ("# Tasks", "## 1. One", "the tests pass", "TBD", "## 2. Two", "TBD")
    around = Surroundings(rows={"tasks": rows})
    first, second = replace(story(1), line=2), replace(story(2), line=5)
    task = Task("1.1", "TBD", done=False, line=4)
    stories = [replace(s, body=FINE, tasks=(task,)) for s in (first, second)]
    assert [f.line for f in found(*stories, around=around)] == [4, 6]
    away = replace(stories[0], tasks=(replace(task, text="TBD, really"),))
    assert [f.line for f in found(away, around=around)] == [2]


def test_a_story_that_uses_what_a_later_one_makes() -> None:
    user = one(f"{FINE}\nCall src/new.py from src/old.py")
    maker = one(f"{FINE}\nCreate src/new.py", 2)
    around = Surroundings(files=frozenset({"src/old.py"}))
    (told,) = found(user, maker, around=around)
    assert (told.rule, told.fix) == ("consumer-before-producer", "Depends: 2")
    assert "src/new.py" in told.message
    assert rules(maker, user, around=around) == []
    both = one(f"{FINE}\nCreate src/new.py\nCall src/new.py")
    assert rules(both, maker, around=around) == []
    waits = replace(user, depends_on=("2",))
    assert rules(waits, maker, around=around) == ["info order 1"]
    assert lint(book(user, maker), around, deep=False) == ()


def test_stories_that_change_the_same_files() -> None:
    stories = [one(number=n, touches=("a.py",)) for n in range(1, 8)]
    same, lanes = found(*stories, one(number=8, touches=("b.py",)))
    assert (same.level, same.rule, same.message) == (
        Level.INFO,
        "same-files",
        "Stories 1, 2, 3, 4, 5 and 2 more both change a.py: they do not run at once",
    )
    assert (lanes.rule, lanes.story_id) == ("lanes", None)
    assert lanes.message.endswith("with 2, these stories take 7 rounds instead of 4")
    few = found(*stories[:2], around=Surroundings(lanes=3))
    assert [(f.level, f.rule) for f in few] == [
        (Level.WARNING, "same-files"),
        (Level.WARNING, "lanes"),
    ]
    assert counted(few) == "2 warnings"
    assert counted((*few, replace(few[0], level=Level.ERROR))) == "1 error and 2 warnings"
    # One of them waits for nothing but the other: no lane is lost.
    third = one(number=3, depends_on=("1", "2"))
    assert rules(stories[0], one(number=2, touches=("a.py",)), third)[0] == "info same-files 1"


def test_a_budget_that_bounds_nothing() -> None:
    around = Surroundings(budget=lambda text: "" if "=" in text else "write `cost=2`")
    wrong, right = one(f"{FINE}\nBudget: 45 minutes"), one(f"{FINE}\nBudget: time=45m", 2)
    (told,) = found(wrong, right, around=around)
    assert (told.level, told.rule, told.story_id) == (Level.ERROR, "no-budget", "1")
    assert told.message == "This bounds nothing: write `cost=2`"
