"""The one place that reads the time."""

import time
from datetime import UTC, datetime


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        """Wall-clock time, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        return monotonic()


def monotonic() -> float:
    """Seconds that never go backwards."""
    return time.monotonic()


def pause(seconds: float) -> None:
    """A short, bounded wait for something that another program is about to end."""
    time.sleep(seconds)
