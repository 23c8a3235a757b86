"""No process left behind: seven kinds of escapees, and every way in which a loop may end."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import COMPLETE, DONE, Actions
from tests.e2e.bench import new_bench
from tests.e2e.needs import needs_bwrap
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bench import Bench
    from tests.e2e.command import Live

pytestmark = pytest.mark.e2e

ESCAPEES = Path(__file__).parent / "escapees.py"
COUNT = 7
RESUME = ("resume", "demo", "--json")
WRITER = "while True: open('noise.txt', 'a').write('x')"


@pytest.fixture
def bench() -> Iterator[Bench]:
    """In a folder that a sandbox shows: it has a `/dev` of its own."""
    made = new_bench("/tmp")
    yield made
    made.close()


def let_loose(bench: Bench) -> Actions:
    command = shlex.join([sys.executable, "-IS", str(ESCAPEES), str(bench.root)])
    return [["write", "work.txt", "work\n"], ["sh", command], ["say", "They are loose."]]


def loose_loop(bench: Bench, *more: str) -> Live:
    """A loop whose agent sleeps while its seven escapees are awake."""
    bench.plan({1: [*let_loose(bench), ["sleep", 60]]})
    live = bench.begin(*more)
    live.wait_event("agent_text")
    assert len(bench.processes()) >= COUNT
    return live


def none_lives(bench: Bench, within: float = 5.0) -> None:
    until(lambda: bench.processes() == [], within, "the end of all processes")


def test_none_outlives_an_agent_that_ends(bench: Bench) -> None:
    bench.only_stories(1)
    bench.plan({1: [*let_loose(bench), ["say", COMPLETE]]})
    bench.loop().ok()
    assert bench.processes() == []


def test_a_background_writer_is_gone_before_the_snapshot(bench: Bench) -> None:
    writer = shlex.join([sys.executable, "-IS", "-c", WRITER, f"child-of:{bench.root}"])
    loose = f"setsid {writer} >&- 2>&- & while [ ! -s noise.txt ]; do sleep 0.01; done"
    bench.plan({1: [["sh", loose], ["say", COMPLETE]]})
    bench.loop().ok()
    assert bench.calls()[1].status == ""
    assert bench.status() == []
    assert bench.processes() == []


@pytest.mark.parametrize("sandbox", ["off", pytest.param("bwrap", marks=needs_bwrap)])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_none_outlives_a_loop_that_is_told_to_end(
    bench: Bench, number: int, code: int, sandbox: str
) -> None:
    live = loose_loop(bench, "--sandbox", sandbox)
    live.signal(number)
    none_lives(bench)
    live.wait(5).ok(code)
    assert bench.processes() == []


def test_none_outlives_a_killed_loop_and_the_next_start_names_them(bench: Bench) -> None:
    live = loose_loop(bench)
    watchdog = live.watchdog()
    stranger = subprocess.Popen(
        [sys.executable, "-IS", "-c", "import time; time.sleep(60)"], start_new_session=True
    )
    try:
        live.signal(signal.SIGKILL)
        live.wait()
        none_lives(bench)
        until(lambda: not Path(f"/proc/{watchdog}").exists(), what="the end of the watchdog")
        bench.plan()
        result = bench.run(*RESUME).ok()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
    (line,) = [row for row in result.stderr.splitlines() if "left running" in row]
    assert f"Ended {COUNT + 1} processes" in line
    assert "agent" in line
    assert "python" in line
    assert "left running" not in bench.run("status").ok().stderr


def test_without_a_watchdog_the_next_start_ends_and_names_them(bench: Bench) -> None:
    live = loose_loop(bench)
    live.kill_unguarded()
    assert len(bench.processes()) >= COUNT
    bench.plan()
    result = bench.run(*RESUME).ok()
    assert bench.processes() == []
    assert f"Ended {COUNT + 1} processes" in result.stderr


def test_a_loop_that_follows_a_killed_one_at_once_keeps_its_agent(bench: Bench) -> None:
    bench.plan(default=[*let_loose(bench), ["sleep", 60]])
    for args in (bench.loop_args(), RESUME, RESUME):
        live = bench.start(*args)
        live.wait_event("agent_text")
        live.signal(signal.SIGKILL)
        live.wait()
    bench.plan(default=[["sleep", 0.5], *DONE])
    bench.run(*RESUME).ok()
    outcomes = [iteration["outcome"] for iteration in bench.state()["iterations"]]
    assert outcomes.count("interrupted") == 3
    assert set(outcomes) == {"interrupted", "complete"}
    assert bench.processes() == []


@needs_bwrap
def test_none_outlives_a_killed_loop_with_a_sandbox(bench: Bench) -> None:
    live = loose_loop(bench, "--sandbox", "bwrap")
    live.signal(signal.SIGKILL)
    none_lives(bench)
    bench.plan()
    result = bench.run(*RESUME).ok()
    assert "left running" not in result.stderr


def test_stubborn_children_do_not_outlive_a_good_attempt(bench: Bench) -> None:
    bench.plan({1: [["child", "stubborn"], ["say", COMPLETE]]})
    bench.loop().ok()
    assert bench.processes() == []
