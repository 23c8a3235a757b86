"""pi: `sessions/FOLDER/TIME_SESSION.jsonl`.

A head with the folder, then one object per message with tokens and cost.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from untildone.adapters.agents.reading.json_lines import string, table
from untildone.adapters.sessions.entries import Counts, moment, objects, whole
from untildone.domain.costs.call_prices import Spent

_COUNTS = ("input", "output", "cacheRead", "cacheWrite")


def entries(path: Path) -> Iterator[Spent]:
    """Every message of the model."""
    session, folder = path.stem.rpartition("_")[2], ""
    for event in objects(path, b'"session"', b'"usage"'):
        if event.get("type") == "session":
            session = string(event.get("id")) or session
            folder = string(event.get("cwd"))
        message = table(event.get("message"))
        used = message.get("usage")
        if not isinstance(used, dict) or message.get("role") != "assistant":
            continue
        with contextlib.suppress(ValueError):
            counts = [whole(used.get(name)) for name in _COUNTS]
            yield Spent(
                moment(event.get("timestamp")),
                "pi",
                session,
                Counts(*counts).usage(
                    string(message.get("model")), table(used.get("cost")).get("total")
                ),
                cwd=folder,
                message_id=string(event.get("id")),
                request_id=string(message.get("responseId")) or session,
            )
