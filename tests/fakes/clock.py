"""A clock that moves only when somebody waits."""

from datetime import datetime, timedelta

from tests.fakes.plans import NOW


class FakeClock:
    """Stands still until `advance`."""

    def __init__(self, now: datetime = NOW) -> None:
        self._now = now

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
