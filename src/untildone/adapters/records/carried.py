"""A run's journal as it travels: without sessions, secrets and paths of the machine it ran on."""

import json
from collections.abc import Callable, Iterable, Mapping

# Where an agent's own conversation is named: it is in the files of that machine.
SESSIONS = {"AttemptStarted": "resumes", "AttemptEnded": "session"}


def packed(
    lines: Iterable[bytes], paths: Mapping[str, str], hide: Callable[[bytes], bytes]
) -> bytes:
    """The journal for another machine: `paths` are this machine's, each with what stands for it."""
    rows = b"".join(map(_without_session, lines))
    return hide(_replaced(rows, paths))


def unpacked(data: bytes, paths: Mapping[str, str]) -> bytes:
    """The same with the paths of this machine; `paths` as for `packed`."""
    return _replaced(data, {mark: path for path, mark in paths.items()})


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
