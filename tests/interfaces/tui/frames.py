"""What the window shows, as text: `python -m tests.interfaces.tui.frames` writes all frames again.

One file each in `frames/`, so that a change of a screen is read in a diff.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.interfaces.tui.stage import Stage, lanes, night
from untildone.interfaces.tui.lines import Entry
from untildone.interfaces.tui.window import Window

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.pilot import Pilot

FRAMES = Path(__file__).with_name("frames")
SIZES = ((60, 20), (80, 24), (120, 30))
PATIENCE = 20.0


class Scene(NamedTuple):
    """A run, and the keys that lead to the frame."""

    stage: Callable[[Path], Stage]
    keys: tuple[str, ...] = ()
    live: bool = True
    dialog: bool = False


SCENES = {
    "stories": Scene(night),
    "story": Scene(night, ("k", "k", "enter")),
    "diff": Scene(night, ("k", "k", "enter", "d")),
    "diff-of-attempts": Scene(night, ("k", "k", "enter", "d", "d")),
    "checks": Scene(night, ("k", "k", "enter", "left", "c")),
    "prompt": Scene(night, ("2", "p")),
    "lanes": Scene(lanes, ("3",)),
    "evidence": Scene(night, ("4",)),
    "stop": Scene(night, ("x",), dialog=True),
    "skip": Scene(night, ("s",), dialog=True),
    "answer": Scene(night, ("a",), dialog=True),
    "help": Scene(night, ("?",), dialog=True),
    "died": Scene(night, live=False),
}


def text_of(app: Window) -> str:
    """The screen as it is."""
    rows = (strip.text.rstrip() for strip in app.screen._compositor.render_strips())
    return "\n".join(rows) + "\n"


async def settled(app: Window, pilot: Pilot[None]) -> None:
    """Until the run was read and nothing moves any more."""
    end, last, same = time.monotonic() + PATIENCE, "", 0
    while time.monotonic() < end and same < 3:
        await pilot.pause(0.05)
        now = text_of(app) if app.look and " …\n" not in text_of(app) else ""
        same = same + 1 if now and now == last else 0
        last = now


def window(stage: Stage, theme: str = "dark") -> Window:
    return Window(stage.repository, stage.source, [], lambda: [Entry("Nothing has run")], theme)


def play(
    stage: Stage,
    act: Callable[[Window, Pilot[None]], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
) -> None:
    """Do something with a window on a stage."""

    async def run() -> None:
        app = window(stage)
        async with app.run_test(size=size) as pilot:
            await settled(app, pilot)
            await act(app, pilot)

    try:
        asyncio.run(run())
    finally:
        stage.close()


def drawn(scene: Scene, folder: Path) -> dict[int, str]:
    """A scene at every width, one after the other in the same window; dialogs are opened anew."""
    stage, found = scene.stage(folder), dict[int, str]()
    stage.lives()
    if not scene.live:
        stage.dies()

    async def act(app: Window, pilot: Pilot[None]) -> None:
        for k, size in enumerate(SIZES):
            await pilot.resize_terminal(*size)
            await settled(app, pilot)
            for key in scene.keys if k == 0 or scene.dialog else ():
                await pilot.press(key)
                await settled(app, pilot)
            found[size[0]] = text_of(app)
            if scene.dialog:
                await pilot.press("escape")

    play(stage, act)
    return found


def path_of(name: str, width: int) -> Path:
    return FRAMES / f"{name}-{width}.txt"


def main() -> None:
    """Write all frames, or those that are named."""
    os.environ |= {"TZ": "UTC", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for who in ("AUTHOR", "COMMITTER"):
        os.environ |= {f"GIT_{who}_NAME": "Ada Tester", f"GIT_{who}_EMAIL": "ada@example.invalid"}
    time.tzset()
    for name in sys.argv[1:] or SCENES:
        with tempfile.TemporaryDirectory() as folder:
            for width, text in drawn(SCENES[name], Path(folder) / "repo").items():
                path_of(name, width).write_text(text, encoding="utf-8")
    subprocess.run(["git", "status", "--short", str(FRAMES)], check=False)


if __name__ == "__main__":
    main()
