"""Gemini CLI: `tmp/PROJECT/chats/session-*.jsonl`; the folder's path is beside it or a digest.

An append log: a message is written again when its tool calls are done.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from untildone.adapters.agents.reading.json_lines import string, table
from untildone.adapters.sessions.entries import Counts, moment, objects, whole
from untildone.domain.costs.call_prices import Spent
from untildone.plain_files import read_text


def entries(path: Path) -> Iterator[Spent]:
    """Every message of the model."""
    session, folder = path.stem, _folder(path)
    for event in objects(path, b'"projectHash"', b'"tokens"'):
        if digest := string(event.get("projectHash")):
            session = string(event.get("sessionId")) or session
            folder = folder or f"sha256:{digest}"
        if not isinstance(event.get("tokens"), dict):
            continue
        with contextlib.suppress(ValueError):
            yield Spent(
                moment(event.get("timestamp")),
                "gemini",
                session,
                _counts(table(event.get("tokens"))).usage(string(event.get("model"))),
                cwd=folder,
                message_id=string(event.get("id")),
                request_id=session,
            )


def _folder(path: Path) -> str:
    for above in path.parents[:3]:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return read_text(above / ".project_root").strip()
    return ""


def _counts(used: Mapping[str, object]) -> Counts:
    """Cached tokens are part of the input, thoughts are not part of the output."""
    cached = whole(used.get("cached"))
    thoughts = whole(used.get("thoughts"))
    return Counts(
        whole(used.get("input")) - cached + whole(used.get("tool")),
        whole(used.get("output")) + thoughts,
        cached,
        reasoning=thoughts,
    )
