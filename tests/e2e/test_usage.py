"""`untildone usage`."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.agent_calls import DONE, fails

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def values_of(value: Any, key: str) -> list[Any]:
    """All values of a key anywhere in a JSON value."""
    if isinstance(value, dict):
        own = [value[key]] if key in value else []
        return own + [found for item in value.values() for found in values_of(item, key)]
    if isinstance(value, list):
        return [found for item in value for found in values_of(item, key)]
    return []


def test_usage_sums_what_the_agent_reported(bench: Bench) -> None:
    bench.install_claude()
    bench.plan()
    bench.loop("--agent", "claude").ok()
    value = bench.run("usage", "--json").ok().json()
    assert set(values_of(value, "input_tokens")) == {7200}
    assert set(values_of(value, "output_tokens")) == {270}
    assert set(values_of(value, "total_tokens")) == {7470}
    later = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)).isoformat()
    empty = bench.run("usage", "--json", "--since", later).ok().json()
    assert set(values_of(empty, "total_tokens")) <= {0}
    lately = bench.run("usage", "--json", "--since", "1h30m").ok().json()
    assert set(values_of(lately, "total_tokens")) == {7470}
    assert "7470" in re.sub(r"[,. ]", "", bench.run("usage").ok().stdout)


def test_usage_counts_what_run_and_session_file_both_tell_once(bench: Bench) -> None:
    bench.install_claude()
    bench.plan()
    bench.loop("--agent", "claude").ok()
    changes = bench.run("usage", "--by", "change", "--json").ok().json()
    assert [(row["change"], row["total_tokens"]) for row in changes["rows"]] == [("demo", 7470)]
    sessions = re.findall(r'"session_id": ?"([^"]+)"', bench.run("logs", "--raw").ok().stdout)
    folder = bench.home / ".claude" / "projects" / "any"
    folder.mkdir(parents=True)
    used = {"input_tokens": 10, "output_tokens": 1}
    for name in {*sessions, "a-session-of-my-own"}:
        data = {"timestamp": "2026-03-01T12:00:00Z", "sessionId": name, "requestId": name}
        entry = {**data, "message": {"id": name, "model": "claude-haiku-4-5", "usage": used}}
        (folder / f"{name}.jsonl").write_text(json.dumps(entry) + "\n")
    value = bench.run("usage", "--by", "agent", "--json").ok().json()
    assert value["total_tokens"] == 11 * (len(set(sessions)) + 1)
    assert bench.run("usage", "--by", "change", "--json").ok().json()["rows"] == changes["rows"]


def test_usage_counts_a_call_without_a_session_once(bench: Bench) -> None:
    bench.install_usage("1000")
    bench.only_stories(1)
    bench.plan({1: [["meter", "1750"], *DONE]})
    bench.loop().ok()
    assert bench.run("usage", "--json").ok().json()["total_tokens"] == 750
    folder = bench.home / ".claude" / "projects" / "any"
    folder.mkdir(parents=True)
    for at, cwd, tokens in (
        (bench.state()["iterations"][0]["started"], str(bench.repo), 700),
        ("2026-03-01T12:00:00Z", "/elsewhere", 7),
    ):
        used = {"input_tokens": tokens, "output_tokens": 0}
        data = {"timestamp": at, "sessionId": cwd, "cwd": cwd, "message": {"usage": used}}
        with (folder / "s.jsonl").open("a") as file:
            file.write(json.dumps(data) + "\n")
    assert bench.run("usage", "--json").ok().json()["total_tokens"] == 707


def test_usage_refuses_a_time_that_is_none(bench: Bench) -> None:
    result = bench.run("usage", "--since", "yesterday-ish")
    assert result.code == 2
    assert "yesterday-ish" in result.stderr


def test_what_nobody_told_is_unknown_in_every_window_and_never_zero(bench: Bench) -> None:
    bench.plan({1: fails("no luck")})
    args = [arg for arg in bench.loop_args() if arg != "--json"]
    shown = bench.run(*args).ok().stdout
    assert "complete, tokens unknown" in shown
    shown += bench.run("status").ok().stdout
    assert "tokens: unknown" in shown
    shown += bench.run("report", "demo").ok().stdout
    shown += bench.run("usage").ok().stdout
    shown += bench.run("logs", "demo").ok().stdout
    assert not re.search(r"\b0 tokens|tokens: 0|\$0\.00|\b0 input", shown)
    data = bench.run("report", "demo", "--json").ok().json()
    assert '"input_tokens": 0' not in json.dumps(data)
    rows = bench.run("usage", "--json").ok().json()
    assert '"total_tokens": 0' not in json.dumps(rows.get("runs"))
    events = bench.run("logs", "demo", "--json").ok().events
    ended = [e["tokens_used"] for e in events if e["event"] == "iteration_ended"]
    assert ended
    assert set(ended) == {None}
