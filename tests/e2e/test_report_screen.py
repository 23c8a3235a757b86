"""The morning on a small screen: the report on a phone, the end of a run and `status` on 80x24."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.e2e.agent_calls import failed
from tests.e2e.command import COMMAND
from tests.e2e.tmux import Window, needs_tmux

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(
    os.environ.get("CI") != "true" and not CHROMIUM,
    reason="chromium is not installed: `make packages` installs it",
)
PHONE = {"width": 390, "height": 844}
REASON = "The page needs a longer name than all those that were thought of before it was written"
# All that stands out of the window, but for plots and code that is scrolled inside of its own box.
OUTSIDE = """() => [...document.querySelectorAll('h1, h2, p, td')]
  .filter(e => e.getClientRects().length && e.getBoundingClientRect().right > innerWidth)
  .map(e => e.textContent)"""
QUESTION = "Which of the two names is meant?"
GUIDE = "untildone guide demo --story 2"


@needs_chromium
def test_the_report_fits_on_a_phone(bench: Bench) -> None:
    from playwright.sync_api import sync_playwright

    bench.plan({2: [["write", "half.txt", "half\n"], ["say", failed(REASON)]]})
    bench.loop("--max-retries", "0", "--verify", "true").ok(3)
    report = bench.root / "report.html"
    bench.run("report", "demo", "--html", str(report)).ok()
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport=PHONE)  # type: ignore[arg-type]
        page.goto(report.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        assert page.evaluate(OUTSIDE) == []
        first = page.get_by_text(REASON).first.bounding_box()
        assert first
        assert first["y"] < PHONE["height"]  # without scrolling
        browser.close()


@needs_tmux
def test_the_end_of_a_run_and_status_fit_on_a_small_terminal(bench: Bench) -> None:
    bench.plan({2: [["say", f"<promise>ASK: {QUESTION}</promise>"]]})
    env = {name: value for name, value in bench.env().items() if value}
    window = Window(bench.repo, env, bench.root / "tmux")
    try:
        window.type(f"{COMMAND} run demo --agent-cmd {bench.agent} --verify true")
        window.wait_text("cleanup, keep or later?")
        assert QUESTION in "\n".join(window.screen)
        window.type("keep")
        window.wait_text("ends it.")
        end = "\n".join(window.screen)
        for words in ("2 of 3 stories", "2 verified", "cost unknown", QUESTION, f"Next: `{GUIDE}"):
            assert words in end
        window.type(f"clear; {COMMAND} status")
        window.wait_text("untildone report")
        status = "\n".join(window.screen)
        wanted = (
            "demo: stuck",
            "2 of 3 stories",
            "2 verified",
            "cost: ",
            f"next: {GUIDE}",
            QUESTION,
        )
        for words in wanted:
            assert words in status
    finally:
        window.close()
