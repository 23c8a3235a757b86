"""Mistral Vibe: `logs/session/unified/SESSION/journal/*.jsonl`; folder and model in `meta.json`.

Every answer of the model is an input of its loop, with the tokens; its sums leave some out.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from untildone.adapters.agents.reading.json_lines import parsed, string, table
from untildone.adapters.sessions.entries import Counts, from_epoch, objects, whole
from untildone.domain.costs.call_prices import Spent
from untildone.plain_files import read_text

_COUNTS = ("input_tokens", "output_tokens", "cached_input_tokens")


def entries(path: Path) -> Iterator[Spent]:
    """Every answer of the model in one conversation."""
    session, about = path.parents[1].name, _about(path.parents[1] / "meta.json")
    model = string(table(about.get("config")).get("model_name"))
    folder = string(table(about.get("environment")).get("working_directory"))
    for event in objects(path, b'"core_input"'):
        given = table(table(event.get("payload")).get("input"))
        command = table(given.get("command"))
        used = table(table(command.get("result")).get("usage"))
        if event.get("type") != "core_input" or not used:
            continue
        with contextlib.suppress(ValueError):
            sent, output, read = (whole(used.get(name)) for name in _COUNTS)
            counts = Counts(sent - read, output, read)
            yield Spent(
                from_epoch(whole(table(given.get("determinism")).get("time_unix_ms")) / 1000),
                "vibe",
                session,
                counts.usage(model),
                cwd=folder,
                message_id=string(command.get("action_id")),
                request_id=session,
            )


def _about(meta: Path) -> Mapping[str, object]:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return parsed(read_text(meta).encode())
    return {}
