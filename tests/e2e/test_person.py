"""The person in the loop: guidance, skipped and retried stories, an order, open questions."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.agent_calls import COMPLETE, fails
from tests.e2e.change import TASKS, tasks_text
from tests.e2e.command import COMMAND
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.e2e.bench import Bench
    from tests.e2e.command import Live, Result

pytestmark = pytest.mark.e2e

SECTION = "# Guidance from the person who runs this"


def gated(bench: Bench, name: str = "a") -> list[list[Any]]:
    """A call that waits for its gate before it finishes."""
    return [["wait", bench.gate(name)], ["write", "work-{n}.txt", "w\n"], ["say", COMPLETE]]


def stories_called(bench: Bench) -> list[str]:
    return [call.env["UNTILDONE_STORY_ID"] for call in bench.calls()]


def guidance(bench: Bench) -> list[str]:
    """The guidance section of each call's prompt, in one line."""
    parts = (call.prompt.partition(SECTION)[2].partition("\n# ")[0] for call in bench.calls())
    return [" ".join(part.split()) for part in parts]


def parked(bench: Bench) -> list[tuple[str, str, str]]:
    rows = json.loads(bench.read(".claude/loop-state.json"))["parked"]
    return [(row["story_id"], row["why"], row["question"] or row["reason"]) for row in rows]


def ask_first(bench: Bench) -> None:
    bench.write(TASKS, tasks_text().replace("- [ ] 1.1", "- [?] 1.1"))
    bench.commit("a question")


def at_gate(bench: Bench, *flags: str) -> Live:
    bench.plan({1: gated(bench)})
    live = bench.start(*bench.loop_args(*flags))
    bench.wait_call(1)
    return live


def errors(result: Result) -> Sequence[str]:
    return [f"{event['story_id']}: {event['message']}" for event in result.named("error")]


# -- guide -------------------------------------------------------------------------------------


def test_guidance_for_a_live_loop(bench: Bench) -> None:
    live = at_gate(bench)
    said = bench.run("guide", "demo", "-", "--json", stdin="Use tabs.\n").ok().json()
    assert (said["live"], said["guidance"][0]["text"]) == (True, "Use tabs.")
    bench.run("guide", "demo", "--story", "3", "Only in three.").ok()
    bench.open_gate("a")
    live.wait().ok()
    assert guidance(bench) == ["", "Use tabs.", "Use tabs. Only in three."]
    left = bench.run("guide", "demo", "--list", "--json").ok().json()["guidance"]
    assert [row["text"] for row in left] == ["Use tabs."]  # story 3 is finished
    bench.run("replay", "demo").ok()


def test_guidance_survives_a_killed_loop(bench: Bench) -> None:
    live = at_gate(bench)
    bench.run("guide", "demo", "Use tabs.").ok()
    live.signal(signal.SIGKILL)
    live.wait()
    bench.plan()
    bench.run("resume", "demo", "--json").ok()
    assert guidance(bench) == ["", "Use tabs.", "Use tabs.", "Use tabs."]


def test_guidance_for_a_stopped_run_and_its_end(bench: Bench) -> None:
    live = at_gate(bench)
    bench.run("stop", "demo").ok()
    live.wait().ok(6)
    bench.run("guide", "demo", "First.").ok()
    bench.run("guide", "demo", "--clear").ok()
    said = bench.run("guide", "demo", "Second.").ok()
    assert "untildone resume demo" in said.stdout
    bench.plan()
    bench.run("resume", "demo", "--json").ok()
    assert guidance(bench)[1:] == ["Second."] * 3
    nowhere = bench.run("guide", "demo", "--story", "4", "x").ok(2)
    assert "no story `4`" in nowhere.stderr


def _two_ask_the_same(bench: Bench) -> None:
    asks = [["say", "<promise>ASK: Which one?</promise>"]]
    bench.plan({1: asks, 2: asks})
    bench.loop().ok(3)
    assert [row[0] for row in parked(bench)] == ["1", "2"]


def test_one_answer_for_all_stories_that_ask_the_same(bench: Bench) -> None:
    _two_ask_the_same(bench)
    said = bench.run("guide", "demo", "The first.").ok().stdout
    assert "Retried: 1, 2." in said
    bench.run("resume", "demo", "--json").ok()
    told = "An earlier attempt asked: Which one? The answer: The first."
    assert guidance(bench)[3:] == [told, told]
    bench.run("replay", "demo").ok()


def test_an_answer_to_one_story_names_those_that_ask_the_same(bench: Bench) -> None:
    _two_ask_the_same(bench)
    said = bench.run("guide", "demo", "--story", "1", "The first.").ok().stdout
    assert "The same is asked by: 2." in said
    assert 'untildone guide demo --story 2 "your answer"' in said
    assert [row[0] for row in parked(bench)] == ["2"]


def test_guidance_for_several_stories_at_once(bench: Bench) -> None:
    live = at_gate(bench)
    bench.run("guide", "demo", "--story", "2", "--story", "3", "Brief.").ok()
    bench.open_gate("a")
    live.wait().ok()
    assert guidance(bench) == ["", "Brief.", "Brief."]


# -- a question of the person ------------------------------------------------------------------


def test_a_marked_task_parks_its_story_until_it_is_answered(bench: Bench) -> None:
    ask_first(bench)
    ended = bench.loop().ok(3)
    assert stories_called(bench) == ["2", "3"]
    assert ended.one("complete")["reason"] == "parked"
    assert errors(ended) == ["1: Story 1 is marked as one that waits for an answer"]
    assert parked(bench) == [("1", "marked", "1.1 Write the alpha file")]
    assert "story 1 is marked as one that waits for an answer: 1.1 Wr" in bench.run("status").stdout
    refused = bench.run("resume", "demo").ok(2)
    assert 'untildone guide demo --story 1 "your answer"' in refused.stderr
    assert bench.run("guide", "demo", "In UTF-8.", "--json").ok().json()["released"] == ["1"]
    bench.run("resume", "demo", "--json").ok()
    assert guidance(bench) == ["", "", "In UTF-8."]
    assert bench.read(TASKS) == tasks_text([1, 2, 3])
    bench.run("replay", "demo").ok()


def test_a_mark_that_the_agent_ticks_comes_back(bench: Bench) -> None:
    ask_first(bench)
    bench.plan({1: [["tick_all"], ["say", COMPLETE]]})
    bench.loop().ok(3)
    assert "- [?] 1.1" in bench.read(TASKS)
    assert stories_called(bench) == ["2", "3"]


# -- a question of the agent -------------------------------------------------------------------

ASKS: dict[str, list[list[Any]]] = {
    "a promise": [["write", "half.txt", "half\n"], ["say", "<promise>ASK: Which one?</promise>"]],
    "its last words": [["write", "half.txt", "half\n"], ["say", "I see two ways.\n\nWhich one?"]],
    "a tool": [["write", "half.txt", "half\n"], ["ask_tool", "Which one?"], ["say", "I wait."]],
}


@pytest.mark.parametrize("how", ASKS)
def test_an_agent_that_asks_parks_its_story(bench: Bench, how: str) -> None:
    bench.install_claude()
    bench.plan({1: ASKS[how]})
    ended = bench.loop("--agent", "claude", "--max-retries", "0").ok(3)
    assert stories_called(bench) == ["1", "2", "3"]
    first = ended.named("iteration_ended")[0]
    assert (first["outcome"], first["outcome_class"]) == ("no_promise", "question")
    parked_event = ended.one("story_parked")
    assert parked_event["question"].endswith("Which one?")
    assert bench.blob(parked_event["saved_ref"], "half.txt") == "half"
    assert not bench.path("half.txt").exists()
    assert errors(ended) == ["1: Story 1 waits for an answer"]
    bench.run("guide", "demo", "--story", "1", "The first one.").ok()
    bench.run("resume", "demo", "--json").ok()
    assert guidance(bench)[-1].endswith("Which one? The answer: The first one.")
    bench.run("replay", "demo").ok()


def test_an_echoed_prompt_asks_nothing(bench: Bench) -> None:
    bench.plan(default=[["echo"]])
    ended = bench.loop("--max-retries", "0").ok(3)
    assert ended.one("complete")["reason"] == "max_retries"
    assert "<promise>ASK: your question</promise>" in bench.calls()[0].prompt


# -- skip and retry ----------------------------------------------------------------------------


def test_skip_ends_the_call_and_the_loop_goes_on(bench: Bench) -> None:
    bench.plan({1: [["write", "half.txt", "half\n"], ["wait", bench.gate("never")]]})
    live = bench.start(*bench.loop_args())
    bench.wait_call(1)
    bench.run("skip", "demo", "1", "--why", "later").ok()
    ended = live.wait().ok(3)
    assert stories_called(bench) == ["1", "2", "3"]
    assert ended.outcomes() == ["interrupted", "complete", "complete"]
    assert bench.blob(ended.one("reverted")["saved_ref"], "half.txt") == "half"
    assert parked(bench) == [("1", "skipped", "later")]
    assert bench.read(TASKS) == tasks_text([2, 3])
    assert "untildone retry demo 1" in bench.run("resume", "demo").ok(2).stderr
    bench.run("retry", "demo", "1").ok()
    bench.run("resume", "demo", "--json").ok()
    assert bench.read(TASKS) == tasks_text([1, 2, 3])
    assert "untildone undo demo" in bench.run("retry", "demo", "1").ok(2).stderr
    bench.run("replay", "demo").ok()


def test_on_fail_skip_goes_on_with_the_others(bench: Bench) -> None:
    bench.plan({1: fails("no net"), 2: fails("no net")})
    ended = bench.loop("--on-fail", "skip", "--max-retries", "1").ok(3)
    assert stories_called(bench) == ["1", "1", "2", "3"]
    assert errors(ended) == ["1: Story 1 has no retry left and was skipped"]
    assert parked(bench) == [("1", "failed", "no net")]
    bench.run("resume", "demo", "--json").ok()  # tries again what the loop gave up
    assert stories_called(bench)[4:] == ["1"]


def test_a_stuck_loop_that_waits_for_its_choice_goes_on_when_told(bench: Bench) -> None:
    bench.plan({1: fails()})
    live = bench.start(*bench.loop_args("--max-retries", "0", "--on-complete", "ask"))
    live.wait_event("complete", reason="max_retries")
    bench.run("retry", "demo", "1").ok()
    live.wait_event("complete", reason="success")
    bench.run("finish", "demo", "keep").ok()
    live.wait().ok()


# -- reorder -----------------------------------------------------------------------------------


def test_reorder_a_live_loop_and_a_stopped_run(bench: Bench) -> None:
    live = at_gate(bench)
    bench.run("reorder", "demo", "3").ok()
    bench.open_gate("a")
    live.wait().ok()
    assert stories_called(bench) == ["1", "3", "2"]
    wrong = bench.run("reorder", "demo", "31").ok(2)
    assert "did you mean `3`?" in wrong.stderr


def test_an_agent_may_not_decide_about_its_own_run(bench: Bench) -> None:
    sh = "untildone skip demo 2 2>refused.txt; true"
    bench.plan({1: [["sh", sh], ["say", COMPLETE]]})
    (bench.bin / "untildone").symlink_to(COMMAND)
    bench.loop().ok()
    assert "not to its agent" in bench.read("refused.txt")


# -- without the name of the change ------------------------------------------------------------


def test_stories_are_steered_without_naming_the_only_run(bench: Bench) -> None:
    live = at_gate(bench)
    assert bench.run("reorder", "3", "2", "--json").ok().json()["order"] == ["3", "2"]
    assert bench.run("skip", "2", "--json").ok().json()["change_id"] == "demo"
    bench.run("retry", "2").ok()
    bench.open_gate("a")
    live.wait().ok()
    assert stories_called(bench) == ["1", "3", "2"]


@pytest.mark.parametrize(
    ("words", "said"),
    {
        ("skip",): "`untildone stories`",
        ("retry", "demo"): "`untildone stories demo`",
        ("skip", "demo", "2", "3"): "One story at a time, not 2",
        ("skip", "nothing", "2"): "no run of this change in this worktree: nothing",
        ("reorder", "31", "3"): "did you mean",
    }.items(),
)
def test_what_is_missing_or_unknown_is_named(
    bench: Bench, words: tuple[str, ...], said: str
) -> None:
    bench.plan(default=fails())
    bench.loop("--max-retries", "0").ok(3)
    assert said in bench.run(*words).ok(2).stderr


# -- asked at the terminal ---------------------------------------------------------------------


def test_on_fail_ask_reads_the_decision(bench: Bench) -> None:
    bench.plan({1: fails("no net"), 2: fails("no net"), 3: fails("no net")})
    flags = ["--agent-cmd", bench.agent, "--on-fail", "ask", "--max-retries", "0"]
    terminal = bench.terminal("run", "demo", *flags, "--on-complete", "keep")
    terminal.wait_text("retry, skip, stop, or what the agent should know?")
    terminal.type("\nUse the Cache.\n")
    bench.wait_call(2)
    terminal.wait_text("attempt 2")
    until(lambda: terminal.raw.count(b"what the agent should know? ") >= 2)
    terminal.type("skip\n")
    bench.wait_call(3)
    until(lambda: terminal.raw.count(b"what the agent should know? ") >= 3)
    terminal.type("stop\n")
    assert terminal.wait() == 3
    assert stories_called(bench) == ["1", "1", "2"]
    assert guidance(bench) == ["", "Use the Cache.", ""]
    assert json.loads(bench.read(".claude/loop-state.json"))["reason"] == "max_retries"
    bench.run("replay", "demo").ok()
