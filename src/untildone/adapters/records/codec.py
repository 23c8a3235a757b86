"""Values of the domain as plain JSON data and back."""

from datetime import datetime
from typing import TypeVar

from msgspec import convert, to_builtins
from msgspec.structs import replace

from untildone.domain.run.fact import StoriesLoaded

T = TypeVar("T")

# Fields that a release after 0.1.0 added, by class, with their defaults as plain data: they are
# written only with another value, so that what an earlier release wrote is written the same again.
ADDED: dict[str, dict[str, object]] = {
    "StoriesLoaded": {"unfinished": "", "unasked": 0, "renamed": []},
    "ChecksTried": {"counted": [], "cannot_start": [], "changed": [], "made": []},
    "Verified": {"counted": [], "checked": False},
    "Saved": {"paths": [], "unchanged": False, "own_tests": []},
    "Plan": {
        "trouble_budgets": [],
        "terms": None,
        "agent_args": [],
        "agent_env": [],
        "permissions_hold": [],
        "lanes": 1,
        "only": [],
        "with_deps": False,
        "optimistic": False,
        "runner_settings": [],
        "protect_tests": False,
        "slots": "clone",
        "lane_setup": "",
        "check_slots": 0,
        "origins": {},
        "commit_message": "checkpoint: {id}",
        "regenerate": [],
        "notify": [],
    },
    "AttemptStarted": {"base": "", "reserved": {"tokens": 0, "cost_usd": 0.0}},
    "StepFailed": {"lane": 0},
    "Reached": {"unknown": False},
}
_AS_IS = frozenset({str, int, float, bool, type(None)})  # nearly all: not worth a call
# Where a fact holds such a class.
HELD = {"plan": "Plan", "reached": "Reached"}


def encode(value: object) -> object:
    # A story book is read again by every process; in the journal it would make lines of megabytes.
    without_book = isinstance(value, StoriesLoaded)
    if isinstance(value, StoriesLoaded):
        value = replace(value, book=None)
    plain = _stamped(to_builtins(value, builtin_types=(datetime,), str_keys=True))
    if isinstance(plain, dict):
        if without_book:
            del plain["book"]
        _leave_out(plain, type(value).__name__)
        for name, kind in HELD.items():
            if isinstance(held := plain.get(name), dict):
                _leave_out(held, kind)
    return plain


def _leave_out(plain: dict[str, object], kind: str) -> None:
    for name, default in ADDED.get(kind, {}).items():
        if plain[name] == default:
            del plain[name]


def stamp(at: datetime) -> str:
    """ISO 8601 with milliseconds and the zone."""
    return at.isoformat(timespec="milliseconds")


def decode(kind: type[T], data: object) -> T:
    """Plain JSON data as a value of this type; fields that a later release added are skipped."""
    return convert(data, kind)


def _stamped(plain: object) -> object:
    # msgspec would write microseconds, and a Z for UTC: other lines than earlier releases wrote.
    if isinstance(plain, datetime):
        return stamp(plain)
    if isinstance(plain, dict):
        return {key: v if type(v) in _AS_IS else _stamped(v) for key, v in plain.items()}
    if isinstance(plain, list | tuple):
        return [v if type(v) in _AS_IS else _stamped(v) for v in plain]
    return plain
