"""`python -m bench outcomes`: run every loop with the same agent and tell what came of it."""

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import report
from bench.outcomes import plan, table
from bench.outcomes.arena import Arena
from bench.outcomes.loops import ralph_loop, ralph_starter, ralph_tui, ralphify, ralphy, shell
from bench.outcomes.loops.base import CannotRun, Loop
from bench.outcomes.loops.untildone import Untildone, UntildoneInLanes
from bench.outcomes.score import Score, score
from bench.scene import cache_folder, tools_folder

LOOPS: dict[str, Loop] = {
    loop.name: loop
    for loop in (
        Untildone(),
        UntildoneInLanes(),
        shell.Shell(),
        ralphy.Ralphy(),
        ralph_tui.RalphTui(),
        ralph_starter.RalphStarter(),
        ralph_loop.RalphLoop(),
        ralph_loop.RalphLoopNpm(),
        ralphify.Ralphify(),
    )
}
PAGE = Path("docs") / "benchmarks.md"
QUICK = 8
OURS = [Untildone.name, UntildoneInLanes.name]
WIDTHS = sorted({loop.lanes for loop in LOOPS.values()})


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for; 0 if untildone holds every bar, else 1."""
    asked = _parse(argv)
    # An end from outside must not leave the loops and their agents behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    count = QUICK if asked.quick else len(plan.FUNCTIONS)
    names = asked.loop or (OURS if asked.quick else list(LOOPS))
    loops = {name: LOOPS[name] for name in names if LOOPS[name].lanes in (asked.lanes or WIDTHS)}
    rows: list[table.Row] = []
    for name, loop in loops.items():
        for seed in range(asked.seed, asked.seed + asked.seeds):
            sys.stdout.write(f"{name}, seed {seed} …\n")
            sys.stdout.flush()
            row = run(loop, seed, count, asked.keep)
            rows.append(row)
            if not isinstance(row, Score):
                sys.stdout.write(f"    not run: {row[1]}\n")
                break
            sys.stdout.write("".join(f"    {line}\n" for line in _told(row)))
    sys.stdout.write("\n" + table.plain(rows))
    if asked.json is not None:
        asked.json.write_text(table.as_json(rows, loops), encoding="utf-8")
    if asked.write_docs:
        body = table.markdown(rows, loops, count)
        report.write_between(PAGE, table.BEGIN, table.END, body)
    ours = [row for row in rows if isinstance(row, Score) and row.loop in OURS]
    return 0 if all(row.holds for row in ours) else 1


def run(loop: Loop, seed: int, count: int, keep: Path | None = None) -> table.Row:
    """One loop, one seed, from an empty folder to its row."""
    tools = tools_folder(cache_folder())
    with tempfile.TemporaryDirectory(prefix="untildone-outcomes-") as name:
        arena = Arena(Path(name) / "arena", plan.draw(seed, count), tools)
        try:
            loop.install(tools)
            arena.build()
            loop.prepare(arena)
            ending = loop.play(arena)
            return score(loop, arena, seed, ending)
        except CannotRun as error:
            return loop, str(error)
        finally:
            arena.end()
            if keep is not None and arena.root.exists():
                kept = keep / f"{loop.name.replace(' ', '-')}-{seed}"
                shutil.rmtree(kept, ignore_errors=True)
                shutil.copytree(arena.root, kept, symlinks=True)


def _told(row: Score) -> list[str]:
    pairs = zip(table.HEAD[1:], table.cells(row)[1:], strict=True)
    lines = [", ".join(f"{head} {cell}" for head, cell in pairs)]
    if row.missing:
        lines.append(f"not done: {', '.join(row.missing)}")
    return [*lines, *filter(None, [table.details(row)])]


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench outcomes", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} stories, untildone only")
    parser.add_argument("--loop", action="append", choices=LOOPS, help="only this loop; repeatable")
    parser.add_argument(
        "--lanes",
        type=int,
        action="append",
        choices=WIDTHS,
        help="only loops with so many stories at once; repeatable",
    )
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default: 1)")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="how many seeds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers as JSON")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what each run left")
    parser.add_argument("--write-docs", action="store_true", help=f"rewrite the table in {PAGE}")
    return parser.parse_args(argv)
