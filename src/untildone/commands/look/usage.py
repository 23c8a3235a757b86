"""What agents have spent: their own records on this machine, and the runs of this repository."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import Any

from msgspec import Struct

from untildone.adapters.clock import SystemClock
from untildone.adapters.records.run_folder import run_ids
from untildone.adapters.sessions.prices import Prices, load
from untildone.adapters.sessions.session_files import FILES, entries
from untildone.domain.costs.budget import minutes
from untildone.domain.costs.call_prices import Spent, Sum, add, grouped, once
from untildone.domain.errors import UserError
from untildone.domain.run.run import Iteration, Run
from untildone.wiring.repository import Repository, here, homes, replayed

UNKNOWN = "unknown"
EXAMPLE = "2026-01-31"


class Span(Struct, frozen=True):
    """From `start` on and before `end`; days are those of `zone`, None being this machine's."""

    start: datetime | None = None
    end: datetime | None = None
    zone: tzinfo | None = None

    def __contains__(self, at: datetime) -> bool:
        return (self.start is None or at >= self.start) and (self.end is None or at < self.end)

    def day(self, at: datetime) -> str:
        return at.astimezone(self.zone).date().isoformat()


class Found(Struct, frozen=True):
    """Every model call in a span, once; `iterations` are those of this repository's runs."""

    entries: list[Spent]
    iterations: list[tuple[Run, Iteration]]
    unread: list[str]


def usage(span: Span, by: str) -> dict[str, Any]:
    """The report as `usage --json` prints it; without `by` the runs and what each agent spent."""
    prices = load()
    repository = _repository(needed=by == "change")
    found = find(repository, span)
    report: dict[str, Any] = {
        "since": span.start.isoformat() if span.start else None,
        "until": span.end.isoformat() if span.end else None,
        "prices_of": prices.date,
        "by": by or None,
    }
    if by == "change":
        spent = [_of_run(run, it) for run, it in found.iterations if it.usage]
        report["rows"] = _rows(spent, "change", lambda e: e.change_id, prices)
    elif by:
        spent = found.entries
        keys: dict[str, Callable[[Spent], str]] = {
            "day": lambda entry: span.day(entry.at),
            "agent": lambda entry: entry.agent,
            "model": lambda entry: entry.model or UNKNOWN,
        }
        report["rows"] = _rows(spent, by, keys[by], prices)
    else:
        spent = found.entries
        report["runs"] = list(_runs(found, prices))
        report["agents"] = _rows(spent, "agent", lambda entry: entry.agent, prices)
    return {**report, **_row(add(spent, prices.of)), "unread": found.unread}


def find(repository: Repository | None, span: Span) -> Found:
    """The agents' records, and iterations of this repository that none of them holds."""
    unread: list[str] = []
    recorded = once(_recorded(span, unread))
    iterations = [
        (run, it)
        for run in (_replayed(repository) if repository else ())
        for it in run.iterations
        if it.started in span
    ]
    is_known = _known(recorded, repository.place.top) if repository else None
    ours = [
        _of_run(run, it) for run, it in iterations if it.usage and is_known and not is_known(it)
    ]
    return Found([e for e in recorded if e.at in span] + ours, iterations, unread)


def _known(recorded: list[Spent], top: Path) -> Callable[[Iteration], bool]:
    """Whether a call is recorded by its session, or, if it named none, by time and folder."""
    sessions = {entry.session_id for entry in recorded}
    here = sorted(e.at for e in recorded if e.cwd and Path(e.cwd).is_relative_to(top))

    def known(iteration: Iteration) -> bool:
        if iteration.session:
            return iteration.session.id in sessions
        first = bisect_left(here, iteration.started)
        return first < len(here) and here[first] <= (iteration.ended or iteration.started)

    return known


def _recorded(span: Span, unread: list[str]) -> Iterator[Spent]:
    for agent, files in FILES.items():
        for path in map(Path, files()):
            try:
                if span.start and path.stat().st_mtime < span.start.timestamp():
                    continue
                yield from entries(agent, path)
            except OSError as error:
                unread.append(str(error))


def _replayed(repository: Repository) -> Iterator[Run]:
    for root in homes(repository):
        for run_id in run_ids(root):
            if run := replayed(root, run_id):
                yield run


def _of_run(run: Run, iteration: Iteration) -> Spent:
    assert iteration.usage
    session = iteration.session.id if iteration.session else ""
    return Spent(
        *(iteration.started, iteration.agent or run.plan.agent, session, iteration.usage),
        change_id=run.plan.change_id,
    )


def _runs(found: Found, prices: Prices) -> Iterator[dict[str, Any]]:
    runs = {run.plan.run_id: run for run, _ in found.iterations}
    for run_id, run in runs.items():
        taken = [it for owner, it in found.iterations if owner.plan.run_id == run_id]
        total = add((_of_run(run, it) for it in taken if it.usage), prices.of)
        yield {
            "change_id": run.plan.change_id,
            "run_id": run_id,
            "agent": run.plan.agent,
            "iterations": len(taken),
            **_row(total),
            **({} if any(it.usage for it in taken) else dict.fromkeys(COUNTS)),
        }


def _rows(
    entries: list[Spent], name: str, key: Callable[[Spent], str], prices: Prices
) -> list[dict[str, Any]]:
    sums = grouped(entries, key, prices.of)
    return [{name: value, **_row(total)} for value, total in sums.items()]


# Of a run whose agent tells no numbers they are unknown, not 0.
COUNTS = (
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    *("reasoning_tokens", "total_tokens"),
)


def _row(total: Sum) -> dict[str, Any]:
    used = total.usage
    return {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "cache_read_tokens": used.cache_read_tokens,
        "cache_write_tokens": used.cache_write_tokens,
        "reasoning_tokens": used.reasoning_tokens,
        "total_tokens": used.total,
        "estimated": used.estimated,
        "cost_usd": None if used.cost_usd is None else round(used.cost_usd, 6),
        "unpriced_models": sorted(name or UNKNOWN for name in total.unpriced),
    }


def _repository(*, needed: bool) -> Repository | None:
    try:
        return here()
    except UserError:
        if needed:
            raise
        return None


def span(since: str, until: str, timezone: str) -> Span:
    """The span that was asked for; a day given as its end is in it as a whole."""
    zone = _zone(timezone) if timezone else None
    start = _ago(since) or _moment("--since", since, zone, lambda day: day)
    end = _moment("--until", until, zone, lambda day: day + timedelta(days=1))
    if start and end and end <= start:
        raise UserError(
            f"Nothing can be between --since {since} and --until {until}",
            hint="--until has to be later; a day is meant as a whole",
        )
    return Span(start, end, zone)


def _ago(text: str) -> datetime | None:
    """A duration before now, as `7d`; a mere number could be a date."""
    length = None if text.isdigit() else minutes(text)
    try:
        return SystemClock().now() - timedelta(minutes=length) if length else None
    except OverflowError:
        return None


def _moment(
    flag: str, text: str, zone: tzinfo | None, edge: Callable[[date], date]
) -> datetime | None:
    if not text:
        return None
    try:
        at = datetime.combine(edge(date.fromisoformat(text)), time())
    except ValueError:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            hint = f"{flag} {_nearest(text) or EXAMPLE}, or with a time: {EXAMPLE}T14:30"
            hint += "; --since 7d: the last seven days" if flag == "--since" else ""
            raise UserError(f"This is not an ISO 8601 time: {text}", hint=hint) from None
    if at.tzinfo:
        return at
    return at.replace(tzinfo=zone) if zone else at.astimezone()


def _nearest(text: str) -> str:
    """The day that was probably meant, in the form that is understood."""
    numbers = [int(digits) for digits in re.findall(r"\d+", text)[:3]]
    if len(numbers) == 3 and numbers[2] > 31:
        numbers.reverse()
    try:
        return date(*numbers).isoformat()
    except (TypeError, ValueError, OverflowError):
        return ""


def _zone(name: str) -> tzinfo:
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        from difflib import get_close_matches

        near = get_close_matches(name, zoneinfo.available_timezones(), n=1) or ["Europe/Berlin"]
        raise UserError(f"Unknown time zone: {name}", hint=f"--timezone {near[0]}") from None
