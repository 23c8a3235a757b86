"""`fleet status` for people."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from untildone.domain.plain_text import count_of, plain
from untildone.interfaces.output import echo

if TYPE_CHECKING:
    from untildone.commands.fleet.changes import Board, ChangeRow

MARKS = {
    "done": "✓",
    "running": "▶",
    "queued": "○",
    "waiting": "…",
    "paused": "‖",
    "stuck": "✗",
    "question": "?",
    "landing": "⚑",
    "cancelled": "–",
    "failed": "✗",
}
# A worker asks for work at least once a minute.
SILENT_S = 90.0
EVERY_S = 2.0
MOST_ROWS = 60


def page(board: "Board") -> str:
    """All changes, then the workers, then the sums."""
    return "\n".join(_rows(board))


def _rows(board: "Board") -> Iterator[str]:
    width = max((len(row.change_id) for row in board.changes[:MOST_ROWS]), default=0)
    for row in board.changes[:MOST_ROWS]:
        yield from _row(row, width)
    if len(board.changes) > MOST_ROWS:
        yield f"and {len(board.changes) - MOST_ROWS} more: `untildone fleet status --json`"
    if not board.changes:
        yield "No changes: `untildone fleet submit REPOSITORY CHANGE`"
    alive = [w for w in board.workers if w.seconds_ago < SILENT_S]
    for worker in alive:
        yield f"worker {worker.host}, process {worker.pid}: {count_of(worker.slots, 'slot')}"
    if not alive:
        yield "No worker has asked for stories of late: `untildone fleet worker --slots 2`"
    yield _sums(board)


def _row(row: "ChangeRow", width: int) -> Iterator[str]:
    counts = f"{row.stories['finished']}/{row.stories['total']}"
    cost = "" if row.cost_usd is None else f"  ${row.cost_usd:.2f}"
    at = f"  story {row.story_id}" if row.story_id else ""
    host = f"  {row.host}" if row.host else ""
    mark = MARKS.get(row.status, "·")
    name = f"{plain(row.change_id):<{width}}"
    yield f"{mark} {name}  {row.status:<9} {counts:>7}{cost}{at}{host}  {plain(row.repository)}"
    if row.reason:
        yield f"    {plain(row.reason)}"
    if row.status == "stuck" and row.kept:
        yield f"    attempts: {row.kept[-1]}"


def _sums(board: "Board") -> str:
    verified = sum(row.verified for row in board.changes)
    known = [row.cost_usd for row in board.changes if row.cost_usd is not None]
    finished = sum(row.stories["finished"] for row in board.changes)
    text = (
        f"{count_of(len(board.changes), 'change')}, {count_of(finished, 'story', 'stories')} done"
    )
    if known:
        text += f", ${sum(known):.2f}"
        text += f", ${sum(known) / verified:.2f} per verified story" if verified else ""
    return text


def watch(look: "Callable[[], Board]") -> None:
    """Again and again, until Ctrl-C."""
    try:
        while True:
            echo("\x1b[2J\x1b[H", nl=False)
            echo(page(look()))
            time.sleep(EVERY_S)  # noqa: TID251 - nothing else is waited for
    except KeyboardInterrupt:
        return
