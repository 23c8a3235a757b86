"""The full screen: opening a very long run, and following very many events."""

import asyncio
import shutil
import time
from pathlib import Path

from bench.result import Result, Rule
from bench.scene import Stage
from tests.interfaces.tui.flood import flood, lag, long_run
from tests.interfaces.tui.frames import settled, window
from tests.interfaces.tui.stage import Stage as Played
from tests.interfaces.tui.stage import night
from untildone.adapters.records import journal
from untildone.app.recovery import replay

PER_S = 200
PAGE = 4096


def ui(stage: Stage) -> list[Result]:
    """How long until the first screen of a long run, how far behind, and what it weighs."""
    count, events = (500, 1000) if stage.quick else (5000, 10_000)
    rounds = 2 if stage.quick else 5
    run = long_run(_empty(stage.folder / "ui-long"), count)
    read = min(_read(run) for _ in range(rounds)) * 1000
    opened = min(asyncio.run(_opened(run)) for _ in range(rounds)) * 1000
    run.close()
    note = f"a run of {count} iterations, wall until its first screen"
    of = f"{note} / replaying its journal, best of {rounds}"
    behind, before, after = _flooded(_empty(stage.folder / "ui-flood"), events)
    flow = f"{events} events at {PER_S} per second"
    return [
        Result("ui, open", opened, read, "ms", Rule.RATIO, 3.0, note=of),
        Result("ui, open, limit", opened, None, "ms", Rule.BELOW, 1000.0, note=note),
        Result("ui, behind", behind * 1000, None, "ms", Rule.BELOW, 250.0, note=f"most, {flow}"),
        Result("ui, memory", after, before, "MB", Rule.RATIO, 1.1, note=f"after {flow} / half"),
    ]


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _read(run: Played) -> float:
    begun = time.perf_counter()
    replay(journal.replayed(run.source.folder.journal))
    return time.perf_counter() - begun


async def _opened(run: Played) -> float:
    """In a window that is there already: what a window itself takes does not grow with a run."""
    app = window(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(app, pilot)
        begun = time.perf_counter()
        app.follow_run(run.source)
        while app.look is None:
            await pilot.pause(0.001)
        return time.perf_counter() - begun


def _flooded(folder: Path, count: int) -> tuple[float, float, float]:
    """The most that the screen was behind; resident memory at half of the events and at the end."""
    run = night(folder)
    run.lives()

    async def follow() -> tuple[float, float, float]:
        app = window(run)
        async with app.run_test(size=(120, 40)) as pilot:
            await settled(app, pilot)
            await pilot.press("enter")
            await settled(app, pilot)
            found: list[float] = []
            memory = []
            for first in (0, count // 2):
                written, writer = flood(run, count // 2, PER_S, first)
                writer.start()
                found += await lag(app, pilot, written, count // 2, first)
                writer.join()
                memory.append(_resident())
            return max(found, default=0.0), memory[0], memory[1]

    try:
        return asyncio.run(follow())
    finally:
        run.close()


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20
