"""A span of time as people write it: days in a time zone, or moments."""

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, tzinfo

from msgspec import Struct

from untildone.domain.errors import UserError

EXAMPLE = "2026-01-31"


class Span(Struct, frozen=True):
    """From `start` on and before `end`; days are those of `zone`, None being this machine's."""

    start: datetime | None = None
    end: datetime | None = None
    zone: tzinfo | None = None

    def __contains__(self, at: datetime) -> bool:
        return (self.start is None or at >= self.start) and (self.end is None or at < self.end)

    def day(self, at: datetime) -> str:
        """The day of a moment."""
        return at.astimezone(self.zone).date().isoformat()


def span(since: str, until: str, timezone: str) -> Span:
    """The span that was asked for; a day given as its end is in it as a whole."""
    zone = _zone(timezone) if timezone else None
    start = _moment("--since", since, zone, lambda day: day)
    end = _moment("--until", until, zone, lambda day: day + timedelta(days=1))
    if start and end and end <= start:
        raise UserError(
            f"Nothing can be between --since {since} and --until {until}",
            hint="--until has to be later; a day is meant as a whole",
        )
    return Span(start, end, zone)


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
