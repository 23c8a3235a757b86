"""Claude Code: `projects/FOLDER/SESSION.jsonl`, sub-agents in `SESSION/subagents/`.

One object per line; a message is repeated on every line that has a block of it.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from untildone.adapters.agents.reading.json_lines import string, table, tables
from untildone.adapters.sessions.entries import Counts, moment, objects, whole
from untildone.domain.costs.call_prices import Spent

_NEVER_EMPTY = ("sessionId", "requestId", "costUSD", "version")
_COUNTS = (
    *("input_tokens", "output_tokens"),
    *("cache_read_input_tokens", "cache_creation_input_tokens", "speed"),
)


def entries(path: Path) -> Iterator[Spent]:
    """Every line with usage numbers; what a tool shows of a sub-agent is wrapped."""
    session = path.parts[-3] if path.parent.name == "subagents" else path.stem
    for event in objects(path, b'"usage"'):
        wrapped = table(table(event.get("data")).get("message"))
        told = {"sessionId": event.get("sessionId", session)}
        try:
            yield from _entries({**told, **(wrapped or event)})
        except (ValueError, TypeError, KeyError):
            continue  # an entry with a missing or odd value counts nothing


def _entries(event: Mapping[str, object]) -> Iterator[Spent]:
    message = table(event["message"])
    used = table(message["usage"])
    _refuse_empty_values(event, message, used)
    model = string(message.get("model"))
    made = "" if model == "<synthetic>" else model
    main = Spent(
        moment(event.get("timestamp")),
        "claude",
        string(event.get("sessionId")),
        _counts(used).usage(made),
        cwd=string(event.get("cwd")),
        message_id=string(message.get("id")),
        request_id=string(event.get("requestId")),
        cache_write_1h=whole(table(used.get("cache_creation")).get("ephemeral_1h_input_tokens")),
        side=event.get("isSidechain") is True,
        fast=used.get("speed") == "fast",
    )
    said = event.get("costUSD")
    if isinstance(said, int | float):
        yield replace(main, usage=replace(main.usage, cost_usd=float(said)))
    else:
        yield main
    for n, other in enumerate(tables(used.get("iterations"))):
        if other.get("type") == "advisor_message" and string(other.get("model")):
            advice = _counts(other).usage(string(other.get("model")))
            name = main.message_id and f"{main.message_id}:advisor:{n}"
            yield replace(main, usage=advice, message_id=name, cache_write_1h=0, fast=False)


def _refuse_empty_values(
    event: Mapping[str, object], message: Mapping[str, object], used: Mapping[str, object]
) -> None:
    empty = [name for name in _NEVER_EMPTY if event.get(name, name) in (None, "")]
    empty += [name for name in ("id", "model") if message.get(name, name) in (None, "")]
    empty += [name for name in _COUNTS if used.get(name, 0) is None]
    if empty:
        raise ValueError(empty)


def _counts(used: Mapping[str, object]) -> Counts:
    """The parts of the cache writes are believed before their sum."""
    parts = used.get("cache_creation")
    written = whole(used.get("cache_creation_input_tokens"))
    if isinstance(parts, dict):
        named_parts = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
        written = sum(whole(parts.get(name)) for name in named_parts)
    details = table(used.get("output_tokens_details"))
    return Counts(
        whole(used["input_tokens"]),
        whole(used["output_tokens"]),
        whole(used.get("cache_read_input_tokens")),
        written,
        whole(details.get("thinking_tokens")),
    )
