"""Bad days with each real program: the right class, no attempt used up, nothing left running.

One call per story is allowed: a limit that counted as an attempt would end the run.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from tests.agents.rows import every_program, every_program_in_time, programs_that_give_up_on
from tests.agents.scene import PATIENCE
from tests.modelserver.script import Day

if TYPE_CHECKING:
    from tests.agents.conftest import MakeScene
    from tests.agents.scene import Scene

pytestmark = [pytest.mark.e2e, pytest.mark.agent]

ONE_CALL = ("--max-retries", "0")
HOUR_S = 3600


def classes(scene: Scene) -> list[str]:
    """The outcome class of each iteration."""
    return [entry["outcome_class"] for entry in scene.iterations()]


def check_waited_out(scene: Scene, day: Day, kind: str) -> None:
    """The first call comes to nothing and is no attempt, the second one does it all."""
    silence = str(scene.program.silence_s / 60)
    result = scene.run(*ONE_CALL, "--idle-timeout", silence).ok()
    assert result.one("waiting")["class"] == kind
    assert classes(scene) == ["complete"]
    days = [*scene.tries(day) * [day], *scene.program.turns * [None]]
    assert [seen.day for seen in scene.server.main] == days
    assert {event["attempt"] for event in result.named("iteration_started")} == {1}
    assert len(scene.prompts()) == 1
    assert scene.bench.state()["status"] == "done"
    scene.check_tokens()
    scene.alone()


@programs_that_give_up_on(Day.RATE_LIMIT)
def test_a_rate_limit_is_waited_out(make_scene: MakeScene, name: str) -> None:
    check_waited_out(make_scene(name, Day.RATE_LIMIT, reset_s=1), Day.RATE_LIMIT, "rate_limited")


@programs_that_give_up_on(Day.CUT)
def test_a_cut_stream_is_waited_out(make_scene: MakeScene, name: str) -> None:
    check_waited_out(make_scene(name, Day.CUT), Day.CUT, "overloaded")


@every_program_in_time
def test_a_model_that_never_answers_is_waited_out(make_scene: MakeScene, name: str) -> None:
    check_waited_out(make_scene(name, Day.HANG), Day.HANG, "hung")


@programs_that_give_up_on(Day.USAGE_LIMIT)
def test_a_usage_limit_is_told_with_its_reset_and_a_stop_wakes_at_once(
    make_scene: MakeScene, name: str
) -> None:
    scene = make_scene(name, Day.USAGE_LIMIT, reset_s=HOUR_S)
    asked = dt.datetime.now(dt.UTC)
    live = scene.start(*ONE_CALL, login=True)
    waiting = live.wait_event("waiting", PATIENCE)
    assert waiting["class"] == "quota_exhausted"
    waits = (dt.datetime.fromisoformat(waiting["until"]) - asked).total_seconds()
    told_within = scene.program.tells_reset_within_s
    if told_within is None:
        assert 0 < waits < HOUR_S / 2
    else:
        assert abs(waits - HOUR_S) < told_within + 30
    scene.bench.run("stop", "demo").ok()
    live.wait(10).ok(6)
    assert (scene.iterations(), scene.bench.state()["status"]) == ([], "stopped")
    assert len(scene.server.main) == scene.tries(Day.USAGE_LIMIT)
    scene.alone()


@every_program
def test_a_bad_key_ends_the_run_after_one_call(make_scene: MakeScene, name: str) -> None:
    scene = make_scene(name, Day.BAD_KEY)
    result = scene.run().ok(3)
    assert classes(scene) == ["not_logged_in"]
    assert result.one("complete")["reason"] == "error"
    assert len(scene.server.main) == scene.tries(Day.BAD_KEY)
    assert scene.bench.state()["status"] == "stuck"
    scene.alone()
