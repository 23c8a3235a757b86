"""Runs without a terminal: `run --detach` and `wait`."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE, fails
from tests.e2e.command import COMMAND, Live
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench
    from tests.e2e.command import Json, Result, Terminal

pytestmark = pytest.mark.e2e

FIELDS = ["event", "change_id", "status", "phase", "story_id", "reason", "seq"]


@pytest.fixture
def detached(bench: Bench) -> Iterator[Bench]:
    """A bench whose detached loop ends with the test."""
    yield bench
    if bench.state_path().exists() and bench.loops()[0]["alive"]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(bench.state()["pid"], signal.SIGKILL)


def gated(bench: Bench, name: str = "go") -> Actions:
    """A call that is done once the gate is open."""
    return [["wait", bench.gate(name)], *DONE]


def begin(bench: Bench, *more: str) -> Json:
    """A detached loop that is up."""
    started: Json = bench.loop("--detach", *more).ok().json()
    assert list(started) == ["run_id", "change_id", "pid", "log"]
    return started


def gone(pid: int) -> bool:
    """Whether a process is no more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def news(result: Result) -> Json:
    """The one object that `wait --json` prints."""
    found: Json = result.json()
    assert list(found) == FIELDS
    return found


def test_a_detached_run_says_where_it_is_and_goes_on(detached: Bench) -> None:
    bench = detached
    bench.plan({1: gated(bench)})
    started = begin(bench)
    bench.wait_call(1)
    state = bench.state()
    assert (started["change_id"], started["run_id"]) == ("demo", state["run_id"])
    assert started["pid"] == state["pid"]
    assert os.getsid(started["pid"]) == started["pid"]
    log = Path(started["log"])
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert log.parent.name == started["run_id"]
    bench.open_gate("go")
    assert news(bench.run("wait", "--json").ok())["status"] == "done"
    until(lambda: gone(started["pid"]))
    assert "checkpoint" in log.read_text()
    assert "All done." not in log.read_text()


def test_a_hang_up_does_not_end_it(detached: Bench) -> None:
    bench = detached
    bench.plan({1: gated(bench)})
    terminal = bench.terminal("run", "demo", "--agent-cmd", bench.agent, "--detach")
    terminal.wait_text("untildone attach demo")
    terminal.wait_text("untildone stop demo")
    assert terminal.wait() == 0
    terminal.hang_up()
    pid = bench.state()["pid"]
    os.kill(pid, signal.SIGHUP)
    bench.open_gate("go")
    bench.run("wait", "demo").ok()
    assert bench.state()["status"] == "done"


def test_what_a_terminal_would_ask_is_refused_before(bench: Bench) -> None:
    bench.write("new.pem", "no key")
    before = bench.snapshot()
    result = bench.loop("--detach").ok(2)
    assert "--include-flagged" in result.stderr
    assert result.stdout == ""
    assert bench.snapshot() == before


def test_what_a_terminal_asks_is_asked_before(detached: Bench) -> None:
    bench = detached
    bench.write("new.pem", "no key")
    bench.plan({1: gated(bench)})
    terminal = bench.terminal("run", "demo", "--agent-cmd", bench.agent, "--detach")
    terminal.wait_text("Take them along?")
    terminal.type("y\n")
    assert terminal.wait() == 0
    bench.open_gate("go")
    bench.run("wait").ok()


def test_a_start_that_fails_has_its_own_exit_code(bench: Bench) -> None:
    bench.program("broken", "#!/nowhere/interpreter\n")
    result = bench.loop("--detach", "--verify", "sh -c broken").ok(2)
    assert result.stdout == ""
    assert "broken" in result.stderr


def test_a_live_loop_refuses_another(detached: Bench) -> None:
    bench = detached
    bench.plan({1: gated(bench)})
    started = begin(bench)
    refused = bench.loop("--detach").ok(2)
    assert f"process {started['pid']}" in refused.stderr
    bench.open_gate("go")
    bench.run("wait").ok()


def test_resume_can_be_detached(detached: Bench) -> None:
    bench = detached
    bench.plan({1: fails()}, default=gated(bench))
    bench.loop("--max-retries", "0").ok(3)
    started = bench.run("resume", "demo", "--detach", "--json").ok().json()
    assert started["run_id"] == bench.state()["run_id"]
    bench.open_gate("go")
    assert news(bench.run("wait", "demo", "--json").ok())["event"] == "finished"


def test_it_works_in_a_worktree_of_its_own(detached: Bench) -> None:
    bench = detached
    bench.plan({1: gated(bench)})
    begin(bench, "--checkpoint", "worktree", "--on-complete", "cleanup")
    live = bench.start("wait", "demo", "--json")
    bench.open_gate("go")
    assert news(live.wait().ok())["status"] == "done"


@pytest.mark.parametrize("flags", [("--lanes", "2"), ("--checkpoint", "stash")])
def test_it_works_with_lanes_and_stashes(detached: Bench, flags: tuple[str, ...]) -> None:
    begin(detached, *flags)
    assert news(detached.run("wait", "demo", "--json").ok())["status"] == "done"


# -- wait --------------------------------------------------------------------------------------


def test_wait_exits_as_the_run_did(detached: Bench) -> None:
    bench = detached
    bench.plan({}, default=fails("no luck"))
    begin(bench, "--max-retries", "0")
    found = news(bench.run("wait", "demo", "--json").ok(3))
    assert (found["event"], found["status"]) == ("finished", "stuck")
    assert (found["reason"], found["phase"]) == ("max_retries", "ended")
    assert news(bench.run("wait", "--json").ok(3)) == found
    assert "finished: stuck" in bench.run("wait").ok(3).stdout


def test_wait_returns_at_the_next_thing(detached: Bench) -> None:
    bench = detached
    gates = {n: gated(bench, str(n)) for n in (1, 2)}
    bench.plan({**gates, 3: [["wait", bench.gate("3")], *fails("too hard")]})
    begin(bench, "--max-retries", "0")
    seq = 0
    for n in (1, 2):
        live = bench.start("wait", "demo", "--next", "--after", str(seq), "--json")
        bench.open_gate(str(n))
        found = news(live.wait().ok())
        assert (found["event"], found["story_id"]) == ("checkpoint_saved", str(n))
        assert found["status"] == "running"
        seq = found["seq"]
    live = bench.start("wait", "--next", "--after", str(seq), "--json")
    bench.open_gate("3")
    found = news(live.wait().ok())
    assert (found["event"], found["story_id"], found["reason"]) == ("error", "3", "too hard")
    found = news(bench.run("wait", "--next", "--json").ok())
    assert (found["event"], found["status"]) == ("finished", "stuck")


def test_wait_hears_what_comes_while_it_waits(detached: Bench) -> None:
    bench = detached
    bench.plan({1: gated(bench), 2: [["sleep", 600]]})
    begin(bench)
    live = bench.start("wait", "--next", "--json")
    files = Path(f"/proc/{live.pid}/fd")  # without `--after` it is about what comes from now on
    until(lambda: any("journal" in os.readlink(fd) for fd in files.iterdir()))
    bench.open_gate("go")
    found = news(live.wait().ok())
    assert (found["event"], found["story_id"]) == ("checkpoint_saved", "1")
    bench.run("stop").ok()
    assert news(bench.run("wait", "--json").ok(6))["status"] == "stopped"


def test_wait_returns_at_a_question(detached: Bench) -> None:
    bench = detached
    asks = [["say", "<promise>ASK: blue or green?</promise>"]]
    bench.plan({1: [["wait", bench.gate("go")], *asks]}, default=[["sleep", 600]])
    begin(bench)
    live = bench.start("wait", "--next", "--after", "0", "--json")
    bench.open_gate("go")
    found = news(live.wait().ok())
    assert found["event"] == "story_parked"
    assert "blue or green?" in found["reason"]


def test_wait_returns_at_once_where_the_loop_waits_for_the_person(detached: Bench) -> None:
    bench = detached
    begin(bench, "--on-complete", "ask")
    until(lambda: bench.state().get("phase") == "awaiting_choice")
    for _ in range(2):
        found = news(bench.run("wait", "--next", "--json").ok())
        assert (found["event"], found["phase"]) == ("complete", "awaiting_choice")
    assert news(bench.run("wait", "--timeout", "0.3", "--json").ok(124))["event"] == "timeout"
    bench.run("finish", "demo", "keep").ok()
    assert news(bench.run("wait", "--json").ok())["phase"] == "ended"


@pytest.mark.parametrize("duration", ["0.3", "0.3s"])
def test_wait_gives_up(detached: Bench, duration: str) -> None:
    bench = detached
    bench.plan({}, default=[["sleep", 600]])
    begin(bench)
    began = time.monotonic()
    found = news(bench.run("wait", "--timeout", duration, "--json").ok(124))
    assert time.monotonic() - began < 5
    assert (found["event"], found["status"], found["phase"]) == ("timeout", "running", "agent")
    assert bench.run("wait", "--next", "--timeout", duration).ok(124).stdout == ""
    assert bench.loops()[0]["alive"]


@pytest.mark.parametrize("more", [(), ("--next",)])
def test_wait_does_not_wait_for_the_dead(detached: Bench, more: tuple[str, ...]) -> None:
    bench = detached
    bench.plan({}, default=[["sleep", 600]])
    started = begin(bench)
    bench.wait_call(1)
    live = bench.start("wait", "demo", *more, "--json")
    os.kill(started["pid"], signal.SIGKILL)
    found = news(live.wait().ok(0 if more else 1))
    assert (found["event"], found["status"], found["phase"]) == ("died", "stopped", "died")
    assert "untildone resume demo" in bench.run("wait").ok(1).stderr


def test_wait_without_a_run(bench: Bench) -> None:
    assert "no run" in bench.run("wait", "demo").ok(2).stderr
    assert "no duration" in bench.run("wait", "--timeout", "soon").ok(2).stderr


def test_which_of_several_live_runs_is_a_question(bench: Bench) -> None:
    bench.plan({}, default=[["sleep", 600]])
    flags = ("--done", "promise", "--checkpoint", "worktree", "--agent-cmd", bench.agent)
    live = []
    for n, name in enumerate(("one", "two"), 1):  # one start at a time: both begin in this worktree
        live.append(bench.start("run", name, "--task", name, *flags))
        bench.wait_call(n)
    for command in ("wait", "attach"):
        assert "Several are live: one, two" in bench.run(command).ok(2).stderr
    assert news(bench.run("wait", "two", "--timeout", "0", "--json").ok(124))["change_id"] == "two"
    bench.run("stop", "one").ok()
    assert live[0].wait().code == 6
    assert bench.run("wait", "one").code == 6
    assert news(bench.run("wait", "--timeout", "0", "--json").ok(124))["change_id"] == "two"
    bench.run("stop", "two").ok()


def test_a_signalled_run_has_its_code(bench: Bench) -> None:
    bench.plan({}, default=[["sleep", 600]])
    live = bench.begin()
    bench.wait_call(1)
    waits = bench.start("wait", "--json")
    live.signal(signal.SIGTERM)
    live.wait().ok(143)
    assert news(waits.wait().ok(143))["status"] == "stopped"


def test_nohup_is_obeyed(bench: Bench) -> None:
    bench.plan({1: gated(bench)})
    quiet = ["/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh", str(COMMAND)]
    live = Live([*quiet, *bench.loop_args()], bench.repo, bench.env())
    bench.wait_call(1)
    live.signal(signal.SIGHUP)
    bench.open_gate("go")
    live.wait().ok()
    assert bench.state()["status"] == "done"


# -- attach ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_leaving_the_view_leaves_the_run_alone(detached: Bench, key: str) -> None:
    bench = detached
    bench.plan({2: gated(bench)})
    started = begin(bench)
    bench.wait_call(2)
    terminal = bench.terminal("attach", "demo")
    terminal.wait_text("1 of 3 stories")
    terminal.wait_text("iteration 2: story 2 Bravo greeting")
    terminal.type(key)
    assert terminal.wait() == 0
    terminal.wait_text("`untildone attach demo` looks again")
    assert bench.state()["pid"] == started["pid"]
    assert bench.loops()[0]["alive"]
    bench.open_gate("go")
    bench.run("wait").ok()


def test_the_view_ends_with_the_run(detached: Bench) -> None:
    bench = detached
    bench.plan({1: gated(bench)})
    begin(bench)
    terminal = bench.terminal("attach")
    terminal.wait_text("0 of 3 stories")
    bench.open_gate("go")
    assert terminal.wait() == 0
    terminal.wait_text("finished: done, keep")
    assert bench.terminal("attach").wait() == 0


def test_who_comes_late_sees_every_event(detached: Bench) -> None:
    bench = detached
    bench.plan({2: gated(bench), 3: fails()})
    begin(bench, "--max-retries", "0")
    bench.wait_call(2)
    live = bench.start("attach", "demo", "--json")
    live.wait_event("iteration_started", n=2)
    bench.open_gate("go")
    result = live.wait().ok(3)
    assert [event["seq"] for event in result.events] == list(range(1, len(result.events) + 1))
    assert result.events[-1]["event"] == "finished"
    assert bench.run("attach", "--json").ok(3).events == result.events
    lines = bench.run("attach", "demo").ok(3)
    assert "▶ iteration 3" in lines.stdout
    assert "finished: stuck" in lines.stdout
    assert "untildone resume demo" in lines.stdout


def test_the_view_says_that_the_loop_was_killed(detached: Bench) -> None:
    bench = detached
    bench.plan({}, default=[["sleep", 600]])
    started = begin(bench)
    live = bench.start("attach", "demo")
    bench.wait_call(1)
    os.kill(started["pid"], signal.SIGKILL)
    assert "untildone resume demo" in live.wait().ok(1).stderr


def test_the_view_shows_how_to_answer(detached: Bench) -> None:
    bench = detached
    begin(bench, "--on-complete", "ask")
    until(lambda: bench.state().get("phase") == "awaiting_choice")
    live = bench.start("attach", "demo")
    until(lambda: "untildone finish demo cleanup|keep" in live.stdout)
    bench.run("finish", "demo", "keep").ok()
    live.wait().ok()


# -- a terminal that is closed -----------------------------------------------------------------


def hung_up(bench: Bench, *flags: str, answer: str = "") -> Terminal:
    """A run at a terminal that is closed in its first call."""
    bench.plan({1: gated(bench)})
    terminal = bench.terminal("run", "demo", "--agent-cmd", bench.agent, *flags)
    if answer:
        terminal.wait_text("If this terminal is closed")
        terminal.type(f"{answer}\n")
    bench.wait_call(1)
    terminal.hang_up()
    return terminal


@pytest.mark.parametrize("how", ["continue", "ask"])
def test_a_run_can_outlive_its_terminal(bench: Bench, how: str) -> None:
    flags = ("--on-hangup", how, "--on-complete", "keep")
    terminal = hung_up(bench, *flags, answer="y" if how == "ask" else "")
    log = until(lambda: next(bench.path(".git/untildone/runs").glob("*/loop.log"), None))
    attached = bench.start("attach", "--json")
    attached.wait_event("iteration_started", n=1)
    bench.open_gate("go")
    assert terminal.wait() == 0
    result = attached.wait().ok()
    assert bench.state()["status"] == "done"
    texts = [event["message"] for event in result.named("warning")]
    assert any(text.startswith("The terminal is gone, the run goes on") for text in texts)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "● finished: done, keep" in log.read_text()


def test_without_a_yes_it_stops(bench: Bench) -> None:
    assert hung_up(bench, "--on-hangup", "ask", answer="n").wait() == 129
    assert bench.state()["status"] == "stopped"


def test_the_choice_can_be_made_without_the_terminal(bench: Bench) -> None:
    terminal = hung_up(bench, "--on-hangup", "continue")
    bench.open_gate("go")
    until(lambda: bench.state()["phase"] == "awaiting_choice")
    assert news(bench.run("wait", "--next", "--json").ok())["phase"] == "awaiting_choice"
    bench.run("finish", "demo", "cleanup").ok()
    assert terminal.wait() == 0
