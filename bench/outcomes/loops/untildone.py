"""untildone itself: the checks of the stories and of the project, the tests protected."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.outcomes import project
from bench.outcomes.arena import Arena, Ending
from bench.outcomes.loops.base import Loop
from bench.outcomes.plan import ASK, Story

STUCK = 3


class Untildone(Loop):
    """The program of this repository."""

    name = "untildone"
    flags: tuple[str, ...] = (
        *("--verify", project.SUITE, "--protect", "tests/**"),
        *("--idle-timeout", "0.1", "--timeout", "1"),
        *("--on-complete", "keep", "--json"),
    )
    settings = (
        f"`run {project.CHANGE} {' '.join(flags)}`, a `Verify:` line in each story; questions are "
        "answered with `guide` when the run has come to its end, then `resume`"
    )
    answers = True

    def play(self, arena: Arena) -> Ending:
        """One run; whenever it ends with questions, a person answers them and lets it go on."""
        program = str(Path(sys.executable).parent / "untildone")
        ending = arena.run(program, "run", project.CHANGE, *self.flags)
        answered: set[str] = set()
        while ending.code == STUCK and (asked := _asked(arena, answered)):
            for number, story in asked:
                arena.run(program, "guide", project.CHANGE, "--story", number, story.answer)
                answered.add(story.key)
            last = arena.run(program, "resume", project.CHANGE, "--json")
            ending = Ending(last.code, ending.wall + last.wall)
        return ending

    def claimed(self, arena: Arena) -> set[str]:
        """The stories with a checkpoint commit."""
        subjects = arena.git("log", "--format=%s", f"ralph/{project.CHANGE}").split("\n")
        numbers = {line.removeprefix("checkpoint: ") for line in subjects if "checkpoint: " in line}
        return {s.key for n, s in enumerate(arena.stories, 1) if str(n) in numbers}


class UntildoneInLanes(Untildone):
    """The same with four stories at once; its work is kept in a worktree of the run's own."""

    lanes = 4
    name = f"untildone --lanes {lanes}"
    flags: tuple[str, ...] = (*Untildone.flags, "--lanes", str(lanes))
    settings = f"as above with `--lanes {lanes}`"

    def tree(self, arena: Arena) -> Path:
        """The run's worktree beside the repository."""
        return arena.work.with_name(f"{arena.work.name}-ralph-{project.CHANGE}")


def _asked(arena: Arena, answered: set[str]) -> list[tuple[str, Story]]:
    """The stories with an open question of the agent, with their numbers in the task list."""
    keys = {call["story"] for call in arena.calls() if call.get("behaviour") == ASK} - answered
    return [(str(n), story) for n, story in enumerate(arena.stories, 1) if story.key in keys]


def events(arena: Arena) -> list[Mapping[str, Any]]:
    """What the run told, event by event."""
    lines = arena.output.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]
