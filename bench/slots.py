"""The price of lanes: a slot made and used again, and one landing on the run branch."""

import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.measure import BenchError, Command, Spent, interleave, spend
from bench.result import Result, cpu
from bench.scene import Scene, Stage, build
from untildone.adapters.git.git import Git
from untildone.adapters.git.repository import discover
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.adapters.slots.landing import Landing, Merged
from untildone.adapters.slots.slots import Prepared, Slots

FILES, FEW = 20_000, 2000
LANDINGS = 10
RUN = "20260101-000000-0000"
REF = "refs/heads/ralph/bench"
MESSAGE = "checkpoint: 1\n\nUntildone-Run: bench\nUntildone-Story: 1\nUntildone-Attempt: 1\n"


def slots(stage: Stage) -> list[Result]:
    """CPU of a slot against `git worktree add`, in the process of a loop that is up."""
    files = FEW if stage.quick else FILES
    scene = build(stage.folder / "slots", files, {"all": 1}, stage.env)
    base, landed = scene.git("rev-parse", "main").strip(), _landed(scene)
    rounds = 2 if stage.quick else 5
    with _lanes(stage, scene) as lanes:

        def made() -> Spent:
            if not lanes.delete(0).deleted:
                raise BenchError("a slot could not be deleted")
            return _measured(lambda: lanes.prepare(0, "bench", RUN, base))

        def used_again() -> Spent:
            _story(lanes.prepare(1, "bench", RUN, base), base)
            return _measured(lambda: lanes.prepare(1, "bench", RUN, landed))

        def worktree() -> Spent:
            path = stage.folder / "worktree"
            shutil.rmtree(path, ignore_errors=True)
            scene.git("worktree", "prune")
            words = ("git", "worktree", "add", "-q", "--detach", str(path), base)
            return spend(Command(words, scene.work, stage.env))

        floor, new, again = interleave(rounds, worktree, made, used_again)
    note = f"{files} files, best of {rounds}; floor: `git worktree add`"
    return [
        cpu("slots, a new one", new, floor, 1.3, note),
        cpu("slots, used again", again, floor, 0.2, f"{note}; after a story of 17 files"),
    ]


def landing(stage: Stage) -> list[Result]:
    """CPU of one landing against git doing merge-tree, commit-tree and update-ref."""
    files = FEW if stage.quick else FILES
    scene = build(stage.folder / "landing", files, {"all": 1}, stage.env)
    base, tip = scene.git("rev-parse", "main").strip(), _landed(scene)
    rounds = 2 if stage.quick else 7
    with _lanes(stage, scene) as lanes:
        story = _story(lanes.prepare(0, "bench", RUN, base), base)
        queue = _landing(scene)

        def ours() -> Spent:
            scene.git("update-ref", REF, tip)
            return _measured(lambda: _land(queue, tip, base, story)) / LANDINGS

        def bare() -> Spent:
            scene.git("update-ref", REF, tip)
            script = (
                f"set -e; tip={tip}; for n in $(seq {LANDINGS}); do "
                f"tree=$(git merge-tree --write-tree $tip {story}); "
                f"new=$(git commit-tree $tree -p $tip -m 'checkpoint: 1'); "
                f"git update-ref {REF} $new $tip; git update-ref {REF} $tip; done"
            )
            reset = Command(("git", "update-ref", REF, tip), scene.work, stage.env)
            shell = Command(("sh", "-c", script), scene.work, stage.env)
            return spend(shell) / LANDINGS - spend(reset)

        floor, landed = interleave(rounds, bare, ours)
    note = f"{files} files, best of {rounds} times {LANDINGS}, of a story of 17 files"
    return [cpu("landing", landed, floor, 2.0, note)]


def _land(queue: Landing, tip: str, base: str, story: str) -> None:
    for _ in range(LANDINGS):
        merged = queue.merge(tip, base, story)
        if not isinstance(merged, Merged):
            raise BenchError(f"a landing met a conflict: {merged.files}")
        candidate = queue.candidate(tip, merged.tree, MESSAGE)
        if not queue.swap(tip, candidate, "bench") or not queue.swap(candidate, tip, "bench"):
            raise BenchError("the branch did not move")


def _landing(scene: Scene) -> Landing:
    processes = Processes(WakePipe().fd)
    place = discover(processes, scene.work)
    scene.git("update-ref", REF, "main")
    git = Git(processes, place.top)
    git.use_git_dir(place.git_dir)
    git.use_fallback_identity_if_none()
    folder = place.git_dir / "untildone" / "runs" / RUN
    folder.mkdir(parents=True, exist_ok=True)
    return Landing(git, place, "bench", folder, ("openspec/changes/all/tasks.md",))


@contextmanager
def _lanes(stage: Stage, scene: Scene) -> Iterator[Slots]:
    """Slots of a repository; git finds the home of the stage."""
    before = dict(os.environ)
    _become(stage.env)
    try:
        processes = Processes(WakePipe().fd)
        place = discover(processes, scene.work)
        git = Git(processes, place.top)
        git.use_git_dir(place.git_dir)
        git.use_fallback_identity_if_none()
        yield Slots(processes, git, place, scene.root / "cache")
    finally:
        _become(before)


def _become(env: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)


def _story(prepared: Prepared, base: str) -> str:
    """10 edits, 2 deletions and 5 new files, saved."""
    prepared.workspace.ensure_at(base, "1")
    top = prepared.slot.top
    for n in range(10):
        with (top / f"p00/d{n:03d}/f00.txt").open("a") as file:
            file.write("more\n")
    for n in range(2):
        (top / f"p00/d{n:03d}/f01.txt").unlink()
    for n in range(5):
        Path(top, f"new{n}.txt").write_text(f"{n}\n")
    prepared.workspace.commits(base)
    return prepared.workspace.save(0, base, MESSAGE, only_changes=False).commit


def _landed(scene: Scene) -> str:
    """A commit on main that another story has landed."""
    for n in range(20, 30):
        with (scene.work / f"p00/d{n:03d}/f00.txt").open("a") as file:
            file.write("landed\n")
    scene.git("commit", "-q", "-a", "-m", "landed")
    return scene.git("rev-parse", "main").strip()


def _measured(action: Callable[[], object]) -> Spent:
    """What an action of this process costs, with the programs that it starts."""
    os.sync()
    started, before = time.perf_counter(), _cpu()
    action()
    return Spent(_cpu() - before, 0.0, time.perf_counter() - started, 0.0)


def _cpu() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)
