"""What the next attempt is told about earlier ones."""

import pytest
from msgspec.structs import replace

from tests.fakes.plans import tried
from untildone.domain.agents.prompt import EARLIER_LIMIT, REASON_LIMIT, earlier_attempts
from untildone.domain.run.run import Outcome

ONE = replace(tried(1, why="no\n  network"), saved_ref="refs/one")
CRASH = tried(2, Outcome.AGENT_ERROR, "boom")
CHECK = replace(tried(3, Outcome.VERIFY_FAILED, "2 failed"), saved_ref="")
LAST = replace(tried(4, why="no disk"), saved_ref="refs/last")
HEAD = """\
# The previous attempt

The previous attempt failed and its changes were put back. Its reason:

no disk"""
EARLIER = """

# Earlier attempts

These failed before it and were put back too, the newest last:

- Attempt 1, gave up: no network (`git show refs/one`)
- Attempt 3, not accepted: 2 failed"""


def test_without_a_reason_nothing_is_said() -> None:
    assert earlier_attempts("", (ONE, LAST, CRASH)) == ""


def test_the_last_reason_as_it_is_and_a_line_for_each_earlier_one() -> None:
    assert earlier_attempts("no disk", (LAST,)) == HEAD
    assert earlier_attempts("no disk", (ONE, CRASH, CHECK, LAST)) == HEAD + EARLIER


@pytest.mark.parametrize("ref", ["refs/last", ""])
def test_after_the_same_failure_twice_another_way_is_asked_for(ref: str) -> None:
    again = replace(LAST, attempt=5, saved_ref=ref)
    said = earlier_attempts("no disk", (LAST, again))
    assert said.startswith(HEAD)
    assert "# Take another way\n\nThe last 2 attempts failed in the same way" in said
    assert ("`git show refs/last` shows the last one." in said) is bool(ref)
    assert "Take another way" not in earlier_attempts("no disk", (ONE, LAST))


def test_it_is_bounded_and_says_where_it_was_cut() -> None:
    long = "y" * 100_000
    said = earlier_attempts(long, tuple(replace(ONE, reason=long, attempt=n) for n in range(99)))
    assert len(said) < REASON_LIMIT + EARLIER_LIMIT + 1500
    assert said.count("characters left out") == 2
