"""`usage`: spans, groups, what people and scripts read."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from tests.adapters.sessions.test_session_files import goose, lines, put
from tests.adapters.worktree import made
from untildone.commands.look.usage import span
from untildone.domain.errors import UserError
from untildone.interfaces.cli.main import cli

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")


def shown(*words: str) -> str:
    result = CliRunner().invoke(
        cli, ["usage", *words], standalone_mode=False, catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return result.output


def told(*words: str) -> Any:
    return json.loads(shown(*words, "--json"))


def message(home: Path, name: str, at: str, model: str, **counts: int) -> None:
    path = home / ".claude/projects/-repo/s.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    used = {"input_tokens": 0, "output_tokens": 0, **counts}
    data = {"timestamp": at, "sessionId": "s", "requestId": name}
    with path.open("a") as file:
        file.write(json.dumps({**data, "message": {"id": name, "model": model, "usage": used}}))
        file.write("\n")


@pytest.fixture
def days(home: Path) -> None:
    message(home, "a", "2026-03-01T23:30:00Z", "claude-haiku-4-5", input_tokens=1_000_000)
    message(home, "b", "2026-03-02T00:30:00Z", "claude-opus-4-5-20251101", output_tokens=100_000)
    message(home, "c", "2026-03-02T12:00:00Z", "claude-unheard-of", input_tokens=5)


@pytest.mark.usefixtures("days")
def test_by_day() -> None:
    rows = told("--by", "day")["rows"]
    assert [(row["day"], row["total_tokens"], row["cost_usd"]) for row in rows] == [
        ("2026-03-01", 1_000_000, 1.0),
        ("2026-03-02", 100_005, 2.5),
    ]
    tokyo = told("--by", "day", "--timezone", "Asia/Tokyo")
    assert [(row["day"], row["cost_usd"]) for row in tokyo["rows"]] == [("2026-03-02", 3.5)]
    assert (tokyo["cost_usd"], tokyo["unpriced_models"]) == (3.5, ["claude-unheard-of"])


@pytest.mark.usefixtures("days")
def test_by_model_as_a_table() -> None:
    assert shown("--by", "model").splitlines() == [
        "model                         input   output  cache read  cache write     tokens     cost",
        "claude-haiku-4-5          1,000,000        0           0            0  1,000,000    $1.00",
        "claude-opus-4-5-20251101          0  100,000           0            0    100,000    $2.50",
        "claude-unheard-of                 5        0           0            0          5  unknown",
        "all                       1,000,005  100,000           0            0  1,100,005   $3.50+",
        "no price is known of: claude-unheard-of",
        "prices of 2026-09-22 where the agent says none",
    ]


SPANS = {
    "a day": (("--since", "2026-03-02"), 100_005),
    "until a day, as a whole": (("--until", "2026-03-01"), 1_000_000),
    "one day": (("--since", "2026-03-02", "--until", "2026-03-02"), 100_005),
    "a moment": (("--since", "2026-03-02T00:30:00Z"), 100_005),
    "before a moment": (("--until", "2026-03-02T00:30:00Z"), 1_000_000),
    "a time of this zone": (("--since", "2026-03-02T12:00"), 5),
    "a time of that zone": (("--since", "2026-03-02T13:00", "--timezone", "Europe/Berlin"), 5),
    "a day of that zone": (("--since", "2026-03-02", "--timezone", "Asia/Tokyo"), 1_100_005),
    "the last minutes": (("--since", "5 min"), 0),
    "all": ((), 1_100_005),
}


@pytest.mark.usefixtures("days")
@pytest.mark.parametrize("name", SPANS)
def test_spans(name: str) -> None:
    words, total = SPANS[name]
    assert told(*words)["total_tokens"] == total
    assert told("--by", "agent", *words)["total_tokens"] == total


NOT_ISO = "This is not an ISO 8601 time:"
WRONG = {
    ("yesterday-ish", "", ""): (
        f"{NOT_ISO} yesterday-ish",
        "--since 2026-01-31,",
    ),
    ("31.1.2026", "", ""): (f"{NOT_ISO} 31.1.2026", "--since 2026-01-31,"),
    ("", "2026/2/1", ""): (f"{NOT_ISO} 2026/2/1", "--until 2026-02-01,"),
    ("2026-02-30", "", ""): (f"{NOT_ISO} 2026-02-30", "--since 2026-01-31,"),
    ("9999999weeks", "", ""): (f"{NOT_ISO} 9999999weeks", "--since "),
    ("2026-02-02", "2026-02-01", ""): (
        "Nothing can be between --since 2026-02-02 and --until 2026-02-01",
        "--until has to be later",
    ),
    ("", "", "Europe/Berlim"): ("Unknown time zone: Europe/Berlim", "--timezone Europe/Berlin"),
    ("", "", "/etc/passwd"): ("Unknown time zone: /etc/passwd", "--timezone "),
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_spans(words: tuple[str, str, str]) -> None:
    with pytest.raises(UserError) as caught:
        span(*words)
    text, hint = WRONG[words]
    assert caught.value.message == text
    assert caught.value.hint.startswith(hint)


def test_every_agent(home: Path) -> None:
    for agent in ("codex", "gemini", "pi", "qwen"):
        put(home, agent, lines(agent))
    path = home / ".local/share/goose/sessions/sessions.db"
    path.parent.mkdir(parents=True)
    goose(path)
    costs = {"codex": 0.00645, "gemini": 0.00685, "goose": 0.003075, "pi": 0.01386, "qwen": None}
    assert {row["agent"]: row["cost_usd"] for row in told()["agents"]} == costs
    assert told()["unpriced_models"] == ["fake-model", "unknown"]


def test_nothing_at_all() -> None:
    assert (
        shown() == "Nothing was recorded in that time, by agents on this machine or by runs here.\n"
    )
    assert told("--by", "day")["rows"] == []


def test_a_database_that_cannot_be_read_is_told(home: Path) -> None:
    path = home / ".local/share/goose/sessions/sessions.db"
    path.parent.mkdir(parents=True)
    sqlite3.connect(path).close()
    path.touch()
    assert f"warning: not read: {path}: no such table: sessions" in shown()
    assert len(told()["unread"]) == 1


def test_changes_need_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError):
        shown("--by", "change")
    monkeypatch.chdir(made(tmp_path).top)
    assert told("--by", "change")["rows"] == []
