"""`untildone usage` and the real ccusage say the same of the same files."""

from __future__ import annotations

import json
import os
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from tests.adapters.sessions.test_session_files import lines, put
from tests.interfaces import ccusage
from untildone.adapters.sessions.prices import load
from untildone.interfaces.cli.main import cli

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.agent
PROJECTS = ".claude/projects"
MODELS = (
    *("claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-sonnet-4-20250514"),
    *("claude-haiku-4-5", "claude-opus-4-8", "claude-sonnet-4-6", "claude-opus-5"),
    *("<synthetic>", "claude-unheard-of"),
)
Row = tuple[object, ...]


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    why = ccusage.missing()
    if why and os.environ.get("CI") == "true":
        pytest.fail(why)
    if why:
        pytest.skip(why)


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("CODEX_HOME", "GEMINI_CLI_HOME", "QWEN_HOME", "PI_CODING_AGENT_DIR"):
        monkeypatch.delenv(name, raising=False)


def ours(*words: str) -> Any:
    result = CliRunner().invoke(cli, ["usage", *words, "--json"], standalone_mode=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def our_rows(by: str, *words: str) -> dict[str, Row]:
    return {
        row[by]: (
            row["input_tokens"],
            row["output_tokens"],
            row["cache_read_tokens"],
            row["cache_write_tokens"],
            row["cost_usd"] or 0.0,
        )
        for row in ours("--by", by, *words)["rows"]
    }


def theirs(row: dict[str, Any], cost: str) -> Row:
    return (
        row["inputTokens"],
        row["outputTokens"],
        row["cacheReadTokens"],
        row["cacheCreationTokens"],
        pytest.approx(row[cost], abs=1e-5),
    )


class Writer:
    """Writes session files as Claude Code does, with all that makes counting hard."""

    def __init__(self, home: Path, seed: int) -> None:
        self.home = home
        self.rng = random.Random(seed)
        self.told: list[dict[str, Any]] = []

    def session(self, place: str, session: str, *, side: bool = False) -> None:
        path = self.home / PROJECTS / place
        path.parent.mkdir(parents=True, exist_ok=True)
        content = [line for n in range(40) for line in self.message(f"{session}{n}", session, side)]
        path.write_text("\n".join(content) + "\n")

    def message(self, name: str, session: str, side: bool) -> list[str]:
        rng = self.rng
        used = self.usage()
        message = {"id": f"msg_{name}", "model": rng.choice(MODELS), "usage": used}
        data: dict[str, Any] = {
            "timestamp": self.moment(),
            "version": "2.1.325",
            "sessionId": session,
            "requestId": f"req_{name}",
            "isSidechain": side,
            "cwd": "/repo",
            "message": message,
        }
        match rng.randrange(12):
            case 0:
                del data["requestId"]
            case 1:
                del message["id"]
            case 2 | 3 if self.told:
                data = {**self.copied(f"req_{name}", session, side), "isSidechain": side}
            case 4:
                del data["sessionId"]
            case 5:
                data["costUSD"] = 0.25
            case 6:
                del used["output_tokens"]
            case 7:
                used["cache_read_input_tokens"] = None
            case _:
                pass
        if not side:
            self.told.append(data)
        message, used = data["message"], data["message"]["usage"]
        repeated = [data]
        while rng.random() < 0.4 and "output_tokens" in used:
            more = {**used, "output_tokens": rng.randrange(used["output_tokens"] + 1)}
            repeated.insert(0, {**data, "message": {**message, "usage": more}})
        return [json.dumps(each, separators=(",", ":")) for each in repeated]

    def copied(self, request: str, session: str, side: bool) -> dict[str, Any]:
        """Who goes on with a session copies its messages; side conversations replay them."""
        if side and self.rng.random() < 0.5:
            own = [each for each in self.told if each.get("sessionId") == session]
            return {**self.rng.choice(own), "requestId": request}
        return {**self.rng.choice(self.told), "sessionId": session}

    def usage(self) -> dict[str, Any]:
        rng = self.rng
        used: dict[str, Any] = {
            "input_tokens": rng.choice((3, 1200, 250_000)),
            "output_tokens": rng.randrange(5000),
            "cache_read_input_tokens": rng.choice((0, 30_000, 230_000)),
        }
        short, long = rng.randrange(50_000), rng.randrange(50_000)
        match rng.randrange(4):
            case 0:
                used["cache_creation_input_tokens"] = short
            case 1 | 2:
                used["cache_creation_input_tokens"] = short + long
                used["cache_creation"] = {
                    "ephemeral_5m_input_tokens": short,
                    "ephemeral_1h_input_tokens": long,
                }
            case _:
                pass
        if rng.random() < 0.1:
            used["speed"] = rng.choice(("fast", "standard"))
        return used

    def moment(self) -> str:
        rng = self.rng
        time = rng.choice(("00:00:00", "23:59:59", "12:30:00", "04:59:59", "15:00:00"))
        return f"2026-0{rng.randint(1, 3)}-0{rng.randint(1, 3)}T{time}.{rng.randrange(1000):03}Z"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_claude_by_day_and_model(seed: int, zone: str, home: Path) -> None:
    writer = Writer(home, seed)
    writer.session("-repo/s.jsonl", "s")
    writer.session("-repo/t.jsonl", "t")
    writer.session("-repo/s/subagents/agent-1.jsonl", "s", side=True)
    writer.session("-other/u.jsonl", "u")
    told = ccusage.ask("claude", "daily", "--timezone", zone)
    days = {row["date"]: theirs(row, "totalCost") for row in told["daily"]}
    assert our_rows("day", "--timezone", zone) == days
    assert ours()["cost_usd"] == pytest.approx(told["totals"]["totalCost"], abs=1e-5)
    first = min(days)
    one_day = our_rows("model", "--timezone", zone, "--since", first, "--until", first)
    (row,) = [row for row in told["daily"] if row["date"] == first]
    models = {each["modelName"]: theirs(each, "cost") for each in row["modelBreakdowns"]}
    one_day.pop("unknown", None)  # calls without a model, which ccusage does not list
    assert one_day == models


def test_prices_of_every_model(home: Path) -> None:
    kinds = {
        "input": {"input_tokens": 100_000},
        "output": {"output_tokens": 100_000},
        "read": {"cache_read_input_tokens": 100_000},
        "much": {"input_tokens": 1_000_000},
        "much read": {"cache_read_input_tokens": 1_000_000, "output_tokens": 1_000},
        "mixed": {"input_tokens": 150_000, "cache_read_input_tokens": 150_000, "output_tokens": 9},
    }
    written = {
        "written": {"cache_creation_input_tokens": 100_000},
        "much written": {"cache_creation_input_tokens": 1_000_000},
    }
    hour = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 100_000}
    special: dict[str, dict[str, Any]] = {
        "hour": {"cache_creation": hour},
        "fast": {"input_tokens": 100_000, "speed": "fast"},
    }
    content, day = [], datetime(2020, 1, 1, 12, tzinfo=UTC)
    for model, price in load().models.items():
        cases: dict[str, dict[str, Any]] = {**kinds}
        if price.rates.cache_write:
            cases |= written
        if price.rates.cache_write_1h:
            cases |= special
        for used in cases.values():
            day += timedelta(days=1)
            message = {"model": model, "usage": {"input_tokens": 0, "output_tokens": 0, **used}}
            line = {"timestamp": day.isoformat(), "message": message}
            content.append(json.dumps(line, separators=(",", ":")))
    path = home / PROJECTS / "p" / "s.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(content))
    told = ccusage.ask("claude", "daily", "--timezone", "UTC")["daily"]
    known = {
        row["day"]: row["cost_usd"] for row in ours("--by", "day", "--timezone", "UTC")["rows"]
    }
    assert known == {row["date"]: pytest.approx(row["totalCost"], abs=1e-5) for row in told}
    assert len(known) == len(content)


def test_codex_gemini_and_pi(home: Path) -> None:
    for agent in ("codex", "gemini", "pi"):
        put(
            home,
            agent,
            [json.dumps(json.loads(line), separators=(",", ":")) for line in lines(agent)],
        )
    rows = {row["agent"]: row for row in ours("--by", "agent")["rows"]}
    for agent, cost in (("codex", "costUSD"), ("gemini", "totalCost"), ("pi", "totalCost")):
        told = ccusage.ask(agent, "daily")["totals"]
        row = rows[agent]
        # ccusage does not count Gemini's thoughts as output, but their price.
        thoughts = row["reasoning_tokens"] if agent == "gemini" else 0
        counts = (row["input_tokens"], row["output_tokens"] - thoughts, row["cache_read_tokens"])
        assert counts == (told["inputTokens"], told["outputTokens"], told["cacheReadTokens"])
        assert row["cost_usd"] == pytest.approx(told[cost], abs=1e-6)
