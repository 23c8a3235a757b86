"""What grows with the length of a run: the price of an iteration, and memory."""

from dataclasses import replace

from bench.marks import Marks
from bench.measure import Command, Spent, best, spend
from bench.programs import line
from bench.result import Result, Rule, Wall
from bench.scene import Scene, Stage, build

FILES = 1000
WINDOW = 20
EARLY = 5
LATE_WINDOWS = 4


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
        Result("memory", big, small, "MB", Rule.RATIO, 1.25, note=note),
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
