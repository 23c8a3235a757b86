"""untildone itself: the checks of the stories and of the project, the tests protected."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.outcomes import project
from bench.outcomes.arena import Arena, Ending
from bench.outcomes.loops.base import Loop


class Untildone(Loop):
    """The program of this repository."""

    name = "untildone"
    flags = (
        *("--verify", project.SUITE),
        *("--idle-timeout", "0.1", "--timeout", "1"),
        *("--on-complete", "keep", "--json"),
    )
    settings = f"`run {project.CHANGE} {' '.join(flags)}`, `Verify:` lines in the stories"
    answers = False

    def play(self, arena: Arena) -> Ending:
        """One run."""
        program = str(Path(sys.executable).parent / "untildone")
        return arena.run(program, "run", project.CHANGE, *self.flags)

    def claimed(self, arena: Arena) -> set[str]:
        """The stories with a checkpoint commit."""
        subjects = arena.git("log", "--format=%s", f"ralph/{project.CHANGE}").split("\n")
        numbers = {line.removeprefix("checkpoint: ") for line in subjects if "checkpoint: " in line}
        return {s.key for n, s in enumerate(arena.stories, 1) if str(n) in numbers}


def events(arena: Arena) -> list[Mapping[str, Any]]:
    """What the run told, event by event."""
    lines = arena.output.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]
