"""The price of the loop around one story, with an agent that takes no time."""

from bench.measure import interleave
from bench.programs import line
from bench.result import Result, Rule, Wall
from bench.scene import Stage, build

FILES = 1000
SHORT, LONG = 20, 40


def loop_overhead(stage: Stage) -> list[Result]:
    """CPU per story of a whole run against a shell loop with the literal git commands."""
    changes = {"short": SHORT, "long": LONG}
    scene = build(stage.folder / "overhead", FILES, changes, stage.env)
    agent = stage.programs.instant()
    rounds = 2 if stage.quick else 7
    bare, subject, bare_long, subject_long = interleave(
        rounds,
        lambda: stage.literal_run(scene, "short", agent),
        lambda: stage.story_run(scene, "short", line(agent)),
        lambda: stage.literal_run(scene, "long", agent),
        lambda: stage.story_run(scene, "long", line(agent)),
    )
    each = 1000 / SHORT
    more = 1000 / (LONG - SHORT)
    note = f"per story, {SHORT} stories, {FILES} files, agent in {stage.programs.language}"
    return [
        Result(
            "loop_overhead",
            subject.tree * each,
            bare.tree * each,
            "ms",
            Rule.RATIO,
            2.5,
            Wall(subject.wall * each, bare.wall * each),
            f"{note}, best of {rounds}",
        ),
        Result(
            "loop_overhead, marginal",
            (subject_long.tree - subject.tree) * more,
            (bare_long.tree - bare.tree) * more,
            "ms",
            wall=Wall(
                (subject_long.wall - subject.wall) * more, (bare_long.wall - bare.wall) * more
            ),
            note=f"per story, a run of {LONG} minus a run of {SHORT}",
        ),
    ]
