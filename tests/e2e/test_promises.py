"""What counts as the agent's promise, seen from outside (S000-R1-S2, S6, S8; contract: Promise)."""

# ruff: noqa: N802 - the ids of the requirement rows are part of the names
from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, failed

if TYPE_CHECKING:
    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

YES = ("complete", None)
NO = ("no_promise", None)
FENCE = "```"

# name: text of a plain agent, (outcome, reason)
TEXTS: dict[str, tuple[str, tuple[str, str | None]]] = {
    "alone": (COMPLETE, YES),
    "alone, more text after it": (f"{COMPLETE}\n\nBye, it was a pleasure.", YES),
    "at the end of the text": (f"All done. {COMPLETE}", YES),
    "inside a sentence": (f"I will say {COMPLETE} at the end.\nNot yet.", NO),
    "surrounding spaces": (f"done\n  {COMPLETE}  \nbye", YES),
    "emphasis": (f"done\n**{COMPLETE}**\nbye", YES),
    "terminal escapes": (f"\x1b[1;32m{COMPLETE}\x1b[0m\nbye", YES),
    "carriage returns": (f"done\r\n{COMPLETE}\r\nbye\r", YES),
    "lower case": ("<promise>complete</promise>", NO),
    "other word": ("<promise>DONE</promise>", NO),
    "word only": ("COMPLETE", NO),
    "fence": (f"{FENCE}\n{COMPLETE}\n{FENCE}\nbye", NO),
    "fence with info": (f"{FENCE}text\n{COMPLETE}\n{FENCE}", NO),
    "tilde fence": (f"~~~\n{COMPLETE}\n~~~", NO),
    "longer fence around a fence": (f"````\n{FENCE}\nx\n{FENCE}\n{COMPLETE}\n````", NO),
    "unclosed fence": (f"{FENCE}\ncode\n{COMPLETE}", NO),
    "after a closed fence": (f"{FENCE}\ncode\n{FENCE}\n{COMPLETE}", YES),
    "block quote": (f"The prompt says:\n> {COMPLETE}", NO),
    "inline code": (f"I print `{COMPLETE}`", NO),
    "inline code alone": (f"`{COMPLETE}`", NO),
    "failed then complete": (f"{failed('first')}\nbut then\n{COMPLETE}", YES),
    "complete then failed": (f"{COMPLETE}\nno, wait\n{failed('tests')}", ("failed", "tests")),
    "complete, then failed in a fence": (f"{COMPLETE}\n{FENCE}\n{failed('x')}\n{FENCE}", YES),
    "failed": (failed("no database"), ("failed", "no database")),
    "failed, reason with colons": (failed("a: b: c"), ("failed", "a: b: c")),
    "failed without a reason": ("<promise>FAILED</promise>", ("failed", "")),
    "failed with an empty reason": ("<promise>FAILED: </promise>", ("failed", "")),
}


def play(bench: Bench, actions: Actions, *args: str) -> tuple[str, str | None]:
    """One story, one call: outcome and reason; the exit code must fit."""
    bench.only_stories(1)
    bench.plan({}, default=actions)
    result = bench.loop("--max-retries", "0", *args)
    ended = result.one("iteration_ended")
    assert result.code == (0 if ended["outcome"] == "complete" else 3)
    return ended["outcome"], ended["reason"] if ended["outcome"] == "failed" else None


@pytest.mark.parametrize("case", TEXTS)
def test_S000_R1_S6_S8_promise_in_plain_text(bench: Bench, case: str) -> None:
    text, expected = TEXTS[case]
    assert play(bench, [["say", text]]) == expected


def test_S000_R1_S2_echo_of_the_whole_prompt_is_no_promise(bench: Bench) -> None:
    assert play(bench, [["echo"]]) == NO
    assert "<promise>" in bench.calls()[0].prompt


def test_S000_R1_S2_promise_after_an_echo_of_the_prompt_counts(bench: Bench) -> None:
    assert play(bench, [["echo"], ["say", COMPLETE]]) == YES


def test_S000_R1_S2_promise_without_a_last_newline_counts(bench: Bench) -> None:
    assert play(bench, [["raw", f"done {COMPLETE}"]]) == YES


def test_S000_R1_S2_promise_on_standard_error_is_none(bench: Bench) -> None:
    assert play(bench, [["err", COMPLETE]]) == NO


def test_S000_R1_S8_exit_1_after_complete_is_not_complete(bench: Bench) -> None:
    assert play(bench, [["say", COMPLETE], ["exit", 1]]) == ("agent_error", None)


def test_S000_R1_S6_failed_keeps_its_reason_whatever_the_exit_code(bench: Bench) -> None:
    assert play(bench, [["say", failed("disk")], ["exit", 1]]) == ("failed", "disk")


def test_S000_R1_S2_one_very_long_line_before_the_promise(bench: Bench) -> None:
    assert play(bench, [["raw", "x" * 3_000_000 + "\n"], ["say", COMPLETE]]) == YES


CLAUDE: dict[str, tuple[Actions, tuple[str, str | None]]] = {
    "final message": ([["say", f"done\n{COMPLETE}"]], YES),
    "earlier message, alone on its line": ([["say", COMPLETE], ["say", "Bye."]], YES),
    "earlier message, end of a sentence": ([["say", f"Next: {COMPLETE}"], ["say", "Bye."]], NO),
    "tool output": ([["tool", COMPLETE], ["say", "Bye."]], NO),
    "thinking": ([["think", COMPLETE], ["say", "Bye."]], NO),
    "sub-agent": ([["subagent", COMPLETE], ["say", "Bye."]], NO),
    "failed": ([["say", failed("no key")]], ("failed", "no key")),
    "no result event": ([["say", COMPLETE], ["no_result"]], ("agent_error", None)),
    "error result": ([["say", COMPLETE], ["is_error", "broken"]], ("agent_error", None)),
    "exit code": ([["say", COMPLETE], ["exit", 1]], ("agent_error", None)),
}


@pytest.mark.parametrize("case", CLAUDE)
def test_S000_R1_S6_S8_promise_of_claude(bench: Bench, case: str) -> None:
    actions, expected = CLAUDE[case]
    bench.install_claude()
    assert play(bench, actions, "--agent", "claude") == expected


def test_S000_R1_S1_claude_gets_the_prompt_on_standard_input(bench: Bench) -> None:
    bench.install_claude()
    assert play(bench, [["say", COMPLETE]], "--agent", "claude", "--model", "opus") == YES
    (call,) = bench.calls()
    assert "1.1 Write the alpha file" in call.prompt
    assert "stream-json" in call.argv
    assert call.argv[call.argv.index("--model") + 1] == "opus"
    assert not any("alpha file" in argument for argument in call.argv)


def test_S000_R1_S2_failed_check_is_a_failure_with_the_reason_in_the_next_prompt(
    bench: Bench,
) -> None:
    bench.only_stories(1)
    bench.plan(
        {
            1: [["say", COMPLETE]],
            2: [["write", "good.txt", "good\n"], ["say", COMPLETE]],
        }
    )
    check = "test -f good.txt || { echo good-is-missing; exit 9; }"
    result = bench.loop("--verify", check).ok()
    assert result.outcomes() == ["verify_failed", "complete"]
    assert len(result.named("verify_started")) == len(result.named("verify_ended")) == 2
    first, second = (call.prompt for call in bench.calls())
    assert check in first
    assert "good-is-missing" not in first.replace(check, "")
    assert "good-is-missing" in second.replace(check, "")


def test_S000_R1_S2_every_check_must_pass(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({}, default=[["say", COMPLETE]])
    result = bench.loop("--max-retries", "0", "--verify", "true", "--verify", "false").ok(3)
    assert result.outcomes() == ["verify_failed"]
