"""The picture of `docs/ui.md`: the window of `untildone ui` on a run of `untildone demo`, as SVG.

`python -m tests.docs.ui_picture` writes it again. It shows the story whose first attempt the check
refused; names of commits and times are made the same every time.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.interfaces.tui.frames import settled
from untildone.commands.look.feed import recorded
from untildone.interfaces.tui.window import Window
from untildone.wiring.repository import here

TARGET = Path(__file__).parents[2] / "docs" / "images" / "ui.svg"
SIZE = (100, 20)
KEYS = ("j", "j", "enter", "left", "c")
# Fonts would come from elsewhere; ids are made anew for every picture.
ELSEWHERE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
IDS = re.compile(r"terminal-\d+")
COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)
TIMES = re.compile(r"\d\d:\d\d:\d\d")
COMMIT = re.compile(r"\b[0-9a-f]{8}(?:[0-9a-f]{4})?\b(?=[^<>]*</text>)")


async def drawn(folder: Path) -> str:
    """The window after the keys."""
    repository = here(folder)
    app = Window(repository, recorded([repository])[0], [], list, "dark")
    async with app.run_test(size=SIZE) as pilot:
        await settled(app, pilot)
        for key in KEYS:
            await pilot.press(key)
            await settled(app, pilot)
        return app.export_screenshot(title="untildone ui")


def scrubbed(svg: str) -> str:
    svg = IDS.sub("terminal-ui", ELSEWHERE.sub("", COMMENT.sub("", svg))).replace(
        "Fira Code", "ui-monospace"
    )
    return COMMIT.sub(lambda found: "470786ac456d"[: len(found[0])], TIMES.sub("22:15:00", svg))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        repo = Path(folder) / "repo"
        call = [sys.executable, "-m", "untildone", "demo", "--fast", "--keep", str(repo)]
        subprocess.run(call, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        TARGET.write_text(scrubbed(asyncio.run(drawn(repo))) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
