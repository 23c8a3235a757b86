"""What grows with the length of a run or of its list: the price of an iteration, and memory."""

from dataclasses import replace
from functools import partial

from bench.marks import Marks
from bench.measure import Spent, best, interleave, spend
from bench.programs import line
from bench.result import Result, Rule, cpu
from bench.scene import Scene, Stage, build, change_files
from bench.steady import traced_story

FILES = 1000
WINDOW = 20
EARLY = 5
LATE_WINDOWS = 4
LISTS = (20, 200, 400, 1000)
CAPS = (4, 19)
TRACED = 3


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
    agent = stage.instant_alone(scene)
    note = (
        f"plain loop, iterations {late_edges[0]} to {last} / {EARLY} to {EARLY + WINDOW}, "
        f"{FILES} files, agent taken off"
    )
    later = best(long.windows(late_edges))
    return [cpu("late_iterations", later - agent, best(early) - agent, 1.5, note)]


def list_scene(stage: Stage) -> Scene:
    """A repository with a change for each length of list, and a long one that is nearly done."""
    most = LISTS[-1]
    changes = {f"list-{size}": size for size in LISTS}
    last = change_files("last", most, most - LISTS[0])
    return build(stage.folder / "lists", FILES, changes, stage.env, last)


def list_growth(stage: Stage) -> list[Result]:
    """CPU of a story with a long list of stories against one with a short list.

    The same few stories are run in each: the list is longer, not the run. Both runs of a
    difference end at the cap, so start and end are the same and fall out.
    """
    most = LISTS[-1]
    scene = list_scene(stage)
    changes = scene.changes
    agent = line(stage.programs.instant())
    rounds = 2 if stage.quick else 5
    short, long = CAPS
    names = [*changes, "last"]
    runs = interleave(
        rounds,
        *(partial(stage.story_run, scene, name, agent, cap=cap) for name in names for cap in CAPS),
    )
    alone = stage.instant_alone(scene)
    pairs = zip(names, runs[::2], runs[1::2], strict=True)
    costs = {name: (more - few) / (long - short) - alone for name, few, more in pairs}
    floor = costs[f"list-{LISTS[0]}"]
    note = (
        f"a list of {most} stories / of {LISTS[0]}; per story, a run of {long} minus a run of "
        f"{short}, {FILES} files, agent taken off, best of {rounds}"
    )
    return [
        cpu("list_growth", costs[f"list-{most}"], floor, 1.2, note),
        cpu(
            "list_growth, last stories",
            costs["last"],
            floor,
            1.2,
            f"a list of {most} stories, all ticked but the last {LISTS[0]} / of {LISTS[0]}",
        ),
        *(
            cpu(
                f"list_growth, {size} stories",
                costs[f"list-{size}"],
                floor,
                None,
                f"a list of {size} stories / of {LISTS[0]}, for comparison",
            )
            for size in LISTS[1:-1]
        ),
        *list_steps(stage, scene),
    ]


def list_steps(stage: Stage, scene: Scene) -> list[Result]:
    """The same in steps of the interpreter: nothing else on the machine changes these."""
    names = (f"list-{LISTS[0]}", f"list-{LISTS[-1]}", "last")
    short, long, last = (traced_story(stage, scene, name, TRACED)["steps"] for name in names)
    note = f"steps of the interpreter in story {TRACED}, from agent call to agent call, as above"
    return [
        Result("list_growth, steps", long, short, "", Rule.RATIO, 1.2, note=note),
        Result("list_growth, last steps", last, short, "", Rule.RATIO, 1.2, note=note),
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
