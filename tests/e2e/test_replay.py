"""`untildone replay` and `untildone report`: what was recorded is enough to decide again."""

from __future__ import annotations

import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, fails

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

TOKEN = "ghp_" + "aB3dE6gH9j" * 4
KEY = "not-of-any-known-shape-42"


def recorded(bench: Bench) -> None:
    """A failure, an error, a silence and two stories done, by a claude that speaks stream-json."""
    bench.install_claude()
    bench.only_stories(1, 2)
    bench.plan(
        {
            1: fails("no database"),
            2: [["say", f"The token is {TOKEN}, the key {KEY}."], ["exit", 3]],
            3: [["say", "I think."], ["sleep", 60]],
        }
    )
    args = ("--agent", "claude", "--idle-timeout", "0.02", "--on-complete", "keep")
    bench.loop(*args).ok()


def test_the_same_state_is_reached(bench: Bench) -> None:
    recorded(bench)
    before = bench.snapshot()
    done = bench.run("replay", "demo", "--json").ok()
    again = done.json()
    assert again["same"] is True
    assert again["status"] == "done"
    outcomes = [row["outcome"] for row in again["iterations"]]
    assert outcomes == [it["outcome"] for it in bench.state()["iterations"]]
    assert set(outcomes) == {"failed", "agent_error", "idle_timeout", "complete"}
    assert bench.run("replay", bench.state()["run_id"]).ok().stdout.endswith("state is reached\n")
    assert bench.snapshot() == before


def test_a_conversation_that_has_its_name_from_us_is_the_same_again(bench: Bench) -> None:
    spoken = {
        "id": "m",
        "role": "assistant",
        "metadata": {"inference": {"provider": "p"}},
        "content": [{"type": "text", "text": COMPLETE}],
    }
    events = [{"type": "message", "message": spoken}, {"type": "complete", "input_tokens": 3}]
    lines = "".join(f"echo '{json.dumps(event)}'\n" for event in events)
    bench.program("goose", f"#!/bin/sh\ncat > /dev/null\n{lines}")
    bench.only_stories(1, 2)
    bench.loop("--agent", "goose", "--on-complete", "keep").ok()
    first, second = bench.run("replay", "demo", "--json").ok().json()["iterations"]
    assert first["now"]["session"]["id"].startswith("untildone-")
    assert first["now"]["session"]["id"] != second["now"]["session"]["id"]


def test_without_a_name_it_is_the_newest_run(bench: Bench) -> None:
    assert "untildone run" in bench.run("replay").ok(2).stderr
    bench.only_stories(1)
    bench.plan()
    bench.loop("--on-complete", "keep").ok()
    assert "1 call, the same state" in bench.run("replay").ok().stdout


def test_another_decision_is_told(bench: Bench) -> None:
    recorded(bench)
    log = bench.path(f".git/untildone/runs/{bench.state()['run_id']}/logs/0001.log")
    log.write_bytes(log.read_bytes().replace(b"no database", b"no bread at"))
    done = bench.run("replay", "demo")
    assert done.code == 1
    assert "'no database' -> 'no bread at'" in done.stdout
    assert "ANOTHER STATE" in done.stdout


def test_a_limited_call_is_told_from_its_repetition(bench: Bench) -> None:
    bench.install_claude()
    bench.only_stories(1)
    bench.plan({1: [["limit", 1]]})
    bench.loop("--agent", "claude", "--on-complete", "keep").ok()
    assert len(bench.calls()) == 2
    rows = bench.run("replay", "demo", "--json").ok().json()["iterations"]
    assert [(row["n"], row["outcome"], row["same"]) for row in rows] == [
        (1, "agent_error", True),
        (1, "complete", True),
    ]


def test_a_bundle_has_no_secrets_and_can_be_replayed(bench: Bench) -> None:
    recorded(bench)
    target = bench.root / "report.tar.gz"
    said = bench.run("report", "--bundle", str(target), env={"MY_API_KEY": KEY}).ok().stdout
    assert str(target) in said
    assert target.stat().st_mode & 0o777 == 0o600
    with tarfile.open(target) as tar:
        texts = {m.name: tar.extractfile(m).read().decode() for m in tar}  # type: ignore[union-attr]
    assert {"about.json", "state.json", "run/journal.jsonl", "run/logs/0001.log"} <= set(texts)
    whole = "".join(texts.values())
    assert TOKEN not in whole
    assert KEY not in whole
    assert "*" * len(TOKEN) in whole
    assert "same state" in bench.run("replay", str(target), cwd=bench.root).ok().stdout


def test_what_cannot_be_done_is_said(bench: Bench) -> None:
    assert "no run" in bench.run("report", "--bundle", "x").ok(2).stderr
    assert "untildone" in bench.run("replay", "demo").ok(2).stderr
    bench.plan(default=DONE)
    bench.only_stories(1)
    bench.loop("--on-complete", "keep").ok()
    bench.write("there.tar.gz", "mine")
    assert "another file" in bench.run("report", "--bundle", "there.tar.gz").ok(2).stderr
    assert bench.read("there.tar.gz") == "mine"
    assert "not a bundle" in bench.run("replay", "there.tar.gz").ok(2).stderr
    times = bench.path(f".git/untildone/runs/{bench.state()['run_id']}/logs/0001.log.times")
    times.unlink()
    assert "not recorded" in bench.run("replay", "demo").ok().stdout
