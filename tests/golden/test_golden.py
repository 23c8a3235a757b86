"""What earlier releases wrote is read as they read it, and is written the same again."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from tests.golden.plain import text
from untildone import glance
from untildone.__main__ import main
from untildone.adapters.records.journal import Journal, events, replayed
from untildone.adapters.records.state_file import StateFile
from untildone.app.recovery import replay
from untildone.domain.reporting.event import Event
from untildone.domain.reporting.views import left_behind, state

if TYPE_CHECKING:
    from untildone.domain.run.fact import Fact
    from untildone.domain.run.run import Run

HERE = Path(__file__).parent
RUNS = [path.parent for path in sorted(HERE.glob("*/*/journal.jsonl"))]
SHOWN = [folder for folder in RUNS if (folder / "loop-state.json").exists()]
HEAD_OF_EVENT = ("v", "seq", "at", "event")
Json = dict[str, Any]


def named(folder: Path) -> str:
    return f"{folder.parent.name}-{folder.name}"


every_run = pytest.mark.parametrize("folder", RUNS, ids=named)
every_state = pytest.mark.parametrize("folder", SHOWN, ids=named)


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand facts are written here, and no power cut is feared."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def told(folder: Path) -> list[tuple[Fact, datetime]]:
    return list(replayed(folder / "journal.jsonl"))


def replayed_run(folder: Path) -> Run:
    run = replay(told(folder))
    assert run is not None
    return run


def whole_lines(folder: Path) -> list[bytes]:
    """The lines of a journal, without one that a crash has torn."""
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    return [line for line in lines if line.endswith(b"}\n")]


def stored_state(folder: Path) -> Json:
    data: Json = json.loads((folder / "loop-state.json").read_bytes())
    return data


def ran(*argv: str) -> tuple[int, Json]:
    """A command in this process: its exit code, and what it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = main([*argv])
    return code, json.loads(out.getvalue())


@every_run
def test_a_journal_gives_the_run_that_it_gave(folder: Path) -> None:
    names = [json.loads(line).get("fact") for line in whole_lines(folder)]
    assert [type(fact).__name__ for fact, _ in told(folder)] == [name for name in names if name]
    then = (folder / "run.json").read_text(encoding="utf-8")
    now = text(replayed_run(folder), like=then)
    assert json.loads(now) == json.loads(then)
    assert now == then  # also whether a number has a point


@every_run
def test_a_journal_is_written_the_same_again(folder: Path, tmp_path: Path) -> None:
    again = Journal(tmp_path / "journal.jsonl")
    facts, shown = iter(told(folder)), events(folder / "journal.jsonl")
    for line in whole_lines(folder):
        row = json.loads(line)
        if "fact" in row:
            fact, at = next(facts)
            again.record(fact, (), at)
        else:
            event = next(shown)
            data = {name: value for name, value in event.items() if name not in HEAD_OF_EVENT}
            moment = datetime.fromisoformat(str(event["at"]))
            again.note(Event(str(event["event"]), data), moment)
    again.close()
    assert again.path.read_bytes().splitlines(keepends=True) == whole_lines(folder)


@every_run
def test_what_a_later_release_adds_is_passed_over(folder: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in whole_lines(folder)]
    for row in rows:
        _add_to_all(row)
    rows.insert(1, {"v": 1, "at": rows[0]["at"], "fact": "NotYetKnown", "data": {}})
    path = tmp_path / "journal.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert replay(replayed(path)) == replayed_run(folder)


def _add_to_all(value: object) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _add_to_all(item)
        value["of_a_later_release"] = {"x": [1]}
    elif isinstance(value, list):
        for item in value:
            _add_to_all(item)


@every_state
def test_the_run_is_shown_the_same_again(folder: Path, tmp_path: Path) -> None:
    stored, facts, run = stored_state(folder), told(folder), replayed_run(folder)
    bytes_then = (folder / "loop-state.json").read_bytes()
    for call in stored["iterations"]:
        if call.get("timed_out"):  # 0.1.0 called every one of them `hung`
            call["outcome_class"] = call["outcome"]
            word = f'"outcome_class": "{call["outcome"]}"'.encode()
            bytes_then = bytes_then.replace(b'"outcome_class": "hung"', word, 1)
    # No process: written for a loop that was gone.
    if run.ended or not stored["pid"]:
        run = replace(left_behind(run, facts[-1][1]), died=None)  # 0.1.0 did not tell of deaths
    shown = StateFile(tmp_path / "loop-state.json")
    shown.write(state(run, stored["pid"], stored["pid_started"]), run.iterations)
    # A loop adds up microseconds, a replay the milliseconds of the journal.
    timed = [budget for budget in stored["budgets"] if budget["name"].endswith("time")]
    for budget in timed:
        budget["spent"] = pytest.approx(budget["spent"], abs=0.001)
    assert json.loads(shown.path.read_bytes()) == stored
    if not timed:
        assert shown.path.read_bytes() == bytes_then


@every_run
def test_every_decision_is_made_the_same_again(folder: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.tar.gz"
    with tarfile.open(bundle, "w:gz", compresslevel=1) as tar:
        tar.add(folder / "journal.jsonl", "run/journal.jsonl")
        for path in sorted((folder / "logs").glob("*")):
            tar.add(path, f"run/logs/{path.name}")
    code, again = ran("replay", str(bundle), "--json")
    assert (code, again["same"]) == (0, True)


@every_state
def test_a_quick_look_reads_the_state(folder: Path, tmp_path: Path) -> None:
    stored = stored_state(folder)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".claude").mkdir()
    (tmp_path / glance.STATE_FILE).write_bytes((folder / "loop-state.json").read_bytes())
    found = {"worktree": str(tmp_path), "alive": False, "saved_attempts": 0, "last_sign": None}
    assert glance.look(str(tmp_path)) == [stored | found]
    with contextlib.chdir(tmp_path):
        assert ran("status", "--json") == (0, {"loops": [stored | found]})
