"""`untildone logs`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e


def test_logs_of_one_iteration(bench: Bench) -> None:
    bench.plan({1: [["say", "first words"], *DONE], 2: [["say", "second words"], *DONE]})
    bench.loop().ok()
    first = bench.run("logs", "demo", "--iteration", "1").ok().stdout
    assert "first words" in first
    assert "second words" not in first
    whole = bench.run("logs", "demo").ok().stdout
    assert "second words" in whole


def test_logs_keep_bytes_that_are_no_text(bench: Bench) -> None:
    bench.plan({1: [["hex", "6f6bff0a"], *DONE]})
    bench.loop().ok()
    assert "ok" in bench.run("logs", "demo", "--iteration", "1").ok().stdout
    name = bench.state()["iterations"][0]["log_file"]
    path = Path(name) if Path(name).is_absolute() else bench.repo / name
    assert b"ok\xff" in path.read_bytes()


def test_logs_follow_a_live_run_to_its_end(bench: Bench) -> None:
    bench.plan({1: [["say", "early words"], ["wait", bench.gate("go")], *DONE]})
    live = bench.begin()
    live.wait_event("agent_text")
    follower = bench.start("logs", "demo", "--follow")
    until(lambda: "early words" in follower.stdout, what="the early words")
    assert follower.alive()
    bench.open_gate("go")
    live.wait().ok()
    follower.wait(15).ok()


def test_lines_that_are_not_shown_are_counted_with_the_command_that_shows_them(
    bench: Bench,
) -> None:
    words = "\n".join(f"line {n}" for n in range(1, 19))
    bench.only_stories(1)
    bench.plan({1: [["say", f"{words}\n<promise>COMPLETE</promise>"]]})
    shown = bench.run("run", "demo", "--agent-cmd", bench.agent).ok().stdout
    assert "│ … 13 more lines: `untildone logs`" in shown
    assert "line 14\n" in shown
    assert "line 13\n" not in shown
    assert "line 1\n" in bench.run("logs").ok().stdout


def test_logs_say_where_the_rest_of_a_flood_is(bench: Bench) -> None:
    words = "\n".join(f"line {n}" for n in range(1, 101))
    bench.only_stories(1)
    bench.plan({1: [["say", f"{words}\n<promise>COMPLETE</promise>"]]})
    bench.loop().ok()
    shown = bench.run("logs").ok().stdout
    assert "[… what came before this: `untildone logs --raw`]" in shown
    assert "line 1\n" not in shown
    assert "line 1\n" in bench.run("logs", "--raw").ok().stdout
