"""Codex: `sessions/YEAR/MONTH/DAY/rollout-TIME-THREAD.jsonl`.

A usage record per response since 0.166, before that running totals with the last share.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from untildone.adapters.agents.reading.json_lines import string, table
from untildone.adapters.sessions.entries import Counts, moment, objects, whole
from untildone.domain.costs.call_prices import Spent

_MARKS = (b"session_meta", b"turn_context", b"token_count", b"token_usage_record")


def entries(path: Path) -> Iterator[Spent]:
    """Usage records where there are some, else the shares of the running totals."""
    about: dict[str, str] = {"id": path.stem[-36:]}
    exact: list[Spent] = []
    shares: list[Spent] = []
    for event in objects(path, *_MARKS):
        payload = table(event.get("payload"))
        kind = event.get("type")
        if kind in ("session_meta", "turn_context"):
            told = {name: string(payload.get(name)) for name in ("id", "cwd", "model")}
            about |= {name: text for name, text in told.items() if text}
            continue
        try:
            if kind == "token_usage_record":
                exact.append(_exact(event, payload, about))
            elif payload.get("type") == "token_count" and payload.get("info"):
                shares.append(_share(event, table(payload.get("info")), about))
        except ValueError:
            continue
    yield from exact or shares


def _exact(
    event: Mapping[str, object], payload: Mapping[str, object], about: Mapping[str, str]
) -> Spent:
    return Spent(
        moment(event.get("timestamp")),
        "codex",
        string(payload.get("session_id")) or about["id"],
        _counts(table(payload.get("usage"))).usage(about.get("model", "")),
        cwd=about.get("cwd", ""),
        message_id=string(payload.get("response_id")),
        request_id=string(payload.get("thread_id")),
    )


def _share(
    event: Mapping[str, object], info: Mapping[str, object], about: Mapping[str, str]
) -> Spent:
    """The same totals are told more than once; they name the response."""
    totals = table(info.get("total_token_usage"))
    return Spent(
        moment(event.get("timestamp")),
        "codex",
        about["id"],
        _counts(table(info.get("last_token_usage"))).usage(about.get("model", "")),
        cwd=about.get("cwd", ""),
        message_id="/".join(str(totals[name]) for name in sorted(totals)),
        request_id=about["id"],
    )


def _counts(used: Mapping[str, object]) -> Counts:
    """What was read from and written to the cache is part of Codex's input."""
    cached = whole(used.get("cached_input_tokens"))
    written = whole(used.get("cache_write_input_tokens"))
    return Counts(
        whole(used.get("input_tokens")) - cached - written,
        whole(used.get("output_tokens")),
        cached,
        written,
        whole(used.get("reasoning_output_tokens")),
    )
