"""What decides about a story is as the person wrote it, and who the person is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE
from tests.e2e.change import TASKS, tasks_text

if TYPE_CHECKING:
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
    assert f"{TASKS}:8" in said
    assert "--trust-story-checks" in said
    bench.git("checkout", "-q", ".")
    bench.write(TASKS, CHECKED)
    trusted = bench.loop("--trust-story-checks", "--max-retries", "0").ok(3)
    assert [e["command"] for e in trusted.named("verify_started")] == [CHECK]
