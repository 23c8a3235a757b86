"""Secrets redacted, byte for byte, so that everything else stays where it was."""

import re
from collections.abc import Callable, Mapping

from untildone.adapters.checkpoints.guard.secrets_and_sizes import CONTENTS

SHORTEST = 8
_GAPS = (b"", b"_", b"-")
_NAMED = re.compile(r"key|token|secret|passw|credential|auth", re.IGNORECASE)
# Each shape behind the words of which one must be there, in lower case: looking for those is cheap.
_SHAPES = (
    *(((literal.lower(),), shape) for literal, shape, _ in CONTENTS),
    ((b"bearer", b"basic"), rb"(?i:bearer|basic)\s+(?P<hide>[\w.~+/=-]{16,})"),
    ((b"://",), rb"://[^/\s:@\"]+:(?P<hide>[^/\s@\"]+)@"),
    (
        (
            *(b"apikey", b"api_key", b"api-key", b"secret", b"passw"),
            *(kind + gap + b"token" for kind in (b"access", b"auth", b"refresh") for gap in _GAPS),
        ),
        rb"(?i:api[_-]?key|secret|passw(?:or)?d|(?:access|auth|refresh)[_-]?token)"
        rb"[\\\"']*\s*[:=]\s*[\\\"']*(?P<hide>[^\s\"'\\,;]{8,})",
    ),
)


def redactor(environ: Mapping[str, str]) -> Callable[[bytes], bytes]:
    """A function that redacts what looks like a secret, and the secrets of this environment."""
    known = {
        value.encode("utf-8", "surrogateescape")
        for name, value in environ.items()
        if _NAMED.search(name) and len(value) >= SHORTEST
    }
    shapes = [(words, re.compile(shape)) for words, shape in _SHAPES]

    def redacted(data: bytes) -> bytes:
        for value in known:
            data = data.replace(value, b"*" * len(value))
        lower = data.lower()
        for words, shape in shapes:
            if any(word in lower for word in words):
                data = shape.sub(_hidden, data)
        return data

    return redacted


def _hidden(found: re.Match[bytes]) -> bytes:
    group = "hide" if "hide" in found.re.groupindex else 0
    start, end = found.start(group) - found.start(), found.end(group) - found.start()
    return found[0][:start] + b"*" * (end - start) + found[0][end:]
