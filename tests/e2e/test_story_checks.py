"""What decides about a story is as the person wrote it, and who the person is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, failed
from tests.e2e.change import TASKS, tasks_text

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

HEADING = "## 2. Bravo greeting\n"
CHECK = "test -f bravo.txt"
CHECKED = tasks_text().replace(HEADING, f"{HEADING}\nVerify: `{CHECK}`\n")
IDLE = [["say", COMPLETE]]
MAKES_IT = [["write", "bravo.txt", "x"], *DONE]


def edits(path: str, old: str, new: str) -> list[str]:
    return ["sh", f"sed -i 's/{old}/{new}/' {path}"]


def test_a3_an_attempt_cannot_change_the_check_of_another_story(bench: Bench) -> None:
    bench.write(TASKS, CHECKED)
    bench.commit("a check of story 2")
    bench.plan({1: [edits(TASKS, CHECK, "true"), *DONE], 4: MAKES_IT})
    result = bench.loop("--max-retries", "1").ok()
    assert result.outcomes() == [
        *("verify_failed", "complete", "verify_failed", "complete", "complete")
    ]
    reason = result.named("iteration_ended")[0]["reason"]
    assert f"story 2: Verify: `true`, was `{CHECK}`" in reason
    assert f"Verify: `{CHECK}`" in bench.read(TASKS)


def test_a3_the_run_keeps_the_persons_check_where_git_cannot_put_it_back(bench: Bench) -> None:
    """The stories are ignored by git; the check of story 1 itself edits that of story 2."""
    stories = {
        "userStories": [
            {"id": "a", "title": "First", "passes": False},
            {
                "id": "b",
                "title": "Second",
                "description": f"Do it.\nVerify: `{CHECK}`",
                "passes": False,
            },
        ]
    }
    bench.write(".git/info/exclude", "prd.json\n")
    bench.write("prd.json", json.dumps(stories))
    bench.plan({1: [edits("prd.json", CHECK, "true"), ["say", "<promise>FAILED: x</promise>"]]})
    flags = ["--source", "prd-json", "--trust-story-checks", "--max-retries", "1"]
    result = bench.run(*_prd(bench, *flags)).ok(3)
    assert result.outcomes() == ["failed", "complete", "verify_failed", "verify_failed"]
    (said,) = [e["message"] for e in result.named("warning") if "says other things" in e["message"]]
    assert f"Verify: `true`, was `{CHECK}`" in said
    assert "--trust-story-checks" in said


FIRST = "## 1. Alpha greeting\n"
PYTEST = "test $(ls test_*.py | wc -l) -gt 0 && ls test_*.py | wc -l | sed 's/$/ passed in 1s/'"
LOOSENS: dict[str, tuple[str, Actions]] = {
    "Touches": ("Touches: `check.sh`", [["append", "check.sh", "\n"], *DONE]),
    "Tests": ("Tests: may shrink", [["delete", "test_b.py"], *DONE]),
    "Allow empty": ("Allow empty: yes", IDLE),
}


def loosened(bench: Bench, line: str, *, where: str = FIRST) -> str:
    return bench.read(TASKS).replace(where, f"{where}\n{line}\n")


@pytest.mark.parametrize("what", LOOSENS)
def test_a3_what_nobody_committed_allows_nothing(bench: Bench, what: str) -> None:
    line, work = LOOSENS[what]
    for name in ("test_a.py", "test_b.py"):
        bench.write(name, "")
    bench.write("check.sh", f"{PYTEST}\n")
    bench.only_stories(1)
    plain = bench.read(TASKS)
    bench.write(TASKS, loosened(bench, line))
    bench.plan(default=work)
    flags = ["--verify", "sh check.sh", "--evidence", "--max-retries", "0"]
    result = bench.loop(*flags).ok(3)
    assert result.outcomes() == ["verify_failed"]
    (said,) = [e["message"] for e in result.named("warning") if "not allowed" in e["message"]]
    assert f"{TASKS}:" in said
    assert line.replace("`", "") in said
    assert not [e for e in result.named("warning") if "says other things" in e["message"]]
    bench.run("finish", "demo", "cleanup").ok()
    trusted = bench.loop(*flags, "--trust-story-checks", "--on-complete", "cleanup").ok()
    assert trusted.outcomes() == ["complete"]
    bench.git("checkout", "-qf", ".")
    bench.write(TASKS, plain)
    bench.write(TASKS, loosened(bench, line))
    bench.commit("what story 1 may do")
    bench.write(TASKS, bench.read(TASKS) + "\nWords that nobody has committed.\n")
    assert bench.loop(*flags).ok().outcomes() == ["complete"]


def test_a3_what_is_committed_for_another_story_allows_nothing(bench: Bench) -> None:
    line, work = LOOSENS["Allow empty"]
    bench.write(TASKS, loosened(bench, line, where=HEADING))
    bench.commit("what story 2 may do")
    bench.write(TASKS, loosened(bench, line))
    bench.plan({1: work})
    flags = ["--evidence", "--max-retries", "0"]
    assert bench.loop(*flags).ok(3).outcomes() == ["verify_failed"]


def test_a3_the_same_holds_for_stories_in_json(bench: Bench) -> None:
    stories = [
        {"id": "a", "title": "First", "passes": False, "touches": ["check.sh"]},
        {"id": "b", "title": "Second", "passes": False, "description": "x\nTouches: check.sh"},
        {"id": "c", "title": "Third", "passes": False},
    ]
    bench.write("check.sh", "true\n")
    bench.write("prd.json", json.dumps({"userStories": stories}))
    bench.commit("what stories 1 and 2 may do")
    stories[2]["touches"] = ["check.sh"]
    bench.write("prd.json", json.dumps({"userStories": stories}, indent=1))
    bench.plan(default=[["append", "check.sh", "\n"], *DONE])
    flags = ["--source", "prd-json", "--verify", "sh check.sh", "--max-retries", "0"]
    result = bench.run(*_prd(bench, *flags)).ok(3)
    assert result.outcomes() == ["complete", "complete", "verify_failed"]


def _prd(bench: Bench, *flags: str) -> list[str]:
    args = bench.loop_args(*flags)
    return [arg if arg != "demo" else "prd" for arg in args]


def test_a3_a_check_that_nobody_committed_is_shown_and_not_run(bench: Bench) -> None:
    bench.write(TASKS, CHECKED.replace(CHECK, "touch ran-it"))
    bench.plan()
    result = bench.loop("--on-complete", "cleanup").ok()
    assert result.named("verify_started") == []
    assert not bench.path("ran-it").exists()
    (said,) = [e["message"] for e in result.named("warning") if "ran-it" in e["message"]]
    assert f"{TASKS}:10" in said
    assert "--trust-story-checks" in said
    bench.git("checkout", "-q", ".")
    bench.write(TASKS, CHECKED)
    trusted = bench.loop("--trust-story-checks", "--max-retries", "0").ok(3)
    assert [e["command"] for e in trusted.named("verify_started")] == [CHECK]


def test_a3_a_check_that_is_not_run_is_shown_again_when_the_run_goes_on(bench: Bench) -> None:
    bench.write(TASKS, CHECKED.replace(CHECK, "touch ran-it"))
    bench.plan({1: [["say", failed("no")]]})
    bench.loop("--max-retries", "0").ok(3)
    shown = bench.run("run", "demo", "--agent-cmd", bench.agent, "--dry-run").ok()
    assert "touch ran-it" in shown.stdout + shown.stderr
    result = bench.run("resume", "demo", "--json").ok()
    assert "touch ran-it" in " ".join(e["message"] for e in result.named("warning"))
    assert not bench.path("ran-it").exists()
