"""The price of one checkpoint in a big repository."""

from pathlib import Path

from bench.marks import Marks
from bench.measure import Command, Spent, best, interleave, spend
from bench.programs import line
from bench.result import Result, cpu
from bench.scene import PROMPT, Scene, Stage, cached

FILES = 100_000
STORIES = 7
PAIR = 2  # the CPU of a live process is told in ticks of 10 ms: two stories halve the error


def checkpoint_100k(stage: Stage, files: int = FILES) -> list[Result]:
    """CPU of one checkpoint against one lstat and readdir pass over the same files."""
    scene = cached(stage, files, {"all": STORIES})
    counter = stage.folder / "counter"
    agent = stage.programs.churn(counter, files)
    edges = list(range(1, STORIES + 1, PAIR))

    def subject() -> Spent:
        counter.unlink(missing_ok=True)
        marks = Marks(set(edges))
        stage.story_run(scene, "all", line(agent), marks=marks)
        return best(marks.windows(edges))

    def literal() -> Spent:
        counter.unlink(missing_ok=True)
        marks = Marks(set(edges))
        stage.literal_run(scene, "all", agent, marks)
        return best(marks.windows(edges))

    rounds = 1 if stage.quick else 5
    walk = Command(stage.programs.walk(), scene.work, stage.env)
    spend(walk)
    floor, ours, bare, alone = interleave(
        rounds,
        lambda: spend(walk),
        subject,
        literal,
        lambda: _agent_alone(stage, scene, agent, counter),
    )
    count = rounds * (len(edges) - 1)
    note = f"{files} files, best of {count} pairs of stories, without the agent"
    floor_note = f"floor: lstat + readdir in {stage.programs.language}, best of {rounds}"
    return [
        cpu("checkpoint_100k", ours - alone, floor, 2.0, f"{note}; {floor_note}"),
        cpu(
            "checkpoint_100k, literal commands",
            bare - alone,
            floor,
            None,
            "`git add -A` and `git commit`, for comparison",
        ),
    ]


def _agent_alone(stage: Stage, scene: Scene, agent: tuple[str, ...], counter: Path) -> Spent:
    """The agent without a loop, on the files of the first story."""
    counter.unlink(missing_ok=True)
    scene.reset()
    prompt = stage.folder / "prompt.txt"
    prompt.write_text(PROMPT)
    return spend(Command(agent, scene.work, stage.env, stdin=prompt))
