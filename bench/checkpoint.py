"""The price of one checkpoint in a big repository."""

from pathlib import Path

from bench.measure import Command, Spent, interleave, spend
from bench.programs import line
from bench.result import Result, Rule, Wall
from bench.scene import PROMPT, Scene, Stage, cached

FILES = 100_000
FEW, MANY = 2, 6


def checkpoint_100k(stage: Stage, files: int = FILES) -> list[Result]:
    """CPU of one checkpoint against one lstat and readdir pass over the same files."""
    scene = cached(stage, files, {"few": FEW, "many": MANY})
    counter = stage.folder / "counter"
    agent = stage.programs.churn(counter, files)

    def subject(change: str) -> Spent:
        counter.unlink(missing_ok=True)
        return stage.story_run(scene, change, line(agent))

    def literal(change: str) -> Spent:
        counter.unlink(missing_ok=True)
        return stage.literal_run(scene, change, agent)

    rounds = 1 if stage.quick else 4
    walk = Command(stage.programs.walk(), scene.work, stage.env)
    spend(walk)
    floor, few, many, bare_few, bare_many, alone = interleave(
        rounds,
        lambda: spend(walk),
        lambda: subject("few"),
        lambda: subject("many"),
        lambda: literal("few"),
        lambda: literal("many"),
        lambda: _agent_alone(stage, scene, agent, counter),
    )
    each = 1000 / (MANY - FEW)
    wall = Wall((many.wall - few.wall) * each - alone.wall * 1000, floor.wall * 1000)
    bare = Wall((bare_many.wall - bare_few.wall) * each - alone.wall * 1000, floor.wall * 1000)
    base = floor.tree * 1000
    measured = (many.tree - few.tree) * each - alone.tree * 1000
    naive = (bare_many.tree - bare_few.tree) * each - alone.tree * 1000
    note = f"{files} files, (run of {MANY} stories - run of {FEW}) / {MANY - FEW} - agent"
    floor_note = f"floor: lstat + readdir in {stage.programs.language}, best of {rounds}"
    return [
        Result(
            "checkpoint_100k", measured, base, "ms", Rule.RATIO, 2.0, wall, f"{note}; {floor_note}"
        ),
        Result(
            "checkpoint_100k, literal commands",
            naive,
            base,
            "ms",
            wall=bare,
            note="`git add -A` and `git commit`, for comparison",
        ),
    ]


def _agent_alone(stage: Stage, scene: Scene, agent: tuple[str, ...], counter: Path) -> Spent:
    """The agent without a loop, on the files of the first story."""
    counter.unlink(missing_ok=True)
    scene.reset()
    prompt = stage.folder / "prompt.txt"
    prompt.write_text(PROMPT)
    return spend(Command(agent, scene.work, stage.env, stdin=prompt))
