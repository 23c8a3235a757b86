"""Text that is safe to show: no terminal escapes, no control characters, no bidi controls."""

import re

from untildone.domain.regex import regex

# Strings (OSC, DCS, SOS, PM, APC) end at BEL, ST or the next escape; at a line's end too, so that
# one left open hides no more than its line.
_UNSAFE = regex(
    r"""
      (?: \x1b\[ | \x9b ) [0-?]* [\x20-/]* [@-~]?
    | (?: \x1b[\]PX^_] | [\x90\x98\x9d-\x9f] ) [^\x07\x1b\x9c\n]* (?: \x07 | \x1b\\ | \x9c )?
    | \x1b [\x20-/]* [0-~]?
    | [\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+
    """,
    re.VERBOSE,
)
# Half of a pair cannot be encoded: printing it would raise.
_SURROGATE = regex("[\ud800-\udfff]")


def plain(text: str) -> str:
    """The text without anything a terminal would act on; newlines and tabs stay."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return _SURROGATE.sub("\ufffd", _UNSAFE.sub("", text))


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, head and tail kept, with the cut stated."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def count_of(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 file, 2 files."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def amount(size: object) -> str:
    """A number of bytes for people."""
    if not isinstance(size, int):
        return "an unknown number of bytes"
    for unit, bytes_of in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if size >= bytes_of:
            return f"{size / bytes_of:.1f}".removesuffix(".0") + f" {unit}"
    return f"{size} bytes"
