"""GitHub Copilot CLI: `session-state/SESSION/events.jsonl`.

A head with the folder, then a usage record for every call of the model.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from untildone.adapters.agents.reading.json_lines import string, table
from untildone.adapters.sessions.entries import Counts, moment, objects, whole
from untildone.domain.costs.call_prices import Spent


def entries(path: Path) -> Iterator[Spent]:
    """Every call of the model, those of sub-agents too."""
    session, folder = path.parent.name, ""
    for event in objects(path, b'"session.start"', b'"session.usage_record"'):
        data = table(event.get("data"))
        if event.get("type") == "session.start":
            folder = string(table(data.get("context")).get("cwd"))
        if event.get("type") != "session.usage_record":
            continue
        used = table(data.get("usage"))
        with contextlib.suppress(ValueError):
            yield Spent(
                moment(event.get("timestamp")),
                "copilot",
                session,
                _counts(used).usage(string(used.get("model"))),
                cwd=folder,
                message_id=string(event.get("id")),
                request_id=session,
            )


def _counts(used: Mapping[str, object]) -> Counts:
    """What was read from and written to the cache is part of its input."""
    cached, written = whole(used.get("cacheReadTokens")), whole(used.get("cacheWriteTokens"))
    return Counts(
        whole(used.get("inputTokens")) - cached - written,
        whole(used.get("outputTokens")),
        cached,
        written,
        whole(used.get("reasoningTokens")),
    )
