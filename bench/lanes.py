"""Several stories at once: how near to the ideal a run comes, and what the loop weighs then."""

import json
import shutil
import time
from dataclasses import dataclass, field, replace

from bench.measure import BenchError, Spent, spend
from bench.programs import line
from bench.result import Result, Rule
from bench.scene import CHECKPOINTS, Scene, Stage, build

FILES = 1000
STORIES = 16
SECONDS = 2.0
# Lanes, and the least share of the ideal that they must reach.
BARS = {4: 0.9, 16: 0.85}
MEMORY = 80.0


def lanes(stage: Stage) -> list[Result]:
    """Wall time of sleeping agents against as many of them at once as there are lanes."""
    scene = build(stage.folder / "lanes", FILES, {"first": STORIES, "all": STORIES}, stage.env)
    rounds = 1 if stage.quick else 3
    rows = []
    for count, share in BARS.items():
        runs = [_run(stage, scene, count) for _ in range(rounds)]
        wall, spent = min(runs, key=lambda run: run[0])
        ideal = SECONDS * -(-STORIES // count)
        note = (
            f"{STORIES} stories of {SECONDS:g} s from the first call to the last landing, {FILES} "
            f"files, best of {rounds}; floor: the agents alone, {count} at once; {share:g} of the "
            "ideal or more"
        )
        rows.append(Result(f"lanes, {count}", wall, ideal, "s", Rule.RATIO, 1 / share, note=note))
        cost = (spent.tree / STORIES * 1000, "processor time of a whole run, per story")
        rows.append(Result(f"lanes, {count}, cost", cost[0], None, "ms", note=cost[1]))
        if count == max(BARS):
            told = f"peak of the loop process with {count} lanes at work"
            rows.append(
                Result("lanes, memory", spent.peak, None, "MB", Rule.BELOW, MEMORY, note=told)
            )
    return rows


def _agent(seconds: float) -> tuple[str, ...]:
    """Sleeps, and leaves a file of its own: nothing to bring together."""
    work = f"cat >/dev/null; sleep {seconds:g}; echo x >work-$$-$UNTILDONE_LANE.txt"
    return "sh", "-c", f"{work}; echo '<promise>COMPLETE</promise>'"


@dataclass
class Times:
    """When the first call began and the last story landed, as the run tells it."""

    begun: float = 0.0
    landed: list[float] = field(default_factory=list)

    def hear(self, _: int, event: bytes) -> None:
        name = json.loads(event).get("event") if event.startswith(b"{") else ""
        if name == "iteration_started" and not self.begun:
            self.begun = time.perf_counter()
        elif name == "landed":
            self.landed.append(time.perf_counter())


def _run(stage: Stage, scene: Scene, count: int) -> tuple[float, Spent]:
    """Seconds from the first call to the last landing, and what the run cost.

    A run before it has made the slots: they are made once and used for days.
    """
    scene.reset()
    left = (f"{scene.work.name}-ralph-{change}" for change in scene.changes)
    for path in (stage.folder / "home" / ".cache", *(scene.root / name for name in left)):
        shutil.rmtree(path, ignore_errors=True)
    words = ("--lanes", str(count), "--optimistic", "--json", "--on-complete", "keep")
    first = ("run", "first", "--agent-cmd", line(_agent(0)))
    spend(stage.untildone(scene, *first, *words))
    times = Times()
    command = stage.untildone(scene, "run", "all", "--agent-cmd", line(_agent(SECONDS)), *words)
    spent = spend(replace(command, on_line=times.hear))
    scene.expect_checkpoints(CHECKPOINTS["branch"] + "all", STORIES)
    if len(times.landed) != STORIES:
        raise BenchError(f"stories that landed, by the events: {len(times.landed)} of {STORIES}")
    return times.landed[-1] - times.begun, spent
