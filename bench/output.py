"""An agent that talks a lot: the price of listening, and the memory for it."""

from bench.measure import Command, Spent, interleave, spend
from bench.programs import line
from bench.result import Result, Rule, Wall
from bench.scene import Stage, build

SMALL = 1000


def output_1gb(stage: Stage, size: int | None = None) -> list[Result]:
    """CPU of the loop process alone for much output against a bare bounded reader."""
    size = size or (100_000_000 if stage.quick else 1 << 30)
    scene = build(stage.folder / "output", 100, {"one": 1}, stage.env)
    log = stage.folder / "reader.log"

    def reader(amount: int) -> Spent:
        argv = stage.programs.reader(log, stage.programs.flood(amount))
        spent = spend(Command(argv, scene.work, stage.env))
        log.unlink()
        return spent

    def subject(amount: int) -> Spent:
        return stage.story_run(scene, "one", line(stage.programs.flood(amount)))

    rounds = 2 if stage.quick else 3
    bare_small, small, bare, loud = interleave(
        rounds,
        lambda: reader(SMALL),
        lambda: subject(SMALL),
        lambda: reader(size),
        lambda: subject(size),
    )
    scene.reset()
    note = f"{size / 1e6:.0f} MB in lines of 100 bytes, best of {rounds}"
    alone = "CPU of the process alone minus that of a run with 1 kB of output"
    return [
        Result(
            "output_1gb",
            loud.alone - small.alone,
            bare.alone - bare_small.alone,
            "s",
            Rule.RATIO,
            1.5,
            Wall(loud.wall - small.wall, bare.wall - bare_small.wall),
            f"{note}; {alone}",
        ),
        Result(
            "output_1gb, whole process",
            loud.alone,
            bare.alone,
            "s",
            wall=Wall(loud.wall, bare.wall),
            note="with start-up, opening and closing of the run",
        ),
        Result(
            "output_1gb, memory",
            loud.peak,
            small.peak,
            "MB",
            Rule.GROWTH,
            10.0,
            note="peak of the loop process against a run with 1 kB of output",
        ),
    ]
