"""Wait for something, with a limit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 40.0


def until(check: Callable[[], Any], timeout: float = PATIENCE, what: str = "a condition") -> Any:
    """Poll until the check is true and return its value."""
    end = time.monotonic() + timeout
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {timeout} s in vain for {what}")
        time.sleep(0.01)
