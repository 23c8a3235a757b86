"""What a call left in session files: its own session, nobody else's."""

import hashlib
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.fakes.plans import NOW
from untildone.adapters.sessions.watch import SessionWatch
from untildone.domain.costs.call_prices import Spent


def watch(top: Path, agent: str = "claude") -> SessionWatch:
    made = SessionWatch(top, lambda: NOW)
    made.start(agent)
    return made


def message(name: str, session: str, top: Path, minutes: int = 1, tokens: int = 1) -> str:
    used = {"input_tokens": tokens, "output_tokens": 0}
    data = {
        "timestamp": (NOW + timedelta(minutes=minutes)).isoformat(),
        "sessionId": session,
        "requestId": f"r-{name}",
        "cwd": str(top),
        "message": {"id": name, "usage": used},
    }
    return json.dumps(data) + "\n"


def append(home: Path, name: str, *content: str) -> Path:
    path = home / ".claude" / "projects" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(content)
    return path


def names(entries: list[Spent]) -> list[str]:
    return sorted(entry.message_id for entry in entries)


def test_before_the_start_there_is_nothing(tmp_path: Path) -> None:
    assert SessionWatch(tmp_path, lambda: NOW).entries("s") == []


def test_only_this_very_session(home: Path, tmp_path: Path) -> None:
    append(home, "a/mine.jsonl", message("m0", "mine", tmp_path, -9))
    append(home, "a/person.jsonl", message("m1", "person", tmp_path, -9))
    ours = watch(tmp_path)
    append(home, "a/mine.jsonl", message("m2", "mine", tmp_path))
    append(home, "a/mine/subagents/agent-1.jsonl", message("m3", "mine", tmp_path))
    append(home, "a/agent-2.jsonl", message("m4", "mine", tmp_path))
    append(home, "a/person.jsonl", message("m5", "person", tmp_path))
    append(home, "a/new.jsonl", message("m6", "new", tmp_path))
    assert names(ours.entries("mine")) == ["m2", "m3", "m4"]
    assert ours.entries("unheard") == []


def test_without_a_session_those_that_began_here_since_then(home: Path, tmp_path: Path) -> None:
    append(home, "a/person.jsonl", message("m1", "person", tmp_path, -9))
    ours = watch(tmp_path)
    append(home, "a/person.jsonl", message("m2", "person", tmp_path))
    append(home, "a/new.jsonl", message("m3", "new", tmp_path / "below"))
    append(home, "a/else.jsonl", message("m4", "else", tmp_path.parent))
    old = (message("m5", "copy", tmp_path, -9), message("m6", "copy", tmp_path))
    append(home, "a/copy.jsonl", *old)
    assert names(ours.entries("")) == ["m3"]


def test_the_folder_may_be_a_digest(home: Path, tmp_path: Path) -> None:
    ours = watch(tmp_path, "gemini")
    path = home / ".gemini" / "tmp" / "x" / "chats" / "session-1.jsonl"
    path.parent.mkdir(parents=True)
    at = (NOW + timedelta(minutes=1)).isoformat()
    answer = {"id": "m1", "timestamp": at, "tokens": {"input": 3}, "model": "gemini-2.5-pro"}
    for folder, found in ((tmp_path, ["m1"]), (tmp_path.parent, [])):
        digest = hashlib.sha256(str(folder).encode()).hexdigest()
        head = {"sessionId": "s", "projectHash": digest}
        path.write_text("\n".join(json.dumps(line) for line in (head, answer)))
        assert names(ours.entries("")) == found


def test_growth_is_that_of_this_session(home: Path, tmp_path: Path) -> None:
    append(home, "a/mine.jsonl", "x" * 100)
    ours = watch(tmp_path)
    append(home, "a/mine.jsonl", "x" * 400)
    append(home, "a/mine/subagents/agent-1.jsonl", "x" * 40)
    append(home, "a/other.jsonl", "x" * 4)
    assert ours.growth("mine") == 440
    assert ours.growth("unheard") == 0


def slug(top: Path) -> str:
    return str(top).replace("/", "-").replace("_", "-").replace(".", "-")


@pytest.mark.parametrize("agent", ["claude", "command"])
def test_growth_without_a_session_is_that_of_new_files_here(
    agent: str, home: Path, tmp_path: Path
) -> None:
    here = slug(tmp_path)
    append(home, f"{here}/person.jsonl", "x" * 100)
    ours = watch(tmp_path, agent)
    append(home, f"{here}/person.jsonl", "x" * 4000)
    # Only a program that is no agent of ours may have gone on with a session it does not tell.
    assert ours.growth("") == (4000 if agent == "command" else 0)
    append(home, f"{here}/new.jsonl", "x" * 40)
    append(home, "-elsewhere/new.jsonl", "x" * 400)
    recorded = append(home, "misnamed/new.jsonl", json.dumps({"cwd": str(tmp_path)}))
    append(home, f"{here}/lost.jsonl", json.dumps({"cwd": "/elsewhere"}))
    assert ours.growth("") == 40 + recorded.stat().st_size


def test_nothing_is_read_before_it_is_asked_for(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(home, "a/s.jsonl", message("m1", "s", tmp_path, -9))
    opened: list[Path] = []

    def spy(path: Path) -> Iterator[bytes]:
        opened.append(path)
        raise PermissionError(path)

    monkeypatch.setattr("untildone.adapters.sessions.entries.opened", spy)
    ours = watch(tmp_path)
    assert opened == []
    append_bytes(home / ".claude/projects/a/s.jsonl")
    assert ours.entries("s") == []
    assert [path.name for path in opened] == ["s.jsonl"]


def append_bytes(path: Path) -> None:
    with open(path, "a") as file:
        file.write("more\n")
