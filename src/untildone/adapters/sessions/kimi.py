"""Kimi Code: `sessions/FOLDER/SESSION/agents/AGENT/wire.jsonl`; the folder is in `state.json`.

A usage record for every call of the model, after a request that names the model.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from untildone.adapters.agents.reading.json_lines import parsed, string, table
from untildone.adapters.sessions.entries import Counts, from_epoch, objects, whole
from untildone.domain.costs.call_prices import Spent
from untildone.plain_files import read_text

_COUNTS = ("inputOther", "output", "inputCacheRead", "inputCacheCreation")


def entries(path: Path) -> Iterator[Spent]:
    """Every call of the model, in the file of the agent that made it."""
    session, model, folder = path.parents[2].name, "", _folder(path.parents[2] / "state.json")
    for event in objects(path, b'"llm.request"', b'"usage.record"'):
        if event.get("type") == "llm.request":
            model = string(event.get("model"))
        if event.get("type") != "usage.record":
            continue
        used = table(event.get("usage"))
        with contextlib.suppress(ValueError):
            counts = [whole(used.get(name)) for name in _COUNTS]
            yield Spent(
                from_epoch(whole(event.get("time")) / 1000),
                "kimi",
                session,
                Counts(*counts).usage(model or string(event.get("model"))),
                cwd=folder,
                message_id="/".join(str(number) for number in (event.get("time"), *counts)),
                request_id=session,
            )


def _folder(state: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return string(parsed(read_text(state).encode()).get("cwd"))
    return ""
