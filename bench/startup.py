"""Start-up: what a person waits for before anything happens."""

import json
import sys
from dataclasses import replace

from bench.measure import BenchError, Command, interleave, spend
from bench.programs import line
from bench.result import Result, Rule, Wall
from bench.scene import Scene, Stage, build


def startup_version(stage: Stage) -> list[Result]:
    """`untildone --version` against a Python that does nothing."""
    return [_against_python(stage, "startup_version", _small(stage), ("--version",), 1.5)]


def startup_help(stage: Stage) -> list[Result]:
    """`untildone --help` against a Python that does nothing."""
    return [_against_python(stage, "startup_help", _small(stage), ("--help",), 5.0)]


def status_json(stage: Stage) -> list[Result]:
    """`untildone status --json` with one finished run and two linked worktrees."""
    scene = _small(stage)
    stage.story_run(scene, "one", line(stage.programs.instant()))
    for name in ("left", "right"):
        scene.git("worktree", "add", "-q", "--detach", str(scene.root / name), "main")
    answer = json.loads(_answer(stage, scene))
    if len(answer["loops"]) != 1:
        raise BenchError(f"loops that `status --json` tells of: {len(answer['loops'])}")
    return [_against_python(stage, "status_json", scene, ("status", "--json"), 4.0)]


def _answer(stage: Stage, scene: Scene) -> str:
    output = stage.folder / "status.json"
    command = stage.untildone(scene, "status", "--json")
    spend(replace(command, stdout=output))
    return output.read_text()


def _small(stage: Stage) -> Scene:
    root = stage.folder / "small"
    if root.exists():
        scene = Scene(root, {"one": 1}, stage.env)
        scene.reset()
        return scene
    return build(root, 100, {"one": 1}, stage.env)


def _against_python(
    stage: Stage, name: str, scene: Scene, args: tuple[str, ...], bar: float
) -> Result:
    subject = stage.untildone(scene, *args)
    python = Command((sys.executable, "-I", "-c", "pass"), scene.work, stage.env)
    # The first start writes bytecode.
    spend(subject)
    spend(python)
    rounds = 7 if stage.quick else 25
    floor, spent = interleave(rounds, lambda: spend(python), lambda: spend(subject))
    wall = Wall(spent.wall * 1000, floor.wall * 1000)
    note = f"`untildone {' '.join(args)}` / `python -I -c pass`, best of {rounds}"
    return Result(name, spent.tree * 1000, floor.tree * 1000, "ms", Rule.RATIO, bar, wall, note)
