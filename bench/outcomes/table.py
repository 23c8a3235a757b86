"""The outcome table, for the terminal, for programs and for the documentation."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version

from bench import report
from bench.outcomes.loops.base import Loop
from bench.outcomes.score import Score

BEGIN = "<!-- outcomes: begin -->"
END = "<!-- outcomes: end -->"
HEAD = (
    *("loop", "truly done", "falsely done", "lost", "gone", "calls", "least", "ratio"),
    *("left", "sat out", "waiting", "wall", "end"),
)
Row = Score | tuple[Loop, str]


def cells(row: Row) -> tuple[str, ...]:
    """One row as text; a loop that could not run has its reason in the last cell."""
    if isinstance(row, tuple):
        loop, reason = row
        return (loop.name, *["-"] * (len(HEAD) - 2), f"not run: {reason}")
    return (
        row.loop,
        f"{row.done} of {row.possible}",
        str(len(row.false)),
        str(len(row.lost)),
        str(len(row.gone)),
        str(row.calls),
        str(row.least),
        f"{row.ratio:.2f}x",
        str(row.left),
        str(row.sat_out),
        f"{row.waited:.0f} s",
        f"{row.wall:.0f} s",
        row.ended,
    )


def plain(rows: Sequence[Row]) -> str:
    """The table in columns."""
    lines = [HEAD, *(cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    text = ("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in lines)
    return "".join(f"{line.rstrip()}\n" for line in text)


def details(row: Score) -> str:
    """What is behind the numbers of a row, empty if there is nothing to explain."""
    told = []
    if row.false:
        what = ", ".join(f"{behaviour} {count}" for behaviour, count in row.after)
        told.append(f"falsely done, by the agent's last call for them: {what}")
    if row.lost:
        told.append(f"lost: {', '.join(row.lost)}")
    if row.gone:
        told.append(f"gone: {', '.join(row.gone)}")
    return "; ".join(told)


def markdown(rows: Sequence[Row], loops: Mapping[str, Loop], stories: int) -> str:
    """The part of the page between the markers."""
    date = time.strftime("%Y-%m-%d", time.gmtime())
    seeds = sorted({row.seed for row in rows if isinstance(row, Score)})
    drawn = ", ".join(str(seed) for seed in seeds)
    lines = [f"{date}, {stories} stories, seed {drawn}. Machine: {report.machine()}.", ""]
    lines += [f"| {' | '.join(HEAD)} |", "|" + " --- |" * len(HEAD)]
    lines += [f"| {' | '.join(cells(row))} |" for row in rows]
    lines.append("")
    for name, loop in loops.items():
        told = f"- {name} {number(loop)}: {loop.settings}."
        found = [details(row) for row in rows if isinstance(row, Score) and row.loop == name]
        lines.append(" ".join([told, *(f"{text[0].upper()}{text[1:]}." for text in found if text)]))
    return "\n".join(lines) + "\n"


def as_json(rows: Sequence[Row], loops: Mapping[str, Loop]) -> str:
    """The rows for a program."""
    told = [
        {**asdict(row), "ratio": row.ratio, "holds": row.holds, "version": number(loops[row.loop])}
        if isinstance(row, Score)
        else {"loop": row[0].name, "version": row[0].version, "not_run": row[1]}
        for row in rows
    ]
    return json.dumps(told, indent=2) + "\n"


def number(loop: Loop) -> str:
    """The version of a loop."""
    return loop.version or version("untildone")
