"""The price of the loop around one story, with an agent that takes no time."""

from functools import partial

from bench.measure import interleave
from bench.programs import line
from bench.result import Result, cpu
from bench.scene import Stage, build

FILES = 1000
SHORT, LONG = 20, 40
CHANGES = {"short": SHORT, "long": LONG}


def loop_overhead(stage: Stage) -> list[Result]:
    """CPU per story of a whole run against a shell loop with the literal git commands."""
    scene = build(stage.folder / "overhead", FILES, CHANGES, stage.env)
    agent = stage.programs.instant()
    rounds = 2 if stage.quick else 7
    bare, subject, bare_long, subject_long = interleave(
        rounds,
        partial(stage.literal_run, scene, "short", agent),
        partial(stage.story_run, scene, "short", line(agent)),
        partial(stage.literal_run, scene, "long", agent),
        partial(stage.story_run, scene, "long", line(agent)),
    )
    note = f"per story, {SHORT} stories, {FILES} files, agent in {stage.programs.language}"
    return [
        cpu("loop_overhead", subject / SHORT, bare / SHORT, 1.8, f"{note}, best of {rounds}"),
        cpu(
            "loop_overhead, marginal",
            (subject_long - subject) / (LONG - SHORT),
            (bare_long - bare) / (LONG - SHORT),
            1.3,
            f"per story, a run of {LONG} minus a run of {SHORT}",
        ),
    ]


def stash(stage: Stage) -> list[Result]:
    """CPU of a story in the stash variant against the branch variant."""
    scene = build(stage.folder / "stash", FILES, CHANGES, stage.env)
    agent = line(stage.programs.instant())
    rounds = 2 if stage.quick else 5
    branch, stashed, branch_long, stashed_long = interleave(
        rounds,
        *(
            partial(stage.story_run, scene, change, agent, variant=variant)
            for change in CHANGES
            for variant in ("branch", "stash")
        ),
    )
    alone = stage.instant_alone(scene)
    note = f"a run of {LONG} minus a run of {SHORT}, {FILES} files, agent taken off"
    return [
        cpu(
            "stash",
            (stashed_long - stashed) / (LONG - SHORT) - alone,
            (branch_long - branch) / (LONG - SHORT) - alone,
            2.0,
            f"variant stash / branch, per story, {note}, best of {rounds}",
        ),
        cpu(
            "stash, whole run",
            stashed / SHORT,
            branch / SHORT,
            None,
            f"per story, {SHORT} stories, with start, end and agent",
        ),
    ]
