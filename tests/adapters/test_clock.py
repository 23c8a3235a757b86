"""The machine's clocks."""

import time
from datetime import UTC, datetime, timedelta

from untildone.adapters.clock import SystemClock, monotonic, pause


def test_wall_clock_is_in_utc() -> None:
    clock = SystemClock()
    before, now, after = datetime.now(UTC), clock.now(), datetime.now(UTC)
    assert before <= now <= after + timedelta(milliseconds=1)  # two clocks, one behind the other
    assert now.utcoffset() == timedelta(0)


def test_seconds_never_go_backwards() -> None:
    seen = [time.monotonic(), SystemClock().monotonic(), monotonic(), time.monotonic()]
    assert seen == sorted(seen)


def test_a_pause_takes_its_time() -> None:
    before = monotonic()
    pause(0.02)
    assert 0.02 <= monotonic() - before < 1
