"""The one place that reads the time."""

import time
from datetime import UTC, datetime, timedelta


class SystemClock:
    """Wall clock and monotonic clock; neither goes back while the loop lives."""

    def __init__(self) -> None:
        self._last = datetime.now(UTC)
        self._last_monotonic = time.monotonic()

    def now(self) -> datetime:
        """Wall-clock time, in UTC; goes on by itself if the machine's clock is set back."""
        passed = time.monotonic() - self._last_monotonic
        self._last = max(datetime.now(UTC), self._last + timedelta(seconds=passed))
        self._last_monotonic += passed
        return self._last

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        return monotonic()


def local_time() -> str:
    """Day and time as people here write them."""
    return time.strftime("%Y-%m-%d %H:%M")


def monotonic() -> float:
    """Seconds that never go backwards."""
    return time.monotonic()


def pause(seconds: float) -> None:
    """A short, bounded wait for something that another program is about to end."""
    time.sleep(seconds)
