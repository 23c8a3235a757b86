"""A run's journal as it travels: without sessions, secrets and paths of the machine it ran on."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping

from untildone.adapters.records.journal import KINDS, fact_of, parsed
from untildone.domain.run.fact import AskedAgain, Resumed, Started

# Where an agent's own conversation is named: it is in the files of that machine.
SESSIONS = {"AttemptStarted": "resumes", "AttemptEnded": "session"}
REVISIONS = {
    *("commit", "commits", "checkpoint", "tip", "base", "candidate", "tree", "branch"),
    *("saved_ref", "backup_ref", "archived_ref"),
}


def packed(
    lines: Iterable[bytes], paths: Mapping[str, str], hide: Callable[[bytes], bytes]
) -> bytes:
    """The journal for another machine: `paths` are this machine's, each with what stands for it."""
    rows = b"".join(map(_without_session, lines))
    return hide(_replaced(rows, paths))


def unpacked(data: bytes, paths: Mapping[str, str]) -> bytes:
    """The same with the paths of this machine; `paths` as for `packed`."""
    return _replaced(data, {mark: path for path, mark in paths.items()})


def refusal(data: bytes, change: str, run_id: str) -> str:
    """Why this is not the journal of that run; empty if it is. Anybody may have written it."""
    rows = (_refused(row, change, run_id) for row in parsed(data.split(b"\n")))
    return next(filter(None, rows), "")


def _refused(row: dict[str, object], change: str, run_id: str) -> str:
    fact = fact_of(row)
    if fact is None and row.get("fact") in KINDS:
        return f"a line of it cannot be read: {row['fact']}"
    match fact:
        case Started(plan=plan) | Resumed(plan=plan) | AskedAgain(plan=plan) if (
            plan.change_id,
            plan.run_id,
        ) != (*(change, run_id),):
            return "it is that of another run"
    odd = next((text for text in _revisions(row.get("data")) if text.startswith("-")), "")
    return f"this is no commit and no branch: {odd}" if odd else ""


def _revisions(data: object, name: str = "") -> Iterator[str]:
    """What git will be asked for under these names."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _revisions(value, key)
    elif isinstance(data, list):
        for value in data:
            yield from _revisions(value, name)
    elif isinstance(data, str) and name in REVISIONS:
        yield data


def with_learnings(data: bytes, store: str) -> bytes:
    """The journal with this file for learnings: the loop writes there, so nobody else names it."""
    rows = data.split(b"\n")
    return b"\n".join(_with_learnings(row, store) if b'"learnings"' in row else row for row in rows)


def _with_learnings(line: bytes, store: str) -> bytes:
    try:
        row = json.loads(line)
        plan = row["data"]["plan"]
        if plan["learnings"] in ("", store):
            return line
        plan["learnings"] = store
    except (ValueError, KeyError, TypeError, RecursionError):
        return line
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "replace")


def _without_session(line: bytes) -> bytes:
    if not any(b'"fact": "%s"' % name.encode() in line for name in SESSIONS):
        return line
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return b""  # torn by a power cut; the journal's reader skips it too
    row["data"][SESSIONS[row["fact"]]] = None
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _replaced(data: bytes, paths: Mapping[str, str]) -> bytes:
    for old in sorted(paths, key=len, reverse=True):  # a folder after what is in it
        if old:
            data = data.replace(_in_json(old), _in_json(paths[old]))
    return data


def _in_json(path: str) -> bytes:
    return json.dumps(path, ensure_ascii=False)[1:-1].encode("utf-8", "replace")
