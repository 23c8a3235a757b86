"""Qwen Code: `projects/FOLDER/chats/SESSION.jsonl`.

One object per message.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from untildone.adapters.agents.reading.json_lines import string, table
from untildone.adapters.sessions.entries import Counts, moment, objects, whole
from untildone.domain.costs.call_prices import Spent


def entries(path: Path) -> Iterator[Spent]:
    """Every message of the model."""
    for event in objects(path, b'"usageMetadata"'):
        used = event.get("usageMetadata")
        if not isinstance(used, dict) or event.get("type") != "assistant":
            continue
        with contextlib.suppress(ValueError):
            yield Spent(
                moment(event.get("timestamp")),
                "qwen",
                string(event.get("sessionId")) or path.stem,
                _counts(table(used)).usage(string(event.get("model"))),
                cwd=string(event.get("cwd")),
                message_id=string(event.get("uuid")),
                request_id=string(event.get("sessionId")),
            )


def _counts(used: Mapping[str, object]) -> Counts:
    """Cached tokens are part of the prompt, thoughts are part of the answer."""
    cached = whole(used.get("cachedContentTokenCount"))
    return Counts(
        whole(used.get("promptTokenCount")) - cached,
        whole(used.get("candidatesTokenCount")),
        cached,
        reasoning=whole(used.get("thoughtsTokenCount")),
    )
