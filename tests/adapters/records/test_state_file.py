"""loop-state.json: whole at every instant, others' fields kept."""

import json
import os
import subprocess
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fakes.plans import OPENED, TWO, loaded, told, won
from untildone.adapters.records.state_file import StateFile
from untildone.domain.agents.agent import Usage
from untildone.domain.reporting.views import entry

FIRST, SECOND = told(OPENED, loaded(), *won(), loaded(), *won(2, TWO)).iterations
COSTLY = replace(FIRST, usage=Usage(10, 5, cost_usd=0.1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".claude" / "loop-state.json"


def read(path: Path) -> dict[str, object]:
    data = json.loads(path.read_text())
    assert isinstance(data, dict)
    return data


def test_history_and_totals(path: Path) -> None:
    state = StateFile(path)
    state.write({"status": "running"}, ())
    empty = {"status": "running", "total_tokens": 0, "total_cost_usd": None, "iterations": []}
    assert read(path) == empty
    state.write({"status": "running"}, (COSTLY,))
    second = replace(SECOND, usage=Usage(1, 1, cost_usd=0.2))
    state.write({"status": "done"}, (COSTLY, second))
    assert read(path) == {
        "status": "done",
        "total_tokens": 17,
        "total_cost_usd": 0.3,
        "iterations": [entry(COSTLY), entry(second)],
    }


def test_the_last_entry_may_still_change(path: Path) -> None:
    state = StateFile(path)
    state.write({}, (FIRST, SECOND))
    changed = replace(SECOND, done_check=True)
    state.write({}, (FIRST, changed))
    assert read(path)["iterations"] == [entry(FIRST), entry(changed)]


def test_a_history_may_become_shorter(path: Path) -> None:
    state = StateFile(path)
    state.write({}, (COSTLY, SECOND, replace(COSTLY, n=3)))
    state.write({}, (COSTLY, SECOND))
    assert read(path) == {
        "total_tokens": 15,
        "total_cost_usd": 0.1,
        "iterations": [entry(COSTLY), entry(SECOND)],
    }
    state.write({}, ())
    assert read(path) == {"total_tokens": 0, "total_cost_usd": None, "iterations": []}


def test_fields_of_others_are_kept(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(json.dumps({"status": "old", "note": {"by": "another tool"}}))
    state = StateFile(path)
    state.keep_unknown_fields()
    state.write({"status": "running"}, ())
    assert (read(path)["note"], read(path)["status"]) == ({"by": "another tool"}, "running")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_a_broken_file_is_replaced(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    state = StateFile(path)
    state.keep_unknown_fields()
    state.write({}, ())
    assert read(path)["iterations"] == []


def test_nothing_new_is_not_written(path: Path) -> None:
    state = StateFile(path)
    state.write({}, (FIRST,))
    before = path.stat().st_ino
    state.write({}, (FIRST,))
    assert path.stat().st_ino == before
    state.write({"x": 1}, (FIRST,))
    assert path.stat().st_ino != before


def test_a_reader_never_sees_half_a_file(path: Path) -> None:
    state = StateFile(path)
    state.write({"n": 0}, ())
    over = threading.Event()

    def write() -> None:
        n = 0
        while not over.is_set():
            n += 1
            state.write({"n": n, "pad": "x" * 50_000}, (FIRST,))

    writer = threading.Thread(target=write)
    writer.start()
    seen: set[object] = set()
    try:
        while len(seen) < 30:
            found = read(path)
            assert "iterations" in found
            seen.add(found["n"])
    finally:
        over.set()
        writer.join()
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_failed_write_leaves_the_old_file(path: Path) -> None:
    state = StateFile(path)
    state.write({"n": 1}, ())
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        state.write({"n": 2}, ())
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_drafts_of_dead_processes_go(path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    path.parent.mkdir()
    foreign = path.with_name(f"{path.name}.mine.tmp")
    alive = path.with_name(f"{path.name}.{os.getppid()}.tmp")
    for draft in (path.with_name(f"{path.name}.{dead.pid}.tmp"), foreign, alive):
        draft.write_text("{")
    StateFile(path).write({"status": "running"}, ())
    assert sorted(path.parent.iterdir()) == sorted([path, foreign, alive])
