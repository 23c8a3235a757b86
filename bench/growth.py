"""What grows with the length of a run: the price of an iteration, and memory."""

import json
import time
from dataclasses import replace
from itertools import pairwise

from bench.measure import BenchError, Command, Spent, best, spend, tree_so_far
from bench.programs import line
from bench.result import Result, Rule, Wall
from bench.scene import Scene, Stage, build

FILES = 1000
WINDOW = 20
EARLY = 5
LATE_WINDOWS = 4


class Marks:
    """CPU and wall of the loop at the start of every iteration, from its own events."""

    def __init__(self, wanted: set[int]) -> None:
        self.wanted = wanted
        self.taken: dict[int, tuple[float, float]] = {}

    def hear(self, pid: int, event: bytes) -> None:
        """Take the time at the start of a wanted iteration."""
        if b"iteration_started" not in event:
            return
        told = json.loads(event)
        if told.get("event") == "iteration_started" and told["n"] in self.wanted:
            self.taken[told["n"]] = (tree_so_far(pid), time.perf_counter())

    def windows(self, edges: list[int]) -> list[Spent]:
        """CPU and wall per iteration between each two edges."""
        missing = [edge for edge in edges if edge not in self.taken]
        if missing:
            raise BenchError(f"iterations without an `iteration_started` event: {missing}")
        return [self._between(a, b) for a, b in pairwise(edges)]

    def _between(self, first: int, last: int) -> Spent:
        (cpu, wall), (cpu_after, wall_after) = self.taken[first], self.taken[last]
        count = last - first
        return Spent((cpu_after - cpu) / count, 0.0, (wall_after - wall) / count, 0.0)


def late_iterations(stage: Stage, last: int | None = None) -> list[Result]:
    """CPU of an iteration late in a plain loop against the same around iteration 10."""
    last = last or (500 if stage.quick else 5000)
    scene = build(stage.folder / "late", FILES, {}, stage.env)
    early_edges = [EARLY, EARLY + WINDOW]
    late_edges = [last - WINDOW * k for k in range(LATE_WINDOWS, -1, -1)]
    early: list[Spent] = []
    for _ in range(1 if stage.quick else LATE_WINDOWS - 1):
        early += _plain_run(stage, scene, EARLY + WINDOW).windows(early_edges)
    long = _plain_run(stage, scene, last, {*early_edges, *late_edges})
    early += long.windows(early_edges)
    agent = best([_instant(stage, scene) for _ in range(5)])
    first, later = best(early), best(long.windows(late_edges))
    note = f"iterations {late_edges[0]} to {last} / {EARLY} to {EARLY + WINDOW}"
    return [
        Result(
            "late_iterations",
            (later.tree - agent.tree) * 1000,
            (first.tree - agent.tree) * 1000,
            "ms",
            Rule.RATIO,
            1.5,
            Wall((later.wall - agent.wall) * 1000, (first.wall - agent.wall) * 1000),
            f"plain loop, {note}, {FILES} files, agent taken off",
        )
    ]


def memory(stage: Stage) -> list[Result]:
    """Peak resident memory of the loop alone: few stories against many."""
    few, many = 20, 100 if stage.quick else 1000
    scene = build(stage.folder / "memory", FILES, {"few": few, "many": many}, stage.env)
    agent = line(stage.programs.instant())
    small = stage.story_run(scene, "few", agent).peak
    big = stage.story_run(scene, "many", agent).peak
    note = f"peak of the loop process, {many} stories / {few} stories"
    return [
        Result("memory", big, small, "MB", Rule.RATIO, 1.15, note=note),
        Result("memory, limit", big, None, "MB", Rule.BELOW, 60.0, note=f"{many} stories"),
    ]


def _plain_run(stage: Stage, scene: Scene, last: int, wanted: set[int] | None = None) -> Marks:
    scene.reset()
    marks = Marks(wanted or {EARLY, EARLY + WINDOW})
    agent = line(stage.programs.instant())
    cap = ("--max-iterations", str(last), "--stall-threshold", str(last + 1))
    task = ("--task", "Add one line.", "--done", "manual", "--json", "--on-complete", "keep")
    # The cap ends a plain loop as `stuck`, exit 3.
    command = stage.untildone(
        scene, "run", "plain", "--agent-cmd", agent, *cap, *task, expect=(0, 3)
    )
    spend(replace(command, on_line=marks.hear))
    return marks


def _instant(stage: Stage, scene: Scene) -> Spent:
    return spend(Command(stage.programs.instant(), scene.work, stage.env))
