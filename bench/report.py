"""How results are shown: lines, a table, JSON, and the page in the documentation."""

import json
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path

from bench.measure import quiet
from bench.result import Failure, Result

BEGIN = "<!-- bench: begin -->"
END = "<!-- bench: end -->"
HEAD = ("benchmark", "measured", "floor", "ratio", "bar", "wall", "wall floor", "verdict")
TEMPLATE = Path(__file__).parent / "page.md"


def machine() -> str:
    """The class of this machine in general words."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    release = ".".join(platform.release().split(".")[:2])
    git = quiet(("git", "--version"), Path.cwd(), os.environ).split()[2]
    words = f"{platform.system()} {release}, {platform.machine()}, {os.cpu_count()} cores"
    return f"{words}, {memory:.0f} GB memory, git {git}, Python {platform.python_version()}"


def cells(row: Result | Failure) -> tuple[str, ...]:
    """One row of the table as text."""
    if isinstance(row, Failure):
        return (row.name, "-", "-", "-", "-", "-", "-", "NOT MEASURED")
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}x"
    wall = _value(row.wall.measured if row.wall else None, row.unit)
    wall_floor = _value(row.wall.floor if row.wall else None, row.unit)
    verdict = {None: "-", True: "pass", False: "MISSED"}[row.passed]
    measured, floor = _value(row.measured, row.unit), _value(row.floor, row.unit)
    return (row.name, measured, floor, ratio, row.bar_text, wall, wall_floor, verdict)


def plain(row: Result | Failure) -> str:
    """One result as it is printed when it is known."""
    if isinstance(row, Failure):
        return f"{row.name}: not measured: {row.reason}\n"
    pairs = zip(HEAD[1:], cells(row)[1:], strict=True)
    told = ", ".join(f"{head} {cell}" for head, cell in pairs if cell != "-")
    return f"{row.name}: {told}\n    {row.note}\n"


def table(rows: Sequence[Result | Failure]) -> str:
    """All results in columns."""
    lines = [HEAD, *(cells(row) for row in rows)]
    widths = [max(len(each[i]) for each in lines) for i in range(len(HEAD))]
    text = ("  ".join(c.ljust(w) for c, w in zip(each, widths, strict=True)) for each in lines)
    return "".join(f"{each.rstrip()}\n" for each in text)


def as_json(rows: Sequence[Result | Failure], *, quick: bool) -> str:
    """All results for a program."""
    told = [
        {"name": row.name, "passed": False, "reason": row.reason}
        if isinstance(row, Failure)
        else {
            "name": row.name,
            "measured": row.measured,
            "floor": row.floor,
            "unit": row.unit,
            "ratio": row.ratio,
            "rule": row.rule.value,
            "bar": row.bar,
            "wall": row.wall.measured if row.wall else None,
            "wall_floor": row.wall.floor if row.wall else None,
            "passed": row.passed,
            "note": row.note,
        }
        for row in rows
    ]
    whole = {"date": _date(), "machine": machine(), "quick": quick, "results": told}
    return json.dumps(whole, indent=2) + "\n"


def write_page(path: Path, rows: Sequence[Result | Failure], *, quick: bool) -> None:
    """Rewrite the table of the measurements."""
    write_between(path, BEGIN, END, _markdown(rows, quick=quick))


def write_between(path: Path, begin: str, end: str, body: str) -> None:
    """Rewrite what stands between the markers; a page without markers is written anew."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    whole = begin in old and end in old
    page = old if whole else TEMPLATE.read_text(encoding="utf-8")
    before, rest = page.split(begin, 1)
    after = rest.split(end, 1)[1]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{before}{begin}\n{body}{end}{after}", encoding="utf-8")


def _markdown(rows: Sequence[Result | Failure], *, quick: bool) -> str:
    kind = "quick run" if quick else "full run"
    lines = [f"{_date()}, {kind}. Machine: {machine()}.", ""]
    lines += [f"| {' | '.join(HEAD)} |", "|" + " --- |" * len(HEAD)]
    lines += [f"| {' | '.join(cells(row))} |" for row in rows]
    notes = [f"- {row.name}: {row.note}." for row in rows if isinstance(row, Result) and row.note]
    return "\n".join([*lines, "", *notes]) + "\n"


def _value(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}"


def _date() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())
