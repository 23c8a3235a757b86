"""Whether a story goes round in circles: the same failure again, or the same files again."""

import re

from msgspec import Struct

from untildone.domain.plain_text import plain
from untildone.domain.regex import regex

# Identical failures in a row: after so many the prompt asks for another way,
ANOTHER_WAY = 2
# and after so many somebody else is asked: the next rung of the ladder, or the person.
STUCK = 3
REMEMBERED = 12

# What differs between two runs of the same failure; the first that fits takes its part.
_PASSING = regex(
    r"""
      (?: /private )? / (?: tmp | var/tmp | var/folders | dev/shm ) (?: / [^\s'"`:,;)]* )?
    | \d{4}-\d\d-\d\d (?: [T\x20] \d\d:\d\d (?: :\d\d )? (?: [.,]\d+ )? Z? )?  # a moment
    | \b [0-9a-f]{8} (?: -[0-9a-f]{4} ){3} -[0-9a-f]{12} \b  # a made-up name
    | \b 0x [0-9a-f]+ \b  # an address
    | \b (?= [0-9a-f]* [0-9] ) [0-9a-f]{7,64} \b  # a commit and the like
    | \d+ (?: [.,:]\d+ )* (?: \x20? (?: [nµum]?s | sec(?:ond)?s? | m | min(?:ute)?s? | h ) \b )?
    """,
    re.VERBOSE | re.IGNORECASE,
)


class Tried(Struct, frozen=True):
    """A failed attempt as later ones should know it.

    `reason` is empty unless it was given to the next attempt, `tree` unless files were changed.
    """

    attempt: int
    outcome: str
    fingerprint: str
    reason: str = ""
    saved_ref: str = ""
    tree: str = ""
    rung: int = 0


def fingerprint(outcome: str, reason: str) -> str:
    """The same for the same failure: what only time, place or chance put into it is left out."""
    from zlib import crc32  # noqa: PLC0415 - only a failure needs it

    essence = " ".join(_PASSING.sub("#", plain(reason)).lower().split())
    return f"{outcome}-{crc32(essence.encode('utf-8', 'replace')):08x}"


def repeats(tried: tuple[Tried, ...]) -> int:
    """How often in a row the story has failed the same way by now; 0 if it never failed.

    The files of any earlier attempt once more are the same failure, whatever the reason says.
    """
    count = min(1, len(tried))
    for k in range(len(tried) - 1, 0, -1):
        seen = {earlier.tree for earlier in tried[:k]}
        same_files = tried[k].tree and tried[k].tree in seen
        if not same_files and tried[k].fingerprint != tried[k - 1].fingerprint:
            break
        count += 1
    return count


def next_rung(tried: tuple[Tried, ...], rungs: int, *, last: bool) -> int:
    """Who takes the next attempt: one rung up after the same failure again and again.

    A story is not given up before a second rung has tried: that is for the last attempt.
    """
    if not tried:
        return 0
    now = tried[-1].rung
    climbs = repeats(tried) >= STUCK or (last and now == 0)
    return min(now + climbs, rungs - 1)


def gives_up(tried: tuple[Tried, ...], rungs: int, *, since_renewal: int) -> bool:
    """Whether only a person can help: the same failure again and again, and no rung is left.

    After `resume` or `retry` the failures are counted anew.
    """
    again = min(repeats(tried), since_renewal) >= STUCK
    return again and tried[-1].rung >= rungs - 1
