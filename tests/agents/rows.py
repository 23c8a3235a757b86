"""Which programs a test runs with; those beyond every push are marked `full`."""

from __future__ import annotations

import pytest

from tests.agents.install import EVERY_PUSH
from tests.agents.programs import PROGRAMS

WITH_ADAPTER = ("claude",)

every_program = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in EVERY_PUSH else pytest.mark.full)
        for name in PROGRAMS
        if name in WITH_ADAPTER
    ],
)
