"""Kill the loop before, during and after everything it does, then recover and look for losses.

Run it with `make torture`. One run (dirty start, a story, a failed story, its retry, cleanup) is
watched from outside and every effect of it is counted: git calls, writes of journal, state and
other files, renames, removals, agent calls. Then the run is done again for each of them, with
SIGKILL right there. A new process recovers; reflogs are expired, the repository is collected, and
all bytes are looked for by their hash. Prints counts and exits 1 if anything is wrong.

With lanes no two runs do the same in the same order. There a point is the n-th effect of its sort
(the 7th `git update-ref`), and what must hold holds in any order.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.torture import checks
from tests.torture.checks import UNRECOVERED, Fact, Start
from tests.torture.commands import COMMANDS, Command, Stand, recovered
from tests.torture.scene import KILLED, USERS_FILES, Fault, Scene

VARIANTS = ("branch", "stash", "worktree")
LANES = "lanes"
STORIES, STORIES_OF_LANES = 2, 6
# Story 2 fails once, whatever the number of its call.
PLAN = """
if [ "$UNTILDONE_STORY_ID" = 1 ]; then echo more >> tracked.txt
elif [ "$UNTILDONE_STORY_ID" = 2 ] && mkdir "$root/failed-once"; then
  echo junk > work-junk.txt
  echo junk >> tracked.txt
  promise="FAILED: not yet"
fi
echo "work of story $UNTILDONE_STORY_ID" > "work-$UNTILDONE_STORY_ID.txt"
"""
# In lanes there are also two that get in each other's way, and one that commits its work.
PLAN_OF_LANES = (
    PLAN
    + """
case $UNTILDONE_STORY_ID in
3 | 4) sleep 0.1; echo "line of $UNTILDONE_STORY_ID" >> other.txt ;;
5) git add -A && git commit -q -m "by the agent" ;;
esac
"""
)
# Green for each alone and for all together, and there to be killed.
CHECK = ("--verify", "test ! -e work-junk.txt")

# The instant after one effect is the one before the next, so `before` is needed for the first only,
# and where the effect is seen in two parts.
MODES: dict[str, tuple[tuple[str, float], ...]] = {
    "question": (("during", 1.6), ("after", 0)),
    "git": (("during", 0.8), ("during", 1.6), ("during", 3.2), ("after", 0)),
    "agent": (("agent", 1), ("agent", 4), ("after", 0)),
    "write": (("before", 0), ("half", 0), ("after", 0)),  # before: the file is there, and empty
    "replace": (("after", 0),),
    "rename": (("after", 0),),
    "unlink": (("after", 0),),
    "mkdir": (("after", 0),),
    "rmdir": (("after", 0),),
    "link": (("after", 0),),
}
# Git commands that change nothing.
QUESTIONS = {
    *("cat-file", "check-ignore", "check-ref-format", "config", "diff-tree", "for-each-ref"),
    *("log", "ls-files", "ls-tree", "merge-base", "rev-list", "rev-parse", "status", "var"),
}
RECOVERIES = ("resume", "resume and finish", "finish", "restore")
RECOVERIES_OF_LANES = (*RECOVERIES, "keep and restore", "finish, undo and resume")


@dataclass(frozen=True, slots=True)
class Point:
    """One place to kill, and the way to recover from it."""

    variant: str
    fault: Fault
    kind: str
    what: str
    recovery: str
    command: str = "run"

    def __str__(self) -> str:
        hit = f"{self.fault.mode} {self.kind} {self.what} (number {self.fault.at})"
        return f"{self.variant}, {self.command}: {hit}, then {self.recovery}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one point."""

    point: Point
    killed: bool
    wrong: list[Fact]
    said: str = ""


def stories_of(variant: str) -> int:
    """How many stories the run has."""
    return STORIES_OF_LANES if variant == LANES else STORIES


def made(root: Path, variant: str) -> Scene:
    """The repository that every case copies."""
    scene = Scene.made(root, stories_of(variant))
    scene.plan({"default": PLAN_OF_LANES if variant == LANES else PLAN})
    return scene


def args_of(scene: Scene, variant: str, choice: str = "cleanup") -> tuple[str, ...]:
    """The run that is killed."""
    checks = CHECK if variant == LANES else ()
    return scene.run_args(variant, *checks, "--on-complete", choice, "--quiet")


def effects(template: Scene, variant: str, root: Path) -> list[tuple[str, str]]:
    """All that an undisturbed run does."""
    scene = template.copied(root)
    start = Start.of(scene)
    log = root / "effects"
    code = scene.command(*args_of(scene, variant), log=log)
    wrong = final_state(scene, start, variant) if code == 0 else [Fact(UNRECOVERED, f"exit {code}")]
    if wrong:
        raise SystemExit(f"{variant}, undisturbed: {wrong}\n{scene.said.read_text()}")
    return _logged(log)


def _logged(log: Path) -> list[tuple[str, str]]:
    rows = log.read_text().splitlines()
    return [(kind, what) for kind, _, what in (row.partition(" ") for row in rows)]


def points(
    variant: str, found: list[tuple[str, str]], command: str = "run", *, all_ways: bool = False
) -> Iterator[Point]:
    """Every effect in every mode; the ways to recover take turns, unless all are wanted."""
    in_lanes = variant == LANES and command == "run"
    ways: tuple[str, ...] = RECOVERIES_OF_LANES if in_lanes else RECOVERIES
    ways = COMMANDS[command].recoveries if command in COMMANDS else ways
    hits = [(Fault(1), *found[0])] if found else []
    seen: Counter[str] = Counter()
    for at, (kind, what) in enumerate(found, 1):
        asks = kind == "git" and what in QUESTIONS
        sort = f"{kind} {what}" if in_lanes else ""
        seen[sort] += 1
        for mode, delay in MODES["question" if asks else kind]:
            hits.append((Fault(seen[sort] if sort else at, mode, delay, sort), kind, what))
    for turn, (fault, kind, what) in enumerate(hits):
        turns = ways if all_ways else (ways[turn % len(ways)],)
        for recovery in turns:
            yield Point(variant, fault, kind, what, recovery, command)


def hit(template: Path, point: Point) -> Outcome:
    """One kill, one recovery, all checks."""
    folder = tempfile.mkdtemp(prefix="torture-")
    try:
        scene = Scene(template).copied(Path(folder) / "s")
        start = Start.of(scene)
        code = scene.command(*args_of(scene, point.variant), fault=point.fault)
        try:
            wrong = _checked(scene, start, point) if code == KILLED else _not_hit(code)
        except AssertionError as error:
            wrong = [Fact(checks.UNUSABLE, str(error))]
        return Outcome(point, code == KILLED, wrong, scene.said.read_text() if wrong else "")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _not_hit(code: int) -> list[Fact]:
    # A point behind the last one, or a call of git that had ended before its time came.
    return [] if code == 0 else [Fact(UNRECOVERED, f"the run exits {code}")]


def _checked(scene: Scene, start: Start, point: Point) -> list[Fact]:
    wrong = checks.losses(scene, slots=True)
    finished, calls = checks.checkpoints(scene), len(scene.calls())
    status = scene.command("status", "--json")
    wrong += [Fact(UNRECOVERED, f"status exits {status}")] if status else []
    wrong += recover(scene, start, point)
    checks.expire_and_collect(scene)
    wrong += checks.losses(scene) + checks.usable(scene) + checks.state_is_valid(scene)
    wrong += checks.only_copies(scene)
    return wrong + checks.repeated(scene, finished, calls, in_order=point.variant != LANES)


def recover(scene: Scene, start: Start, point: Point) -> list[Fact]:
    """Bring the run to its end in the way of this point, and look at what is there."""
    match point.recovery:
        case "finish":
            code = scene.command("finish", "x", "cleanup")
            return _ended_early(scene, start, code)
        case "restore":
            code = scene.command("restore", "x")
            wrong = checks.untouched(scene, start)
            if code == 2:  # nothing was touched yet; the next run removes what there is of ours
                return wrong
            wrong += [] if code == 0 else [Fact(UNRECOVERED, f"restore exits {code}")]
            return wrong + checks.leftovers(scene)
        case "resume and finish":
            wrong = _resumed(scene, point.variant, "keep")
            code = scene.command("finish", "x", "cleanup")
            # The killed process may have made the choice already.
            wrong += [] if code in (0, 2) else [Fact(UNRECOVERED, f"finish exits {code}")]
            return wrong + final_state(scene, start, point.variant)
        case "keep and restore":
            codes = [scene.command("finish", "x", "keep"), scene.command("restore", "x")]
            odd = [code for code in codes if code not in (0, 2, 6)]
            wrong = [Fact(UNRECOVERED, f"keep and restore exit {codes}")] if odd else []
            return wrong + checks.untouched(scene, start)
        case "finish, undo and resume":
            codes = [scene.command("finish", "x", "cleanup"), scene.command("undo")]
            odd = [code for code in codes if code not in (0, 2, 6)]
            wrong = [Fact(UNRECOVERED, f"finish and undo exit {codes}")] if odd else []
            wrong += _resumed(scene, point.variant, "cleanup")
            return wrong + final_state(scene, start, point.variant)
        case _:
            wrong = _resumed(scene, point.variant, "cleanup")
            return wrong + final_state(scene, start, point.variant)


def _resumed(scene: Scene, variant: str, choice: str) -> list[Fact]:
    code = scene.command("resume", "x", "--on-complete", choice, "--quiet")
    if code == 2:  # nothing to resume: the start was cut short, or the end was all but reached
        code = scene.command(*args_of(scene, variant, choice))
    return [] if code == 0 else [Fact(UNRECOVERED, f"going on exits {code}")]


def _ended_early(scene: Scene, start: Start, code: int) -> list[Fact]:
    if code == 2 and not scene.calls():
        return checks.untouched(scene, start)
    # 6: a run that was stopped by this very command; 2: cleaned up before the kill.
    wrong = [] if code in (0, 2, 6) else [Fact(UNRECOVERED, f"finish exits {code}")]
    return wrong + checks.after_cleanup(scene, start)


def final_state(scene: Scene, start: Start, variant: str = VARIANTS[0]) -> list[Fact]:
    """All stories are done and the user's own work stands beside them."""
    numbers = range(1, stories_of(variant) + 1)
    done = {f"work-{n}.txt": f"work of story {n}\n" for n in numbers}
    expected = USERS_FILES | done | {"tracked.txt": "edited by the user\nmore\n"}
    wrong = checks.changed_files(scene, expected) + checks.after_cleanup(scene, start)
    lines = (scene.repo / "other.txt").read_text().splitlines()
    if variant == LANES and sorted(lines) != ["base", "line of 3", "line of 4"]:
        wrong.append(Fact(UNRECOVERED, f"the text of two stories in one place is {lines}"))
    if "- [ ]" in (scene.repo / "tasks.md").read_text():
        wrong.append(Fact(UNRECOVERED, "a box is not ticked"))
    return wrong


def torture_command(
    variant: str, name: str, every: int, *, part: int = 0, of: int = 1, all_ways: bool = False
) -> list[Outcome]:
    """Kill a command that comes after a run, at all its points or at every n-th.

    Always in one place, which paths in journals and of linked worktrees name.
    """
    command, outcomes = COMMANDS[name], list[Outcome]()
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        root, saved, log = Path(folder) / "s", Path(folder) / "saved", Path(folder) / "effects"
        scene = made(root, variant)
        start = Stand.of(scene)
        command.before(scene, variant)
        before = Stand.of(scene)
        root.rename(saved)
        scene = Scene(saved).copied(root)
        code = scene.command(*command.args, log=log)
        assert code == 0, scene.said.read_text()
        stands = start, before, Stand.of(scene)
        chosen = list(points(variant, _logged(log), name, all_ways=all_ways))[::every]
        for point in chosen[part::of]:
            shutil.rmtree(root)
            scene = Scene(saved).copied(root)
            code = scene.command(*command.args, fault=point.fault)
            try:
                hit = code == KILLED
                wrong = _checked_command(scene, point, stands) if hit else _not_hit(code)
            except AssertionError as error:
                wrong = [Fact(checks.UNUSABLE, str(error))]
            said = scene.said.read_text() if wrong else ""
            outcomes.append(Outcome(point, code == KILLED, wrong, said))
    return outcomes


def _checked_command(scene: Scene, point: Point, stands: tuple[Stand, ...]) -> list[Fact]:
    command = COMMANDS[point.command]
    wrong = _lost(scene, command)
    status = scene.command("status", "--json")
    wrong += [Fact(UNRECOVERED, f"status exits {status}")] if status else []
    wrong += recovered(scene, command, point.recovery, stands)
    checks.expire_and_collect(scene)
    wrong += _lost(scene, command)
    return wrong + checks.usable(scene) + checks.state_is_valid(scene)


def _lost(scene: Scene, command: Command) -> list[Fact]:
    if command.forgets:
        return []
    return checks.losses(scene, users_only=command.removes, staged=command.staged)


def torture(
    variant: str, every: int, jobs: int, *, first: int = 0, all_ways: bool = False
) -> tuple[Counter[str], int]:
    """All points of a variant (or every n-th): counts, and how many are bad."""
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        template = made(Path(folder) / "template", variant)
        found = effects(template, variant, Path(folder) / "watched")
        chosen = list(points(variant, found, all_ways=all_ways))[first::every]
        with ProcessPoolExecutor(jobs) as pool:
            return counted(pool.map(hit, [template.root] * len(chosen), chosen, chunksize=4))


def torture_commands(
    variant: str, name: str, every: int, jobs: int, *, all_ways: bool = False
) -> tuple[Counter[str], int]:
    """The same for a command that comes after a run."""
    play = partial(torture_command, variant, name, every, of=jobs, all_ways=all_ways)
    with ProcessPoolExecutor(jobs) as pool:
        parts = [pool.submit(play, part=part) for part in range(jobs)]
        return counted(outcome for part in parts for outcome in part.result())


def counted(outcomes: Iterable[Outcome]) -> tuple[Counter[str], int]:
    """Counts, and how many are bad; these are shown."""
    counts: Counter[str] = Counter()
    bad = 0
    for outcome in outcomes:
        counts["kills"] += outcome.killed
        counts["not reached"] += not outcome.killed
        if not outcome.killed:
            print(f"not reached: {outcome.point}")
        counts.update({fact.kind for fact in outcome.wrong})
        bad += bool(outcome.wrong)
        if outcome.wrong:
            print(f"{outcome.point}:", *outcome.wrong, outcome.said, sep="\n  ", flush=True)
    return counts, bad


def main() -> int:
    """Every kill point of the run and of every command after it, in every mode and variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=(*VARIANTS, LANES), action="append")
    parser.add_argument("--sample", type=int, default=1, help="take every N-th point")
    parser.add_argument("--command", choices=("run", *COMMANDS), action="append")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--all-ways", action="store_true", help="recover in every way from each")
    options = parser.parse_args()
    bad = 0
    how = options.sample, options.jobs
    for variant in options.variant or (*VARIANTS, LANES):
        for name in options.command or ("run", *COMMANDS):
            if variant == "stash" and name in COMMANDS and COMMANDS[name].commits:
                continue
            began, ways = time.monotonic(), options.all_ways
            if name == "run":
                counts, failed = torture(variant, *how, all_ways=ways)
            else:
                counts, failed = torture_commands(variant, name, *how, all_ways=ways)
            rows = [f"{counts[kind]} {kind}" for kind in ("kills", "not reached", *checks.KINDS)]
            took = f"{time.monotonic() - began:.0f} s"
            print(f"{variant}, {name}: {', '.join(rows)} ({took})", flush=True)
            bad += failed + (not counts["kills"])
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
