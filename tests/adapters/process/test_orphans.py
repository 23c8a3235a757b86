"""Processes of a loop that was killed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from untildone.adapters.process.orphans import end_leftovers, note_agent, started_at

MARK = "UNTILDONE_TEST_MARK"
WAIT = "import sys; print('up', flush=True); sys.stdin.read()"


def lives(pid: int) -> bool:
    return (
        Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    )


@contextmanager
def started(script: str, mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with this mark that has said that it is up."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", script],
        env={MARK: mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.kill()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with started(WAIT, "r1") as process:
        yield process


def test_marked_processes_are_ended(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    note = tmp_path / "agent.json"
    assert end_leftovers(note, (MARK, "r2")) == ()
    assert sleeper.poll() is None
    (program,) = end_leftovers(note, (MARK, "r1"))
    assert program.startswith("python")
    assert not lives(sleeper.pid)


def test_what_is_below_a_marked_process_is_ended_with_it(tmp_path: Path) -> None:
    inner = f"[sys.executable, '-S', '-c', {WAIT!r}]"
    script = f"import subprocess, sys; subprocess.run({inner}, env={{}})"
    with started(script, "r3") as process:
        assert len(end_leftovers(tmp_path / "agent.json", (MARK, "r3"))) == 2
        assert process.stdout
        assert process.stdout.read() == b""


def test_we_and_our_ancestors_are_spared(tmp_path: Path) -> None:
    note = tmp_path / "agent.json"
    script = (
        "import os\n"
        "from pathlib import Path\n"
        "from untildone.adapters.process.orphans import end_leftovers, note_agent\n"
        f"note_agent(Path({str(note)!r}), os.getppid())\n"
        f"print(end_leftovers(Path({str(note)!r}), ({MARK!r}, 'family')))\n"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {script!r}])"
    environment = {**os.environ, MARK: "family"}
    done = subprocess.run(
        [sys.executable, "-c", parent], env=environment, capture_output=True, check=True
    )
    assert done.stdout == b"()\n"


def test_the_noted_agent_is_ended(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    note = tmp_path / "agent.json"
    note_agent(note, sleeper.pid)
    assert json.loads(note.read_text()) == {
        "pid": sleeper.pid,
        "started": started_at(sleeper.pid),
        "loop": os.getpid(),
    }
    assert end_leftovers(note, (MARK, "other"), loop=1) == ()
    assert note.exists()
    assert len(end_leftovers(note, (MARK, "other"))) == 1
    assert not lives(sleeper.pid)
    assert not note.exists()
    assert end_leftovers(note, (MARK, "other")) == ()


def test_another_process_with_that_number_is_spared(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    note = tmp_path / "agent.json"
    for started in (1.0, None):
        note.write_text(json.dumps({"pid": sleeper.pid, "started": started}))
        assert end_leftovers(note, (MARK, "other")) == ()
    assert sleeper.poll() is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": "x", "started": 1}'])
def test_a_torn_note_is_passed_over(text: str, tmp_path: Path) -> None:
    note = tmp_path / "agent.json"
    note.write_text(text)
    assert end_leftovers(note, (MARK, "other")) == ()


def test_start_times() -> None:
    assert started_at(os.getpid()) == started_at(os.getpid())
    assert started_at(2**22 + 1) is None
