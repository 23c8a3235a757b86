"""A story that goes round in circles: another way is asked for, then somebody else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, failed

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

ANOTHER_WAY = "# Take another way"


def mess(n: int, reason: str) -> Actions:
    return [["write", "mess.txt", f"mess {n}\n"], ["say", failed(reason)]]


def test_the_same_failure_twice_asks_for_another_way_and_tells_what_was_tried(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({n: mess(n, f"no port at 12:0{n}:00 in /tmp/x{n}/y") for n in (1, 2)})
    done = bench.loop().ok()
    first, second, third = (call.prompt for call in bench.calls())
    assert ANOTHER_WAY not in first + second
    assert "no port at 12:02:00 in /tmp/x2/y" in third
    assert "- Attempt 1, gave up: no port at 12:01:00" in third
    assert "The last 2 attempts failed in the same way" in third
    assert "git show refs/ralph/attempts/demo/1/2" in third
    assert [e.get("same_failure") for e in done.named("retrying")] == [None, 2]
    bench.run("replay").ok()


def test_an_agent_that_always_fails_alike_is_still_called_as_often_as_promised(
    bench: Bench,
) -> None:
    bench.only_stories(1)
    bench.plan(default=mess(0, "no port"))
    bench.loop("--max-retries", "4").ok(3)
    assert len(bench.calls()) == 5
    assert "The last 4 attempts failed in the same way" in bench.calls()[-1].prompt


def test_the_same_files_again_are_the_same_failure_whatever_the_excuse(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: mess(1, "no port"), 2: mess(2, "no disk"), 3: mess(1, "no idea")})
    bench.loop().ok()
    prompts = [call.prompt for call in bench.calls()]
    assert [ANOTHER_WAY in prompt for prompt in prompts] == [False, False, False, True]


def test_a_crash_again_and_again_leaves_the_prompt_alone(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({n: [["write", "mess.txt", "x"], ["exit", 3]] for n in (1, 2, 3)})
    bench.loop().ok()
    assert len({call.prompt for call in bench.calls()}) == 1
    assert len(bench.calls()) == 4


def test_a_stuck_story_climbs_the_ladder_and_the_next_one_starts_below(bench: Bench) -> None:
    bench.install_claude()
    bench.only_stories(1, 2)
    bench.plan({n: mess(n, "no port") for n in range(1, 5)})
    args = ("--agents", "claude:haiku,claude:opus", "--agents", "command", "--max-retries", "5")
    done = bench.loop(*args).ok()
    calls = bench.calls()
    models = [c.argv[c.argv.index("--model") + 1] if "--model" in c.argv else "" for c in calls]
    assert models == ["haiku", "haiku", "haiku", "opus", "", "haiku"]
    assert [e.get("agent") for e in done.named("retrying")] == [
        *(None, None, "claude:opus", "command"),
    ]
    assert [e["agent"] for e in done.named("iteration_started")] == ["claude"] * 4 + [
        *("command", "claude"),
    ]
    assert [it["agent"] for it in bench.state()["iterations"]][-2:] == ["command", "claude"]
    bench.run("replay").ok()


def test_an_agent_of_the_ladder_that_is_not_there_is_named_before_anything_is_touched(
    bench: Bench,
) -> None:
    bench.install_claude()
    head = bench.sha()
    done = bench.run("run", "demo", "--agents", "claude", "--agents", "codex").ok(2)
    assert "codex" in done.stderr
    assert (bench.sha(), bench.calls()) == (head, [])
    both = bench.run("run", "demo", "--agents", "claude", "--agent", "codex").ok(2)
    assert "`agent` is not the first of `agents`" in both.stderr


def test_a_stuck_story_is_parked_if_asked_and_the_others_are_done(bench: Bench) -> None:
    bench.only_stories(1, 2)
    bench.plan({n: mess(n, "no port") for n in (1, 2, 3)})
    done = bench.loop("--on-stuck", "park", "--max-retries", "9").ok(3)
    assert [e["story_id"] for e in done.named("iteration_started")] == ["1", "1", "1", "2"]
    parked = done.one("story_parked")
    assert (parked["story_id"], parked["why"], parked["reason"]) == ("1", "stuck", "no port")
    assert bench.state()["reason"] == "parked"
    bench.run("resume", "demo").ok()
    assert bench.state()["status"] == "done"


def test_an_agent_that_says_the_same_thing_over_and_over_is_ended(bench: Bench) -> None:
    bench.install_claude()
    bench.only_stories(1)
    again: Actions = [["say", "Let me try that again."]]
    bench.plan({1: [*again * 600, ["sleep", 600]], 2: [["say", "Line {n}"], *again * 400, *DONE]})
    done = bench.loop("--agent", "claude").ok()
    assert done.outcomes() == ["agent_error", "complete"]
    first, _ = done.named("iteration_ended")
    assert (first["outcome_class"], first["reason"]) == (
        "repeating",
        "the agent said or did the same thing over and over and was ended",
    )
    assert bench.calls()[0].prompt == bench.calls()[1].prompt
    bench.run("replay").ok()
    assert bench.processes() == []


def test_an_agent_that_works_in_silence_outlives_the_idle_limit_a_sleeper_does_not(
    bench: Bench,
) -> None:
    bench.only_stories(1)
    busy = f"{sys.executable} -IS -c 'import time\nwhile time.process_time() < 2.5: pass'"
    bench.plan({1: [["sleep", 60]], 2: [["sh", busy], *DONE]})
    done = bench.loop("--idle-timeout", "0.015").ok()
    assert done.outcomes() == ["idle_timeout", "complete"]


def test_a_plain_loop_that_goes_back_and_forth_is_stalled(bench: Bench) -> None:
    toggles = {n: [["write", "side.txt", f"{n % 2}\n"], ["say", "done"]] for n in range(1, 9)}
    bench.plan(toggles)
    bench.loop("--task", "go round", "--done", "manual", "--max-iterations", "8").ok(4)
    assert len(bench.calls()) == 4
