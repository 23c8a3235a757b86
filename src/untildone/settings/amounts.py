"""Amounts as people write them: with a unit, or a number of the usual one."""

import math
from collections.abc import Callable

from untildone.domain.costs.budget import minutes
from untildone.domain.regex import regex

MINUTES_OF_A_DAY = 24 * 60
AUTO_LANES = 0
_SIZE = regex(r"(\d+(?:\.\d*)?|\.\d+)\s*(k|m|g|t|)i?b?")
_MEBIBYTES = {"": 1 / 1024**2, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _minutes(text: str) -> float | None:
    number = _number(text)
    return minutes(text) if number is None else number


def _mebibytes(text: str) -> float | None:
    number, found = _number(text), _SIZE.fullmatch(text.strip().lower())
    if number is not None or found is None:
        return number
    return float(found[1]) * _MEBIBYTES[found[2]]


def _days(text: str) -> int | None:
    number, found = _number(text), minutes(text)
    days = found / MINUTES_OF_A_DAY if number is None and found is not None else number
    whole = days is not None and math.isfinite(days) and days == int(days)
    return int(days) if whole and days is not None else None


def _lanes(text: str) -> int | None:
    return AUTO_LANES if text == "auto" else int(text) or None if text.isdecimal() else None


READ: dict[str, Callable[[str], float | None]] = {
    "minutes": _minutes,
    "MiB": _mebibytes,
    "days": _days,
    "lanes": _lanes,
}
EXAMPLES = {
    "minutes": "a duration such as 30m or 1h30m (a number: minutes)",
    "MiB": "a size such as 200M or 1G (a number: MiB)",
    "days": "whole days such as 30 or 4 weeks",
    "lanes": "a whole number from 1 to 16, or auto",
}
