"""The command line: `python -m bench [NAME…] [--quick] [--json FILE] [--write-docs]`.

`python -m bench outcomes` is the quality benchmark and has flags of its own.
"""

import argparse
import fcntl
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import (
    checkpoint,
    growth,
    lanes,
    other_loops,
    output,
    overhead,
    parsing,
    report,
    slots,
    startup,
    steady,
    stories,
    ui,
)
from bench.measure import BenchError
from bench.outcomes import cli as outcomes
from bench.result import Failure, Result
from bench.scene import Stage, stage

BENCHMARKS: Mapping[str, Callable[[Stage], list[Result]]] = {
    "startup_version": startup.startup_version,
    "startup_help": startup.startup_help,
    "status_json": startup.status_json,
    "loop_overhead": overhead.loop_overhead,
    "steady_story": steady.steady_story,
    "list_growth": growth.list_growth,
    "stash": overhead.stash,
    "other_loops": other_loops.other_loops,
    "checkpoint_100k": checkpoint.checkpoint_100k,
    "slots": slots.slots,
    "landing": slots.landing,
    "lanes": lanes.lanes,
    "late_iterations": growth.late_iterations,
    "memory": growth.memory,
    "output_1gb": output.output_1gb,
    "stream_200mb": parsing.stream_200mb,
    "stories_10k": stories.stories_10k,
    "ui": ui.ui,
}
PAGE = Path("docs") / "benchmarks.md"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what was asked for; 0 if every bar is held, 1 if not, 2 for a wrong question."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["outcomes"]:
        return outcomes.main(words[1:])
    asked = _parse(words)
    if not Path("/proc/self/stat").exists():
        sys.stderr.write("The benchmarks need /proc, so they run on Linux only.\n")
        return 2
    try:
        with stage(quick=asked.quick) as place, (place.cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            rows = _measure(place, list(dict.fromkeys(asked.names or BENCHMARKS)))
    except BlockingIOError:
        sys.stderr.write("Another run of the benchmarks is going on; wait for its end.\n")
        return 2
    except BenchError as error:
        sys.stderr.write(f"Nothing could be measured: {error}\n")
        return 2
    sys.stdout.write("\n" + report.table(rows))
    if asked.json is not None:
        asked.json.write_text(report.as_json(rows, quick=asked.quick), encoding="utf-8")
    if asked.write_docs:
        report.write_page(PAGE, rows, quick=asked.quick)
    missed = any(isinstance(row, Failure) or row.passed is False for row in rows)
    return 1 if missed else 0


def _measure(place: Stage, names: Sequence[str]) -> list[Result | Failure]:
    rows: list[Result | Failure] = []
    for name in names:
        found: Sequence[Result | Failure]
        try:
            found = BENCHMARKS[name](place)
        except (BenchError, OSError, ValueError, KeyError) as error:
            found = [Failure(name, str(error) or repr(error))]
        for row in found:
            sys.stdout.write(report.plain(row))
        sys.stdout.flush()
        rows.extend(found)
    return rows


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of: {', '.join(BENCHMARKS)}; or `outcomes`, alone, with flags of its own",
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller sizes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers as JSON")
    parser.add_argument("--write-docs", action="store_true", help=f"rewrite the table in {PAGE}")
    asked = parser.parse_args(argv)
    unknown = [name for name in asked.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark: {unknown[0]}; known: {', '.join(BENCHMARKS)}")
    if asked.write_docs and asked.names:
        parser.error("--write-docs needs the whole set: leave the names out")
    return asked


if __name__ == "__main__":
    sys.exit(main())
