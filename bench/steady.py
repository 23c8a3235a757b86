"""One steady story, counted: what holds on a busy machine, where times do not."""

import json
import re
import shutil
import sys
from pathlib import Path

from bench.measure import Command, spend
from bench.programs import NATIVE, line
from bench.result import Result, Rule
from bench.scene import Scene, Stage, build

FILES = 1000
SHORT, LONG = 10, 30
STORY = 5
MODULES, CHANGES = 60, 150
# What each is called in the table, and the system calls that it stands for.
CALLS = {
    "programs started": ("execve",),
    "files opened": ("open", "openat"),
    "stats": ("stat", "lstat", "newfstatat", "statx"),
    "syncs": ("fsync", "fdatasync", "sync_file_range"),
}
_ROW = re.compile(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(?P<calls>\d+)\s+(?:\d+\s+)?(?P<name>\w+)")


def steady_story(stage: Stage) -> list[Result]:
    """Modules, changes of layer and system calls of a story in the middle of a run."""
    scene = build(stage.folder / "steady", FILES, {"short": SHORT, "long": LONG}, stage.env)
    traced = traced_story(stage, scene, "short", STORY)
    note = f"story {STORY} of {SHORT}, from agent call to agent call"
    rows = [
        Result(
            "steady_story, modules", traced["modules"], None, "", Rule.BELOW, MODULES, note=note
        ),
        Result(
            "steady_story, layer changes",
            traced["changes"],
            None,
            "",
            Rule.BELOW,
            CHANGES,
            note=note,
        ),
        Result("steady_story, calls", traced["calls"], None, "", note=f"of our functions, {note}"),
        Result(
            "steady_story, steps", traced["steps"], None, "", note=f"of the interpreter, {note}"
        ),
    ]
    if shutil.which("strace") is None:
        return rows
    short, long = (_counted(stage, scene, change) for change in ("short", "long"))
    note = f"per story, a run of {LONG} minus a run of {SHORT}, {FILES} files, with git and agent"
    for name, calls in CALLS.items():
        more = sum(long.get(call, 0) - short.get(call, 0) for call in calls)
        rows.append(Result(f"steady_story, {name}", more / (LONG - SHORT), None, "", note=note))
    return rows


def traced_story(stage: Stage, scene: Scene, change: str, story: int) -> dict[str, int]:
    """What one story passes through, counted by the interpreter; the run ends soon after it."""
    out = stage.folder / "trace.json"
    start = (sys.executable, str(NATIVE / "trace.py"), str(out), str(story))
    _run(stage, scene, start, change, cap=story + 1)
    found: dict[str, int] = json.loads(out.read_text())
    return found


def _counted(stage: Stage, scene: Scene, change: str) -> dict[str, int]:
    out = stage.folder / "calls.txt"
    _run(stage, scene, ("strace", "-c", "-f", "-o", str(out), str(stage.subject)), change)
    rows = map(_ROW.match, Path(out).read_text().splitlines())
    return {row["name"]: int(row["calls"]) for row in rows if row}


def _run(
    stage: Stage, scene: Scene, start: tuple[str, ...], change: str, cap: int | None = None
) -> None:
    scene.reset()
    agent = line(stage.programs.instant())
    args = ["run", change, "--agent-cmd", agent, "--on-complete", "keep"]
    args += ["--max-iterations", str(cap)] if cap else []
    # The cap ends a run with open stories as `stuck`, exit 3.
    spend(Command((*start, *args), scene.work, stage.env, expect=(3,) if cap else (0,)))
