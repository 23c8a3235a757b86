"""Very long runs and very many events; `python -m bench ui` measures with them as well."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tests.interfaces.tui.stage import SETTINGS, Stage
from untildone.domain.agents.agent import Usage
from untildone.domain.run import fact as f
from untildone.domain.run.plan import Done
from untildone.domain.run.run import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from untildone.interfaces.tui.window import Window

USAGE = Usage(2400, 90, 600, 0, 0.01)


def long_run(folder: Path, count: int) -> Stage:
    """A plain loop of so many iterations."""
    limits = replace(SETTINGS.limits, max_iterations=2 * count)
    stage = Stage(folder, (), replace(SETTINGS, plain=True, done=Done.MANUAL, limits=limits))
    for n in range(1, count + 1):
        log = stage.source.folder.log_file(n)
        stage.tell(f.AttemptStarted(0, n, f"iteration-{n}", ("", ""), log, "claude", base="c0"))
        stage.says("I look at what is there and go on.", "Edit: src/app.py", "Bash: pytest -q")
        ended = f.AttemptEnded(0, Outcome.NO_PROMISE, "", (), USAGE)
        kept = f.Saved(0, f"{n:040x}", f"{n:040x}")
        stage.tell(ended, f.UsageMeasured(0, USAGE), f.Verified(0, passed=True), kept)
    return stage


def flood(
    stage: Stage, count: int, per_s: int, first: int = 0
) -> tuple[list[float], threading.Thread]:
    """Events at a steady pace, from a thread; when each was written."""
    written: list[float] = []

    def run() -> None:
        begun = time.monotonic()
        for k in range(count):
            pause = begun + k / per_s - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            stage.says(f"word {first + k} of the flood")
            written.append(time.monotonic())

    return written, threading.Thread(target=run)


async def lag(
    app: Window, pilot: Pilot[None], written: list[float], count: int, first: int = 0
) -> list[float]:
    """How far behind the screen was, at every look at it."""
    found: list[float] = []
    end = time.monotonic() + 120
    shown = 0
    while shown < count and time.monotonic() < end:
        await pilot.pause(0.02)
        texts = (entry.text for entry in reversed(app.pane._entries))
        last = next((text for text in texts if text.startswith("word ")), f"word {first - 1}")
        shown = int(last.split()[1]) + 1 - first
        if shown < len(written):
            found.append(time.monotonic() - written[shown])
    assert shown == count
    return found
