"""The process that ends a killed loop's programs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from untildone.adapters.process.watchdog import read_ended, start

MARK = "UNTILDONE_TEST_WARDEN"
# A loop with one program; it says their pids and the watchdog's, then waits to be killed.
LOOP = """
import os, subprocess, sys
from pathlib import Path
from untildone.adapters.process.orphans import note_agent
from untildone.adapters.process.watchdog import start

folder = Path({folder!r})
held = open(folder / "held", "w")
watchdog = start(folder / "agent.json", ("{mark}", str(os.getpid())), folder / "ended.json")
program = subprocess.Popen(
    [sys.executable, "-S", "-c", "import time; time.sleep(60)"],
    env={{"{mark}": str(os.getpid())}},
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
    start_new_session=True,
)
print(watchdog.pid, program.pid, flush=True)
sys.stdin.read()
program.kill()
program.wait()
watchdog.stop()
"""


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def loop(tmp_path: Path) -> subprocess.Popen[str]:
    script = LOOP.format(folder=str(tmp_path), mark=MARK)
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def pids(loop: subprocess.Popen[str]) -> tuple[int, int]:
    assert loop.stdout
    watchdog, program = map(int, loop.stdout.readline().split())
    return watchdog, program


def test_the_programs_of_a_killed_loop_are_ended_and_told(
    loop: subprocess.Popen[str], tmp_path: Path
) -> None:
    watchdog, program = pids(loop)
    loop.kill()
    until(lambda: gone(program) and gone(watchdog))
    loop.communicate(timeout=10)
    (ended,) = read_ended(tmp_path / "ended.json")
    assert ended.startswith("python")
    assert read_ended(tmp_path / "ended.json") == ()


def test_one_that_is_stopped_is_gone_at_once(loop: subprocess.Popen[str], tmp_path: Path) -> None:
    watchdog, _ = pids(loop)
    assert loop.communicate(timeout=10) == ("", "")
    assert loop.returncode == 0
    assert gone(watchdog)
    assert read_ended(tmp_path / "ended.json") == ()


def test_it_holds_nothing_of_the_loop(loop: subprocess.Popen[str]) -> None:
    watchdog, program = pids(loop)
    try:
        until(lambda: os.readlink(f"/proc/{watchdog}/cwd") == "/")
        held = {
            os.readlink(f"/proc/{watchdog}/fd/{fd}") for fd in os.listdir(f"/proc/{watchdog}/fd")
        }
        assert {name for name in held if not name.startswith("pipe:")} == {os.devnull}
        assert len(held) == 2
        assert os.getsid(watchdog) == watchdog
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(watchdog, number)
        assert not gone(watchdog)
    finally:
        loop.communicate(timeout=10)
    assert gone(program)


def test_no_room_for_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", full)
    open_before = len(os.listdir("/proc/self/fd"))
    assert start(tmp_path / "agent.json", (MARK, "x"), tmp_path / "ended.json") is None
    assert len(os.listdir("/proc/self/fd")) == open_before


@pytest.mark.parametrize("text", ["", "{", "7"])
def test_a_torn_report_says_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "ended.json").write_text(text)
    assert read_ended(tmp_path / "ended.json") == ()


def test_a_report_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "ended.json").write_text(json.dumps(["node", "sh"]))
    assert read_ended(tmp_path / "ended.json") == ("node", "sh")
    assert not (tmp_path / "ended.json").exists()
