"""Which programs a test runs with; those beyond every push are marked `full`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agents.install import EVERY_PUSH
from tests.agents.programs import PROGRAMS
from untildone.domain.agents.agent import Permissions
from untildone.wiring.agents import known_program

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from tests.modelserver.script import Day
    from untildone.adapters.agents.program import AgentSpec

WITHOUT_TOOLS = ("aider",)
RESUMED_BY_ADAPT = ("goose", "aider")


def for_programs(
    names: Iterable[str], on_push: Collection[str] = EVERY_PUSH
) -> pytest.MarkDecorator:
    """Runs a test once for each program."""
    marks = {name: () if name in on_push else (pytest.mark.full,) for name in names}
    rows = [pytest.param(name, marks=marks[name]) for name in marks]
    return pytest.mark.parametrize("name", rows)


def programs_that_give_up_on(day: Day) -> pytest.MarkDecorator:
    """Those whose own retries on such a day come to an end in a test's time."""
    return for_programs(name for name, row in PROGRAMS.items() if day not in row.sits_out)


def _with(wanted: Callable[[AgentSpec], bool]) -> list[str]:
    return [name for name in PROGRAMS if wanted(known_program(name).spec)]


every_program = for_programs(PROGRAMS)
every_program_in_time = for_programs(PROGRAMS, on_push=("claude", "codex"))
programs_with_tools = for_programs(name for name in PROGRAMS if name not in WITHOUT_TOOLS)
programs_that_go_on = for_programs(
    _with(lambda spec: bool(spec.resume) or spec.name in RESUMED_BY_ADAPT), on_push=()
)
HELD_TO_EDITS = _with(lambda spec: Permissions.EDITS in spec.grants)
