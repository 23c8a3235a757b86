"""What saved work may go: runs that ended long ago, and the refs that were stored for them."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from untildone.domain.regex import regex

PREFIX = "refs/ralph/"
# Refs whose commits are ours and name their run, with the number of parts after the change.
OURS = {"attempts": 2, "archive": 2, "work": 0}
# Git keeps whole seconds.
SECOND = timedelta(seconds=1)
_RUN_ID = regex(r"(\d{8}-\d{6})-[0-9a-f]{4}")
_STAMP = regex(r"(\d{8}T\d{12})(-.*)?")


class Recorded(Struct, frozen=True):
    """A run with a journal; `last_sign` is when it wrote its last line."""

    run_id: str
    change: str
    started: datetime
    last_sign: datetime
    resumable: bool


class SavedRef(Struct, frozen=True):
    """A ref that keeps work safe; `run_id` is what its commit says, or empty."""

    name: str
    commit: str
    committed: datetime
    run_id: str = ""


class Rule(Struct, frozen=True):
    """What a person wants to be rid of: all that was stored before a time, of one change or all."""

    before: datetime
    change: str = ""
    newest_too: bool = False


class Label(Struct, frozen=True):
    """What a ref's name and commit tell: its change, its run if that is known, when it was made."""

    kind: str
    change: str
    run_id: str
    stored: datetime


def old_runs(runs: Iterable[Recorded], rule: Rule) -> tuple[Recorded, ...]:
    """Ended runs that may go; the newest ended one of a change stays unless it is asked for."""
    ended: dict[str, list[Recorded]] = {}
    for run in sorted(runs, key=lambda run: run.run_id):
        if not run.resumable and rule.change in ("", run.change):
            ended.setdefault(run.change, []).append(run)
    listed = [rows if rule.newest_too else rows[:-1] for rows in ended.values()]
    return tuple(run for rows in listed for run in rows if run.last_sign <= rule.before)


def old_refs(
    refs: Iterable[SavedRef], runs: Sequence[Recorded], rule: Rule
) -> tuple[SavedRef, ...]:
    """Refs that may go: of a run that goes, or of one whose record is gone already."""
    going = {run.run_id for run in old_runs(runs, rule)}
    known = {run.run_id for run in runs}
    rows: list[tuple[SavedRef, Label, str]] = []
    staying: set[str] = set()
    for ref in refs:
        label = label_of(ref)
        if label is None:
            continue
        owner = _owner(label, runs)
        ownerless = owner not in known and rule.change in ("", label.change)
        if label.stored <= rule.before and (owner in going or ownerless):
            rows.append((ref, label, owner))
        else:
            staying.add(label.change)
    return tuple(
        ref for ref, label, owner in rows if owner in known or not _is_moved(label, staying)
    )


def _is_moved(label: Label, changes: set[str]) -> bool:
    # A moved tip may be older than the run that stored it: without a record it goes with the last.
    return label.kind == "moved" and label.change in changes


def label_of(ref: SavedRef) -> Label | None:
    """What is known about a ref of ours; None for one that we cannot place."""
    kind, *parts = ref.name.removeprefix(PREFIX).split("/")
    for k, part in enumerate(parts):
        run, stamp = _RUN_ID.fullmatch(part), _STAMP.fullmatch(part)
        form = "%Y%m%d-%H%M%S" if run else "%Y%m%dT%H%M%S%f"
        stored = _time(run or stamp, form)
        if stored:
            return Label(kind, "/".join(parts[:k]), part if run else "", stored)
    if kind in ("moved", "stash"):  # the second holds entries of the user's list, of no change
        return Label(kind, "/".join(parts[:-1]), "", ref.committed)
    if kind in OURS and ref.run_id:
        change = "/".join(parts[: len(parts) - OURS[kind]])
        return Label(kind, change, ref.run_id, ref.committed)
    return None


def _owner(label: Label, runs: Iterable[Recorded]) -> str:
    """The run that stored a ref: the one it names, or the one of that time."""
    if label.run_id:
        return label.run_id
    own = sorted((run for run in runs if run.change == label.change), key=lambda run: run.run_id)
    if label.kind != "moved":
        begun = [run for run in own if run.started <= label.stored]
        return begun[-1].run_id if begun else ""
    during = [run for run in own if run.started - SECOND <= label.stored <= run.last_sign + SECOND]
    # A tip that was not made during a run: any later one may have moved it.
    candidates = during or own
    return candidates[-1].run_id if candidates else ""


def _time(found: re.Match[str] | None, form: str) -> datetime | None:
    try:
        return datetime.strptime(found[1], form).replace(tzinfo=UTC) if found else None
    except ValueError:
        return None  # digits, but no time
