"""`untildone ui` in a real terminal: it steers a run, and whatever befalls it, the run goes on."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import DONE
from tests.e2e.command import COMMAND
from tests.e2e.tmux import Window, needs_tmux
from tests.e2e.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.agent_calls import Actions
    from tests.e2e.bench import Bench

LEFT = "the shell is back"

pytestmark = [pytest.mark.e2e, needs_tmux]


@pytest.fixture
def window(bench: Bench) -> Iterator[Window]:
    """A terminal; a loop that is left over ends with it."""
    terminal = Window(bench.repo, bench.env(), bench.root / "tmux")
    yield terminal
    terminal.close()
    if bench.state_path().exists() and bench.loops()[0]["alive"]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(bench.state()["pid"], signal.SIGKILL)


def opens(window: Window, *words: str) -> None:
    """Type the command; the shell says when it is back."""
    window.type(f"{COMMAND} {' '.join(words)}; echo '{LEFT}': $?")


def left(window: Window, code: int = 0) -> None:
    window.sees(f"{LEFT}: {code}")


def gated(bench: Bench, name: str) -> Actions:
    return [["say", "I look around first."], ["wait", bench.gate(name)], *DONE]


def begun(bench: Bench) -> None:
    """A detached run whose calls each wait for a gate."""
    bench.plan({n: gated(bench, str(n)) for n in (1, 2, 3)})
    bench.loop("--detach", "--on-complete", "keep").ok()
    bench.wait_call(1)


def test_a_live_run_is_watched_and_steered(bench: Bench, window: Window) -> None:
    begun(bench)
    before = window.title
    opens(window, "ui")
    window.sees("▶ agent", "Alpha greeting", "I look around first.", "0 of 3 stories")
    until(lambda: "Ralph: demo [1/" in window.title)
    # words for the next story, from its row
    window.keys("j", "i")
    window.sees("What should the agent know about story 2?")
    window.write("use the blue words")
    window.keys("Enter")
    window.sees("▌ The next prompt of story 2")
    bench.open_gate("1")
    assert "use the blue words" in bench.wait_call(2).prompt
    window.sees("1 of 3 stories")
    # a story is skipped only after a question that names it
    window.keys("G", "s")
    window.sees("Skip story 3 Charlie greeting?")
    window.keys("n")
    until(lambda: "Skip story 3" not in window.text)
    window.keys("s")
    window.sees("Skip story 3 Charlie greeting?")
    window.keys("y")
    window.sees("Story 3 is skipped.")
    # narrower, and its own screen
    window.resize(60, 20)
    window.keys("g", "Enter")
    shown = window.sees("log  diff  checks  prompt", "All done.")
    assert max(map(len, shown)) <= 60
    window.keys("d")
    window.sees("diff --git")
    window.write("/+work 1")
    window.keys("Enter")
    window.sees("work-1.txt", "+work 1")
    # leaving is no stopping
    window.keys("q")
    left(window)
    assert window.title == before
    assert bench.loops()[0]["alive"]
    # back again: what happened before is there, and a stop asks how
    opens(window, "ui", "demo")
    window.sees("1 of 3 stories", "▶ agent")
    window.keys("x")
    window.sees("Stop the run of demo?")
    window.keys("n")
    window.sees("untildone resume demo", "cut short", "↷ skipped")
    until(lambda: not bench.loops()[0]["alive"])
    assert bench.state()["status"] == "stopped"
    window.keys("C-c")
    left(window)


def test_a_question_is_answered_and_the_choice_made(bench: Bench, window: Window) -> None:
    asks = [["say", "<promise>ASK: which colour?</promise>"]]
    bench.plan({1: asks, 2: gated(bench, "2"), 3: DONE, 4: DONE})
    bench.loop("--detach", "--on-complete", "ask").ok()
    opens(window, "attach", "--ui")
    window.sees("? asks", "which colour?", "a answers")
    window.keys("a")
    window.sees("Your answer to story 1", "which colour?")
    window.write("blue, as the sky")
    window.keys("Enter")
    window.sees("The next prompt of story 1", "Retried: 1.")
    bench.open_gate("2")
    window.sees("e chooses", "3 of 3 stories")
    assert any("blue, as the sky" in call.prompt for call in bench.calls())
    window.keys("e")
    window.sees("What becomes of the work of demo?")
    window.keys("k")
    window.sees("keep: done", "done, kept")
    assert bench.state()["choice"] == "keep"


@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP", "SIGSEGV", "SIGTERM", "SIGHUP"])
def test_a_window_that_dies_or_hangs_changes_nothing(
    bench: Bench, window: Window, number: str
) -> None:
    begun(bench)
    opens(window, "ui")
    window.sees("▶ agent")
    program = window.program
    os.kill(program, signal.Signals[number])
    for n in (1, 2, 3):
        bench.open_gate(str(n))
    bench.run("wait", "demo").ok()
    assert bench.state()["status"] == "done"
    checkpoints = bench.subjects("feature/x..ralph/demo")
    assert checkpoints[-3:] == ["checkpoint: 1", "checkpoint: 2", "checkpoint: 3"]
    if number == "SIGSTOP":
        os.kill(program, signal.SIGCONT)
        os.kill(program, signal.SIGTERM)
    if number in ("SIGSTOP", "SIGTERM", "SIGHUP"):
        window.sees(LEFT)  # the terminal is as it was


def test_a_closed_terminal_changes_nothing(bench: Bench, window: Window) -> None:
    begun(bench)
    opens(window, "ui")
    window.sees("▶ agent")
    program = window.program
    window.close()
    until(lambda: not Path(f"/proc/{program}").exists())
    for n in (1, 2, 3):
        bench.open_gate(str(n))
    bench.run("wait", "demo").ok()
    assert bench.state()["status"] == "done"


def test_without_arguments_a_run_is_shown_else_the_help(bench: Bench, window: Window) -> None:
    assert bench.run().ok(2).stderr.startswith("Usage: untildone")
    opens(window)
    window.sees("Start with `untildone demo`")
    left(window, 2)
    bench.plan(default=DONE)
    bench.loop("--on-complete", "keep").ok()
    assert bench.run().ok(2).stderr.startswith("Usage: untildone")  # a script gets the help
    opens(window)
    window.sees("3 of 3 stories", "done, kept")
    window.keys("q")
    left(window)


def test_where_nothing_has_run_a_run_is_waited_for(bench: Bench, window: Window) -> None:
    opens(window, "ui")
    window.sees("Nothing has run here yet", "untildone run demo --detach")
    begun(bench)
    window.sees("▶ agent", "Alpha greeting")


def test_without_a_terminal_it_says_what_to_type(bench: Bench) -> None:
    refused = bench.run("ui").ok(2)
    assert "untildone attach" in refused.stderr
