"""The rest of the bad days, for `make test-agents-all`: every program tells each of them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agents.programs import PROGRAMS
from tests.e2e.waiting import until
from tests.modelserver.script import Day

if TYPE_CHECKING:
    from tests.agents.conftest import MakeScene
    from tests.agents.scene import Scene
    from tests.e2e.command import Live

pytestmark = [pytest.mark.e2e, pytest.mark.agent, pytest.mark.full]

USUAL = {
    Day.OVERLOADED: "overloaded",
    Day.SERVER_ERROR: "overloaded",
    Day.UNAVAILABLE: "overloaded",
    Day.QUOTA: "quota_exhausted",
    Day.CONTEXT: "context_overflow",
    Day.REFUSAL: "refused",
    Day.EARLY_END: "overloaded",
    Day.MALFORMED: "overloaded",
}
# What the program itself does not tell: no reader can.
OTHERWISE = {
    (Day.REFUSAL, "codex"): "no_promise",
    (Day.REFUSAL, "copilot"): "no_promise",
    (Day.MALFORMED, "cline"): "agent_error",
    (Day.REFUSAL, "vibe"): "no_promise",
    (Day.EARLY_END, "droid"): "no_promise",
    (Day.EARLY_END, "kimi"): "no_promise",
    (Day.EARLY_END, "goose"): "no_promise",
}
ROWS = [
    pytest.param(day, name, id=f"{day.name}-{name}")
    for name, program in PROGRAMS.items()
    for day in USUAL
    if day not in program.sits_out
]


def came_to(scene: Scene, live: Live) -> str:
    """The class of the first call: of the wait that follows it, or of its entry."""

    def look() -> str:
        for event in live.events:
            if event["event"] in ("waiting", "iteration_ended"):
                return str(event.get("class") or event["outcome_class"])
        return ""

    return str(until(look, 100, "the end of the first call"))


@pytest.mark.parametrize(("day", "name"), ROWS)
def test_each_bad_day_has_its_class(make_scene: MakeScene, day: Day, name: str) -> None:
    scene = make_scene(name, day)
    live = scene.start("--max-retries", "0")
    found = came_to(scene, live)
    scene.bench.run("stop", "demo")
    live.wait(15)
    assert found == OTHERWISE.get((day, name), USUAL[day])
    assert scene.bench.state()["status"] != "done"
    scene.alone()
