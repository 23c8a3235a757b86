"""An agent removes the folder that it works in, or those of all lanes: the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.test_lanes import WORK, Lanes
from tests.e2e.users_tree import users_own

if TYPE_CHECKING:
    from tests.e2e.bench import Bench

pytestmark = pytest.mark.e2e

DONE = "echo '<promise>COMPLETE</promise>'; exit 0"


@pytest.mark.parametrize("what", ['"$PWD"', '"$(dirname "$PWD")"', '"$HOME/.cache/untildone"'])
def test_the_story_is_done_again_and_the_others_too_if_theirs_are_gone(
    bench: Bench, what: str
) -> None:
    scripts = {"2-1": f"sleep 0.3; rm -rf {what}; {DONE}", "any": f"sleep 0.6; {WORK}"}
    lanes = Lanes(bench, 5, scripts)
    before = users_own(bench)
    done = lanes.run(3, "--verify", "true").ok()
    lanes.assert_whole(5)
    assert users_own(bench) == before
    failed = [e for e in done.named("iteration_ended") if e["outcome"] == "verify_failed"]
    assert "2" in {event["story_id"] for event in failed}
    assert all("was removed, and with it the work" in event["reason"] for event in failed)
