"""Budgets from outside: an honest stop in scripts, a pause on a terminal, never a lost attempt."""

from __future__ import annotations

import json
import signal
from importlib import resources
from typing import TYPE_CHECKING

import jsonschema
import pytest

from tests.e2e.agent_calls import fails
from tests.e2e.change import STORIES
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.e2e.bench import Bench
    from tests.e2e.command import Json, Terminal

# What the fake `claude` reports for each call: 2400 + 90 tokens, 0.01252 USD.
PER_CALL = 2490
CLAUDE = ("run", "demo", "--agent", "claude")
# A codex that says how many tokens it used, and only in its records of which model.
CODEX = """#!/usr/bin/env python3
import datetime, json, os, sys
sys.stdin.read()
id = "01a1e14e-9140-7f80-8727-676744d50fb8"
now = datetime.datetime.now(datetime.UTC).isoformat()
used = {"input_tokens": 2000, "output_tokens": 0}
if "RECORDS" in os.environ:
    rows = [
        ("session_meta", {"id": id, "cwd": os.getcwd()}),
        ("turn_context", {"model": "gpt-5-codex"}),
        ("token_usage_record", {"session_id": id, "response_id": "r", "usage": used}),
    ]
    with open(f"{os.environ['RECORDS']}/rollout-x-{id}.jsonl", "a") as file:
        for kind, data in rows:
            print(json.dumps({"timestamp": now, "type": kind, "payload": data}), file=file)
open(f"{datetime.datetime.now().timestamp()}.txt", "w").close()
text = "<promise>COMPLETE</promise>"
print(json.dumps({"type": "thread.started", "thread_id": id}))
item = {"id": "i", "type": "agent_message", "text": text}
print(json.dumps({"type": "item.completed", "item": item}))
print(json.dumps({"type": "turn.completed", "usage": used}))
"""


@pytest.fixture
def paid(bench: Bench) -> Bench:
    """A bench whose agent says what it used."""
    bench.install_claude()
    return bench


def at_pause(bench: Bench, *more: str) -> Terminal:
    """A loop on a terminal that has used up its budget after the second story."""
    terminal = bench.terminal(*CLAUDE, "--on-complete", "keep", "--budget", "tokens=3k", *more)
    terminal.wait_text("new amount, or stop?")
    state: Json = until(lambda: _paused(bench), what="the pause in the state file")
    assert (state["status"], state["stories"]["finished"]) == ("running", 2)
    assert state["budget_reached"]["name"] == "tokens"
    return terminal


def _paused(bench: Bench) -> Json | None:
    state = bench.state()
    return state if state["phase"] == "waiting_budget" else None


def test_the_call_that_goes_over_is_checked_and_kept_then_the_run_stops(paid: Bench) -> None:
    check = f"test -s work-1.txt && echo ran >> {paid.root}/checks"
    result = paid.loop("--agent", "claude", "--budget", "tokens=3k,cost=9", "--verify", check).ok(6)
    assert result.outcomes() == ["complete", "complete"]
    assert (paid.root / "checks").read_text().count("ran") >= 2
    assert paid.subjects("feature/x..ralph/demo") == [
        *("initial state", "checkpoint: 1", "checkpoint: 2"),
    ]
    started = result.one("run_started")
    assert started["budgets"] == [
        {"name": "tokens", "limit": 3000, "spent": 0},
        {"name": "cost", "limit": 9, "spent": 0},
    ]
    error = result.one("error")
    assert (error["budget"], error["spent"], error["limit"]) == ("tokens", 2 * PER_CALL, 3000)
    assert "untildone resume demo --budget tokens=8k" in error["hint"]
    assert result.one("complete")["reason"] == "stopped"
    assert result.one("finished") | {"choice": None, "status": "stopped"} == result.one("finished")

    state = paid.state()
    schema = json.loads(
        resources.files("untildone").joinpath("schemas/loop-state.v1.json").read_text()
    )
    jsonschema.validate(state, schema)
    assert (state["status"], state["reason"], state["phase"]) == ("stopped", "stopped", "stopped")
    assert state["budgets"][0] == {"name": "tokens", "limit": 3000, "spent": 2 * PER_CALL}
    assert state["forecast"] | {"minutes": 0} == {
        "stories_left": 1,
        "tokens": PER_CALL,
        "cost_usd": 0.01252,
        "minutes": 0,
        "enough_for": 0,
        "budget": "tokens",
    }
    shown = paid.run("status").ok().stdout
    assert "budget: tokens 4980 of 3k" in shown
    assert "the budget of tokens is enough for about 0 of 1" in shown
    assert "next: untildone resume demo --budget tokens=8k" in shown

    before = paid.snapshot()
    low, other = ("--budget", "tokens=4k"), ("--budget", "time=2h")
    for command in (("resume",), ("resume", *low), ("resume", *other), ("run", "--dry-run")):
        refused = paid.run(*command[:1], "demo", *command[1:]).ok(2)
        assert "is used up" in refused.stderr
        assert "untildone resume demo --budget tokens=" in refused.stderr
    assert paid.snapshot() == before

    again = paid.run("resume", "demo", "--json", "--budget", "tokens=8k").ok()
    assert [event["attempt"] for event in again.named("iteration_started")] == [1]
    assert paid.state()["total_tokens"] == 3 * PER_CALL
    assert paid.state()["budgets"][0] == {"name": "tokens", "limit": 8000, "spent": 3 * PER_CALL}
    paid.run("replay", "demo").ok()


def test_a_story_that_uses_up_its_budget_is_named(bench: Bench) -> None:
    bench.write("untildone.toml", 'budget = ["story-iterations=2", "time=5h"]\n')
    bench.commit("settings")
    bench.plan({1: fails("first"), 2: fails("second")})
    result = bench.loop().ok(6)
    error = result.one("error")
    assert (error["budget"], error["story_id"]) == ("story-iterations", "1")
    assert "of story 1 is used up: 2 of 2 iterations" in error["message"]
    again = bench.run("resume", "demo", "--json", "--budget", "story-iterations=off").ok()
    first = again.named("iteration_started")[0]
    assert (first["story_id"], first["attempt"], first["n"]) == ("1", 3, 3)
    assert [row["name"] for row in bench.state()["budgets"]] == ["time"]


def test_a_money_budget_refuses_to_start_if_a_price_is_unknown(paid: Bench) -> None:
    before = paid.snapshot()
    for more in (
        ("--agent-cmd", paid.agent),
        ("--agent", "claude", "--fallback", "command", "--agent-cmd", paid.agent),
    ):
        refused = paid.run("run", "demo", "--json", "--budget", "cost=5", *more).ok(2)
        assert "costs is not known, so `--budget cost=5` could not be kept" in refused.stderr
    assert (paid.snapshot(), paid.calls()) == (before, [])


def test_a_money_budget_does_not_go_on_past_a_call_whose_cost_nobody_knows(bench: Bench) -> None:
    bench.program("codex", CODEX)
    first = bench.loop("--agent", "codex", "--budget", "cost=5").ok(6)
    assert "cannot be kept" in first.one("error")["message"]
    assert "--budget cost=off" in first.one("error")["hint"]
    assert (len(first.outcomes()), bench.state()["status"]) == (1, "stopped")
    bench.run("resume", "demo", "--budget", "cost=off").ok()


def test_the_records_of_codex_know_the_model_that_a_money_budget_needs(bench: Bench) -> None:
    bench.program("codex", CODEX)
    records = bench.home / ".codex/sessions/2026/11/18"
    records.mkdir(parents=True)
    done = bench.loop(
        *("--agent", "codex", "--budget", "cost=0.001"), env={"RECORDS": str(records)}
    ).ok(6)
    assert done.one("error")["message"] == "The budget is used up: $0.0025 of $0.0010"
    (entry,) = bench.state()["iterations"]
    assert (entry["model"], entry["cost_usd"]) == ("gpt-5-codex", 0.0025)


def test_wrong_budgets_change_nothing(bench: Bench) -> None:
    before = bench.snapshot()
    for text, answer in (
        ("token=5", "did you mean `tokens=5`"),
        ("tokens=lots", "write for example `tokens=2M`"),
    ):
        refused = bench.loop("--budget", text).ok(2)
        assert answer in refused.stderr
    dry = bench.run("run", "demo", "--dry-run", "--agent-cmd", bench.agent, "--budget", "time=8h")
    assert "time=8h" in dry.ok().stdout
    assert bench.snapshot() == before


def test_a_new_amount_is_typed_at_the_pause(paid: Bench) -> None:
    terminal = at_pause(paid)
    assert "next: untildone resume demo --budget tokens=8k" in paid.run("status").ok().stdout
    terminal.type("plenty\n")
    terminal.wait_text("write for example `tokens=2M`, or type stop:")
    terminal.type("tokens=4k\n")
    terminal.wait_text("That is not enough; tokens=9k would be")
    terminal.type("20k\n")
    assert terminal.wait() == 0
    assert paid.subjects("feature/x..ralph/demo")[-1] == "checkpoint: 3"
    state = paid.state()
    assert (state["status"], state["budget_reached"]) == ("done", None)
    assert [it["attempt"] for it in state["iterations"]] == [1] * len(STORIES)


def test_another_terminal_ends_the_pause(paid: Bench) -> None:
    terminal = at_pause(paid)
    for more in ((), ("--budget", "tokens=4k")):
        refused = paid.run("resume", "demo", *more).ok(2)
        assert "untildone resume demo --budget tokens=" in refused.stderr
    assert "not its agent" not in paid.run("resume", "demo", "--max-retries", "1").ok(2).stderr
    mine = {"UNTILDONE_RUN_ID": paid.state()["run_id"]}
    by_agent = paid.run("resume", "demo", "--budget", "tokens=1M", env=mine).ok(2)
    assert "belongs to the person" in by_agent.stderr
    assert paid.state()["phase"] == "waiting_budget"
    told = paid.run("resume", "demo", "--budget", "tokens=20k").ok()
    assert "goes on with tokens=20k" in told.stdout
    assert terminal.wait() == 0
    assert paid.state()["status"] == "done"


@pytest.mark.parametrize(("word", "code"), [("stop\n", 6), ("\x03", 130), ("", 6)])
def test_a_pause_ends_with_a_stop(paid: Bench, word: str, code: int) -> None:
    terminal = at_pause(paid)
    if word:
        terminal.type(word)
    else:
        paid.run("stop", "demo").ok()
    assert terminal.wait() == code
    state = paid.state()
    assert (state["status"], state["budget_reached"]["name"]) == ("stopped", "tokens")
    assert paid.branch() == "ralph/demo"


def test_a_loop_killed_in_its_pause_goes_on(paid: Bench) -> None:
    terminal = at_pause(paid)
    paid_pid = paid.state()["pid"]
    terminal.process.send_signal(signal.SIGKILL)
    assert terminal.wait() == -signal.SIGKILL
    (loop,) = paid.loops()
    assert (loop["status"], loop["alive"], loop["pid"] == paid_pid) == ("stopped", False, False)
    assert loop["budget_reached"]["enough"] == "tokens=8k"
    before = paid.snapshot()
    assert "is used up" in paid.run("resume", "demo").ok(2).stderr
    assert paid.snapshot() == before
    again = paid.run("resume", "demo", "--json", "--budget", "tokens=20k").ok()
    assert [event["story_id"] for event in again.named("iteration_started")] == ["3"]


def test_a_loop_at_work_takes_a_budget_after_its_call(paid: Bench) -> None:
    paid.plan({1: [["wait", paid.gate("go")], ["say", "<promise>COMPLETE</promise>"]]})
    live = paid.begin("--agent", "claude")
    paid.wait_call(1)
    told = paid.run("resume", "demo", "--budget", "iterations=1").ok()
    assert "holds to iterations=1 after the current call" in told.stdout
    paid.open_gate("go")
    result = live.wait().ok(6)
    assert result.one("budget_set")["budgets"] == [{"name": "iterations", "limit": 1, "spent": 0}]
    assert result.outcomes() == ["complete"]
