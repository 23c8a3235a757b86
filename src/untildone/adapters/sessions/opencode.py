"""opencode: messages in `opencode.db`.

A message of the model has its tokens and cost as JSON.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from untildone.adapters.agents.reading.json_lines import string, table
from untildone.adapters.sessions.database import roots, rows
from untildone.adapters.sessions.entries import Counts, from_epoch, whole
from untildone.domain.costs.call_prices import Spent

_SESSIONS = "SELECT id, parent_id, directory FROM session"
_MESSAGES = "SELECT id, session_id, time_created, data FROM message ORDER BY time_created, id"


def entries(path: Path) -> Iterator[Spent]:
    """Every message of the model."""
    known = {row["id"]: row for row in rows(path, _SESSIONS)}
    top = roots({name: row["parent_id"] or "" for name, row in known.items()})
    for row in rows(path, _MESSAGES):
        session = row["session_id"]
        try:
            data = table(json.loads(row["data"]))
            counts = _counts(data)
        except (ValueError, RecursionError):
            continue
        if data.get("role") != "assistant":
            continue
        yield Spent(
            from_epoch(row["time_created"] / 1000),
            "opencode",
            top.get(session, session),
            counts.usage(string(data.get("modelID")), data.get("cost")),
            cwd=known[session]["directory"] if session in known else "",
            message_id=row["id"],
            request_id=session,
        )


def _counts(data: object) -> Counts:
    used = table(table(data).get("tokens"))
    cache = table(used.get("cache"))
    reasoning = whole(used.get("reasoning"))
    return Counts(
        whole(used.get("input")),
        whole(used.get("output")) + reasoning,
        whole(cache.get("read")),
        whole(cache.get("write")),
        reasoning,
    )
