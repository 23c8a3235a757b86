"""What the loop relies on when it asks for the time."""

import pytest

from tests.fakes.clock import FakeClock
from untildone.adapters.clock import SystemClock
from untildone.ports import Clock


@pytest.mark.parametrize("clock", [SystemClock(), FakeClock()], ids=["real", "fake"])
def test_it_has_a_zone_and_never_goes_back(clock: Clock) -> None:
    times = [clock.now() for _ in range(100)]
    assert times == sorted(times)
    assert all(at.tzinfo is not None for at in times)
