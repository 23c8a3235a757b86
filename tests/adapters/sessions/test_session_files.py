"""The agents' own records, each in its format."""

import json
import random
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from untildone.adapters.sessions.session_files import FILES, entries
from untildone.domain.agents.agent import Usage
from untildone.domain.costs.call_prices import Spent, Sum, add, once

CAPTURES = Path(__file__).parents[2] / "captures" / "sessions"
# Where each agent keeps its sessions, below the home folder.
PLACES = {
    "claude": ".claude/projects/-repo/32fc7fc3-3850-423f-8dba-80a9fbf5d7dd.jsonl",
    "codex": ".codex/sessions/2026/11/15/rollout-x-01a1e14e-9140-7f80-8727-676744d50fb8.jsonl",
    "copilot": ".copilot/session-state/2317d84d-b125-411f-adc6-1f304ef2f484/events.jsonl",
    "gemini": ".gemini/tmp/repo/chats/session-1.jsonl",
    "kimi": ".kimi-code/sessions/wd_repo/session_1/agents/main/wire.jsonl",
    "pi": ".pi/agent/sessions/--repo--/2026_01a1e152-3def-768f-8da4-2b9faa12db50.jsonl",
    "qwen": ".qwen/projects/repo/chats/b2ed9b6e-30e2-4efd-9318-a21455e89bde.jsonl",
    "vibe": ".vibe/logs/session/unified/ee0315d8-acf4-d60c-d1ca-1816619e340c/journal/1.jsonl",
}
CODEX_HEAD: list[dict[str, object]] = [
    {
        "type": "session_meta",
        "payload": {"id": "01a1e14e-9140-7f80-8727-676744d50fb8", "cwd": "/repo"},
    },
    {"type": "turn_context", "payload": {"model": "gpt-5-codex", "cwd": "/repo"}},
]
VIBE_META = """{
  "environment": {"working_directory": "/repo"},
  "config": {"active_model": "scripted", "model_name": "scripted-1"}
}"""
# Four calls each (three of vibe): of most 1200 tokens in, 300 of them from the cache, and 45 out,
# 10 of them reasoning.
RECORDED = {
    "claude": ("claude-opus-5-5", Usage(4800, 180, 1200, 0)),
    "codex": ("gpt-5-codex", Usage(3600, 180, 1200, 0, reasoning_tokens=40)),
    "copilot": ("scripted-1", Usage(4520, 178, 1266, 0, reasoning_tokens=46)),
    "gemini": ("gemini-2.5-pro", Usage(3600, 220, 1200, 0, reasoning_tokens=40)),
    "kimi": ("scripted-1", Usage(4520, 178, 1266, 0)),
    "pi": ("fake-model", Usage(3600, 180, 1200, 0, 0.01386)),
    "qwen": ("fake-model", Usage(3600, 180, 1200, 0, reasoning_tokens=40)),
    "vibe": ("scripted-1", Usage(3380, 132, 944, 0)),
}


def no_price(model: str) -> None:
    del model


def lines(agent: str) -> list[str]:
    text = (CAPTURES / f"{agent}.jsonl").read_text(encoding="utf-8").splitlines()
    head = [json.dumps(each) for each in CODEX_HEAD] if agent == "codex" else []
    return head + text


def put(home: Path, agent: str, content: list[str]) -> Path:
    path = home / PLACES[agent]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(content) + "\n", encoding="utf-8")
    if agent == "kimi":
        (path.parents[2] / "state.json").write_text('{"cwd": "/repo"}', encoding="utf-8")
    if agent == "vibe":
        (path.parents[1] / "meta.json").write_text(VIBE_META, encoding="utf-8")
    return path


def read(agent: str) -> list[Spent]:
    return once(entry for path in FILES[agent]() for entry in entries(agent, Path(path)))


@pytest.mark.parametrize("agent", RECORDED)
def test_recorded_sessions(agent: str, home: Path) -> None:
    put(home, agent, lines(agent))
    model, used = RECORDED[agent]
    found = read(agent)
    assert add(found, no_price).usage == used
    assert {entry.usage.model for entry in found} == {model}
    assert {entry.agent for entry in found} == {agent}
    assert {entry.session_id for entry in found} == {first_session(agent)}
    digest = "fa586ab117b780ae5d948d7b1b7612d1646bf84767de177aef92f908e0b80920"
    assert {entry.cwd for entry in found} == {f"sha256:{digest}" if agent == "gemini" else "/repo"}
    assert {entry.at.date().isoformat() for entry in found} == {"2026-11-15"}


def first_session(agent: str) -> str:
    if agent == "gemini":
        return "a3a9cb1d-c71c-435a-a803-25e55669e54b"
    if agent == "kimi":
        return "session_1"
    if agent == "copilot":
        return Path(PLACES[agent]).parent.name
    if agent == "vibe":
        return Path(PLACES[agent]).parents[1].name
    return Path(PLACES[agent]).stem[-36:]


@pytest.mark.parametrize("agent", RECORDED)
@pytest.mark.parametrize("seed", range(5))
def test_repeated_and_reordered_lines_change_no_sum(agent: str, seed: int, home: Path) -> None:
    rng = random.Random(seed)
    original = lines(agent)
    head, rest = original[:2], original[2:]
    put(home, agent, original)
    before = add(read(agent), no_price)
    shuffled = rest + rng.choices(rest, k=len(rest))
    rng.shuffle(shuffled)
    put(home, agent, head + shuffled)
    after = add(read(agent), no_price)
    assert (after.usage.total, after.unpriced) == (before.usage.total, before.unpriced)
    assert after.usage.cost_usd == pytest.approx(before.usage.cost_usd)


@pytest.mark.parametrize("agent", RECORDED)
def test_a_line_cut_anywhere_is_left_out(agent: str, home: Path) -> None:
    content = lines(agent)
    put(home, agent, content[:-1])
    before = read(agent)
    last = content[-1]
    for end in range(0, len(last) - 1, 37):
        put(home, agent, [*content[:-1], last[:end]])
        assert read(agent) == before


ODD = ['{"usage": 1}', '{"message": {"usage": []}}', '{"message": 3, "usage": {}}', "[1]", "null"]
ODD += ['{"tokens": {"input": -1}}', '{"payload": {"type": "token_count", "info": {"x": 1}}}']
ODD += ['{"type": "token_usage_record", "payload": {"usage": {"input_tokens": "many"}}}']
ODD += ['{"type": "assistant", "usageMetadata": {"promptTokenCount": true}}']
ODD += ['{"type": "session.usage_record", "data": {"usage": {"inputTokens": 1.5}}}']
ODD += ['{"type": "usage.record", "time": 1, "usage": {"output": -1}}']
ODD += ['{"type": "core_input", "payload": {"input": {"command": {"result": {"usage": 1}}}}}']
ODD += [
    '{"type":"core_input","payload":{"input":{"command":{"result":{"usage":{"input_tokens":1.5}}}}}}'
]
ODD += ['{"message": {"role": "assistant", "usage": {"input": 1.5}}}']


@pytest.mark.parametrize("agent", RECORDED)
def test_odd_lines_count_nothing(agent: str, home: Path) -> None:
    put(home, agent, ODD)
    assert read(agent) == []


def message(message_id: str, used: dict[str, object], **more: object) -> str:
    data = {
        "timestamp": "2026-03-01T12:00:00.000Z",
        "sessionId": "s",
        "requestId": "r",
        "cwd": "/repo",
        "message": {"id": message_id, "model": "claude-opus-4-8", "usage": used},
    }
    return json.dumps({**data, **more})


def claude_sum(home: Path, *content: str) -> Sum:
    put(home, "claude", list(content))
    return add(read("claude"), no_price)


IN_OUT: dict[str, object] = {"input_tokens": 5, "output_tokens": 1}
SKIPPED: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "no output": ({"input_tokens": 5}, {}),
    "no input": ({"output_tokens": 5}, {}),
    "a null count": ({**IN_OUT, "cache_read_input_tokens": None}, {}),
    "text for a count": ({**IN_OUT, "cache_read_input_tokens": "7"}, {}),
    "less than nothing": ({"input_tokens": -5, "output_tokens": 1}, {}),
    "no request but null": (IN_OUT, {"requestId": None}),
    "an empty session": (IN_OUT, {"sessionId": ""}),
    "no time": (IN_OUT, {"timestamp": None}),
    "a time without its zone": (IN_OUT, {"timestamp": "2026-03-01T12:00:00"}),
}


@pytest.mark.parametrize("name", SKIPPED)
def test_claude_entries_that_are_not_whole(name: str, home: Path) -> None:
    used, more = SKIPPED[name]
    assert claude_sum(home, message("m", used, **more)).usage == Usage()


def test_claude_parts_of_the_cache_writes(home: Path) -> None:
    parts = {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 60}
    written = {**IN_OUT, "cache_creation_input_tokens": 100}
    put(home, "claude", [message("a", written), message("b", {**written, "cache_creation": parts})])
    assert [(e.usage.cache_write_tokens, e.cache_write_1h) for e in read("claude")] == [
        (100, 0),
        (100, 60),
    ]


def test_claude_sub_agents_belong_to_their_session(home: Path) -> None:
    path = put(home, "claude", [message("m1", IN_OUT)])
    folder = path.parent / "s" / "subagents"
    folder.mkdir(parents=True)
    bare = json.loads(message("m2", IN_OUT, isSidechain=True))
    del bare["sessionId"]
    (folder / "agent-1.jsonl").write_text(json.dumps(bare) + "\n")
    assert [(e.session_id, e.side) for e in read("claude")] == [("s", False), ("s", True)]


def test_claude_progress_of_a_sub_agent_is_the_same_message(home: Path) -> None:
    own = message("m2", IN_OUT, isSidechain=True)
    wrapped = {"type": "progress", "sessionId": "s", "data": {"message": json.loads(own)}}
    assert claude_sum(home, json.dumps(wrapped), own).usage == Usage(5, 1)


def test_claude_special_entries(home: Path) -> None:
    advisor = {"type": "advisor_message", "model": "claude-opus-4-5", **IN_OUT}
    put(
        home,
        "claude",
        [
            message("a", {**IN_OUT, "speed": "fast"}),
            message("b", {**IN_OUT, "iterations": [advisor, {"type": "message"}]}),
            message("c", IN_OUT, costUSD=0.5),
        ],
    )
    assert [(e.model, e.usage.cost_usd) for e in read("claude")] == [
        ("claude-opus-4-8-fast", None),
        ("claude-opus-4-8", None),
        ("claude-opus-4-5", None),
        ("claude-opus-4-8", 0.5),
    ]


def test_claude_in_another_place(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(home, "claude", [message("m1", IN_OUT)])
    other = home / ".config" / "claude" / "projects" / "x" / "t.jsonl"
    other.parent.mkdir(parents=True)
    other.write_text(message("m2", IN_OUT) + "\n")
    assert len(read("claude")) == 2
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    assert read("claude") == []


def test_codex_before_usage_records(home: Path) -> None:
    old = [line for line in lines("codex") if "token_usage_record" not in line]
    put(home, "codex", [*old, old[-2], old[-2]])
    assert add(read("codex"), no_price).usage == Usage(3600, 180, 1200, reasoning_tokens=40)


def test_gemini_says_the_folder_beside_its_chats(home: Path) -> None:
    path = put(home, "gemini", lines("gemini"))
    (path.parents[1] / ".project_root").write_text("/repo\n")
    assert {entry.cwd for entry in read("gemini")} == {"/repo"}


def goose(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE sessions (id TEXT, parent_session_id TEXT, working_dir TEXT)")
        db.execute(
            "CREATE TABLE usage_ledger (id INTEGER PRIMARY KEY, session_id TEXT, model TEXT,"
            " created_timestamp INTEGER, input_tokens INTEGER, output_tokens INTEGER,"
            " cache_read_tokens INTEGER, cache_write_tokens INTEGER, cost REAL)"
        )
        sessions = [("20261116_1", None, "/repo"), ("20261116_2", "20261116_1", "/repo")]
        db.executemany("INSERT INTO sessions VALUES (?, ?, ?)", sessions)
        calls = [
            (1, "20261116_1", "gpt-4o", 1794836445, 1200, 45, 300, None, 0.003075),
            (2, "20261116_2", None, 1794836446, None, 5, None, 0, None),
        ]
        db.executemany("INSERT INTO usage_ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", calls)
    db.close()


def opencode(path: Path) -> None:
    used = {"input": 900, "output": 35, "reasoning": 10, "cache": {"read": 300, "write": 0}}
    answer = {"role": "assistant", "modelID": "gpt-4o", "cost": 0.003075, "tokens": used}
    few = {"role": "assistant", "modelID": "", "cost": 0, "tokens": {"output": 5}}
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT)")
        db.execute("CREATE TABLE message (id, session_id, time_created INTEGER, data TEXT)")
        sessions = [("20261116_1", None, "/repo"), ("20261116_2", "20261116_1", "/repo")]
        db.executemany("INSERT INTO session VALUES (?, ?, ?)", sessions)
        rows = [
            ("m0", "20261116_1", 1794836444000, json.dumps({"role": "user"})),
            ("m1", "20261116_1", 1794836445000, json.dumps(answer)),
            ("m2", "20261116_2", 1794836446000, json.dumps(few)),
            ("m3", "20261116_2", 1794836447000, "torn {"),
        ]
        db.executemany("INSERT INTO message VALUES (?, ?, ?, ?)", rows)
    db.close()


DATABASES: dict[str, tuple[str, Callable[[Path], None], int]] = {
    "goose": ("goose/sessions/sessions.db", goose, 0),
    "opencode": ("opencode/opencode.db", opencode, 10),
}


@pytest.mark.parametrize("agent", DATABASES)
def test_databases(agent: str, home: Path) -> None:
    assert list(FILES[agent]()) == []
    place, make, reasoning = DATABASES[agent]
    path = home / ".local/share" / place
    path.parent.mkdir(parents=True)
    make(path)
    before = path.read_bytes()
    first, second = read(agent)
    used = Usage(900, 45, 300, 0, 0.003075, reasoning_tokens=reasoning, model="gpt-4o")
    assert (first.usage, second.usage) == (used, Usage(0, 5))
    at = datetime.fromtimestamp(1794836445, UTC)
    assert (first.at, first.session_id, first.cwd) == (at, "20261116_1", "/repo")
    assert second.session_id == "20261116_1"
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("agent", DATABASES)
def test_a_database_of_another_shape_is_told(agent: str, home: Path) -> None:
    path = home / ".local/share" / DATABASES[agent][0]
    path.parent.mkdir(parents=True)
    sqlite3.connect(path).close()
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(OSError, match=path.name):
        read(agent)
