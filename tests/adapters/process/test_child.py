"""Silent children: those that work are left alone, those that sleep are ended."""

import os
import time
from pathlib import Path

import pytest

from tests.adapters.process.test_process import never, py, sh
from untildone.adapters.process.child import newest_write
from untildone.adapters.process.process import Processes
from untildone.domain.agents.agent import Ending

BUSY = "import time\nend = time.monotonic() + 2.5\nwhile time.monotonic() < end: pass\n"
# About two hundredths of one processor, as an agent that waits for a model that never answers.
POLLS = """
import time
while True:
    end = time.thread_time() + 0.004
    while time.thread_time() < end: pass
    time.sleep(0.2)
"""
WRITES = "for i in 1 2 3 4 5 6 7 8; do sleep 0.3; echo $i > note; done"


def test_one_that_computes_in_silence_is_not_ended(processes: Processes, tmp_path: Path) -> None:
    ended = processes.run(py(BUSY, tmp_path, idle_s=1.0), print, never)
    assert (ended.ending, ended.exit_code) == (Ending.EXITED, 0)


def test_one_that_only_polls_is_ended(processes: Processes, tmp_path: Path) -> None:
    ended = processes.run(py(POLLS, tmp_path, idle_s=4.0, timeout_s=9.0), print, never)
    assert ended.ending is Ending.IDLE_TIMEOUT


def test_the_work_of_its_children_counts(processes: Processes, tmp_path: Path) -> None:
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {BUSY!r}])"
    ended = processes.run(py(script, tmp_path, idle_s=1.0), print, never)
    assert (ended.ending, ended.exit_code) == (Ending.EXITED, 0)


def test_one_that_writes_files_in_silence_is_not_ended(
    processes: Processes, tmp_path: Path
) -> None:
    command = sh(WRITES, tmp_path, idle_s=1.0, folders=(str(tmp_path),))
    assert processes.run(command, print, never).ending is Ending.EXITED
    elsewhere = sh(WRITES, tmp_path, idle_s=1.0, folders=(str(tmp_path / "none"),))
    assert processes.run(elsewhere, print, never).ending is Ending.IDLE_TIMEOUT


def test_work_in_silence_is_bounded_by_the_hard_limit(processes: Processes, tmp_path: Path) -> None:
    ended = processes.run(py(BUSY, tmp_path, idle_s=1.0, timeout_s=2.2), print, never)
    assert ended.ending is Ending.TIMEOUT


def test_silence_counts_from_the_last_write(processes: Processes, tmp_path: Path) -> None:
    script = "sleep 0.5; echo x > note; exec sleep 60"
    started = time.monotonic()
    ended = processes.run(sh(script, tmp_path, idle_s=1.0, folders=(str(tmp_path),)), print, never)
    assert ended.ending is Ending.IDLE_TIMEOUT
    assert time.monotonic() - started > 1.4


def test_the_newest_write_is_found_but_not_in_git(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "a" / "b" / "file").write_text("x")
    known = newest_write([str(tmp_path), str(tmp_path / "gone")])
    assert known == (tmp_path / "a" / "b" / "file").stat().st_ctime
    time.sleep(0.02)
    (tmp_path / ".git" / "index").write_text("x")
    assert newest_write([str(tmp_path)]) == known
    os.utime(tmp_path / "a" / "b" / "file", (0, 0))
    assert newest_write([str(tmp_path)]) > known


def test_a_search_that_takes_too_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr("untildone.adapters.process.child.SEARCH_S", 0.0)
    assert newest_write([str(tmp_path)]) == 0.0


def test_after_what_may_be_its_last_word_it_is_idle_sooner(
    processes: Processes, tmp_path: Path
) -> None:
    def heard(chunk: bytes) -> Ending | None:
        return Ending.IDLE_TIMEOUT if chunk.endswith(b"end\n") else None

    def timed(script: str) -> tuple[Ending, bool]:
        started = time.monotonic()
        command = sh(script, tmp_path, idle_s=2.5, quiet_s=0.4, folders=(str(tmp_path),))
        ended = processes.run(command, heard, never)
        return ended.ending, time.monotonic() - started > 2

    assert timed("echo end; exec sleep 9") == (Ending.IDLE_TIMEOUT, False)
    assert timed("echo end; echo more; exec sleep 9") == (Ending.IDLE_TIMEOUT, True)
    assert timed(f"echo end; {WRITES}") == (Ending.EXITED, True)
