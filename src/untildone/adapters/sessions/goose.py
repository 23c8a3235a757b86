"""goose: a ledger of model calls in `sessions.db`.

A row per model call; what was read from and written to the cache is part of the input.
"""

from collections.abc import Iterator
from pathlib import Path

from untildone.adapters.sessions.database import roots, rows
from untildone.adapters.sessions.entries import Counts, from_epoch
from untildone.domain.costs.call_prices import Spent

_SESSIONS = "SELECT id, parent_session_id, working_dir FROM sessions"
_CALLS = """
SELECT id, session_id, created_timestamp, model, cost, input_tokens, output_tokens,
       cache_read_tokens, cache_write_tokens
FROM usage_ledger ORDER BY id
"""


def entries(path: Path) -> Iterator[Spent]:
    """Every call of a model."""
    known = {row["id"]: row for row in rows(path, _SESSIONS)}
    top = roots({name: row["parent_session_id"] or "" for name, row in known.items()})
    for row in rows(path, _CALLS):
        session = row["session_id"]
        cached, written = row["cache_read_tokens"] or 0, row["cache_write_tokens"] or 0
        counts = Counts(
            (row["input_tokens"] or 0) - cached - written,
            row["output_tokens"] or 0,
            cached,
            written,
        )
        yield Spent(
            from_epoch(row["created_timestamp"]),
            "goose",
            top.get(session, session),
            counts.usage(row["model"] or "", row["cost"]),
            cwd=known[session]["working_dir"] if session in known else "",
            message_id=str(row["id"]),
            request_id=session,
        )
