"""`usage`: tokens and cost from the agents' own records and from the runs of this repository."""

from typing import Any

import click

from untildone.commands.look.usage import span
from untildone.commands.look.usage import usage as report
from untildone.interfaces.output import echo, echo_json

BY = ("day", "change", "agent", "model")
_HEADS = ("input", "output", "cache read", "cache write", "tokens", "cost")
_NOTE = """\b
Examples:
  untildone usage                               runs here, and agents
  untildone usage --by day --since 2026-01-01   days of the local time zone
  untildone usage --by agent --since 12h        since last night
  untildone usage --by day --timezone UTC --json
  untildone usage --by model --since 2026-01-31T08:00 --until 2026-01-31T18:00
  untildone usage --by change                   what each change has cost here

Read are the session files and databases of claude, codex, copilot, gemini, goose, kimi,
opencode, pi, qwen and vibe on this machine, each message once, and runs of this repository
whose agent has left no such record. Tokens are input plus output; what was read from or written
to a cache stands apart. The cost is the agent's own figure, else by the price list of this
release, else unknown: a cost with a + is at least so much.
"""


@click.command(epilog=_NOTE)
@click.option(
    "--since", default="", metavar="ISO", help="From this day or time on; 7d: the last seven days."
)
@click.option("--until", default="", metavar="ISO", help="Up to this time; a day as a whole.")
@click.option("--by", type=click.Choice(BY), default=None, help="One row for each.")
@click.option(
    "--timezone",
    default="",
    metavar="ZONE",
    help="The zone of days, and of times without one.  [default: this machine's]",
)
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def usage(since: str, until: str, by: str | None, timezone: str, as_json: bool) -> int:  # noqa: FBT001 - click
    """Tokens and cost of the agents on this machine and of the runs in this repository."""
    found = report(span(since, until, timezone), by or "")
    if as_json:
        echo_json(found)
        return 0
    for line in _lines(found):
        echo(line)
    for why in found["unread"]:
        echo(f"warning: not read: {why}", err=True)
    return 0


def _lines(found: dict[str, Any]) -> list[str]:
    if found["by"]:
        lines = _table(found["by"], [(row[found["by"]], row) for row in found["rows"]], found)
    else:
        runs = [(f"{row['change_id']} ({row['agent']})", row) for row in found["runs"]]
        agents = [(row["agent"], row) for row in found["agents"]]
        lines = _table("run", runs) + ([""] if runs else []) + _table("agent", agents, found)
    if not lines:
        return ["Nothing was recorded in that time, by agents on this machine or by runs here."]
    if found["estimated"]:
        lines.append("~ is an estimate by the growth of session files")
    if found["unpriced_models"]:
        lines.append(f"no price is known of: {', '.join(found['unpriced_models'])}")
    return [*lines, f"prices of {found['prices_of']} where the agent says none"]


def _table(
    name: str, rows: list[tuple[str, dict[str, Any]]], total: dict[str, Any] | None = None
) -> list[str]:
    if not rows:
        return []
    cells = [(name, *_HEADS)] + [(label, *_cells(row)) for label, row in rows]
    if total:
        cells.append(("all", *_cells(total)))
    widths = [max(len(row[k]) for row in cells) for k in range(len(_HEADS) + 1)]
    return [
        "  ".join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        ).rstrip()
        for row in cells
    ]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    names = ("input", "output", "cache_read", "cache_write", "total")
    used = [row[f"{name}_tokens"] for name in names]
    counts = ["unknown" if count is None else f"{count:,}" for count in used]
    mark = "~" if row["estimated"] else ""
    return (*counts[:-1], mark + counts[-1], _cost(row))


def _cost(row: dict[str, Any]) -> str:
    if row["cost_usd"] is None:
        known = row["total_tokens"] is not None and not row["unpriced_models"]
        return "$0.00" if known else "unknown"
    return f"${row['cost_usd']:.2f}{'+' if row['unpriced_models'] else ''}"
