"""What the loop makes of each bad habit of an agent, with the agent of `python -m bench outcomes`.

Each test is a change of two stories: an honest one, and one whose first call goes wrong. Whatever
the habit, both are truly done in the end by tests that the agent never saw, nothing is lost, and
the bad call is the only one that was spent on it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.outcomes.arena import Arena
from bench.outcomes.functions import FUNCTIONS
from bench.outcomes.loops.untildone import Untildone, events
from bench.outcomes.plan import FLOOD, HONEST, Story
from bench.outcomes.score import Score, score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Stage = Callable[..., "Played"]


TOP = Path(__file__).parents[2]


class Played:
    """A run that is over, its score and its events."""

    def __init__(self, arena: Arena, told: Score) -> None:
        self.arena = arena
        self.score = told
        self.events: list[Mapping[str, Any]] = events(arena)

    def named(self, name: str) -> list[Mapping[str, Any]]:
        """The events of one name."""
        return [event for event in self.events if event["event"] == name]

    def outcomes(self) -> list[str]:
        """How each iteration of the second story ended."""
        return [e["outcome"] for e in self.named("iteration_ended") if e["n"] > 1]

    def reasons(self) -> str:
        """Why iterations failed."""
        return "\n".join(str(event["reason"]) for event in self.named("iteration_ended"))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Plays a plan of two stories, the second with these bad calls."""
    arenas = []

    def play(*bad: str, good: str = HONEST) -> Played:
        first = Story("S01", FUNCTIONS[0])
        stories = (first, Story("S02", FUNCTIONS[1], bad, good))
        arena = Arena(tmp_path / "arena", stories, tmp_path, limit_s=90)
        arenas.append(arena)
        arena.build()
        loop = Untildone()
        ending = loop.play(arena)
        return Played(arena, score(loop, arena, 0, ending))

    yield play
    for arena in arenas:
        arena.end()


def holds(played: Played) -> None:
    """Everything is truly done, nothing is lost or left, and no call was wasted."""
    told = played.score
    assert told.ended == "exit 0", played.arena.output.read_text()[-3000:]
    assert told.missing == told.false == ()
    assert told.lost == told.gone == ()
    assert (told.left, told.sat_out) == (0, 0)
    assert told.calls == told.least


CASES = {
    "lie": ("verify_failed", "python3 -m tests"),
    "nothing": ("verify_failed", "is not in kit.PUBLIC"),
    "break-earlier": ("verify_failed", "python3 -m tests"),
    "exit-1": ("agent_error", "exited with code 1"),
    "crash": ("agent_error", ""),
    "echo": ("no_promise", ""),
    "hang": ("idle_timeout", "silent"),
}


@pytest.mark.parametrize("habit", CASES)
def test_a_bad_call_is_put_back_and_costs_one_attempt(stage: Stage, habit: str) -> None:
    outcome, why = CASES[habit]
    played = stage(habit)
    holds(played)
    assert played.outcomes() == [outcome, "complete"]
    assert why in played.reasons()
    assert len(played.named("reverted")) == 1


def test_work_on_the_wrong_branch_stays_there(stage: Stage) -> None:
    played = stage("wrong-branch")
    holds(played)
    assert played.outcomes() == ["verify_failed", "complete"]
    branches = played.arena.git("branch", "--list", "side/*", "--format=%(refname:short)").split()
    saved = played.arena.git("for-each-ref", "--format=%(refname)", "refs/ralph/attempts").split()
    source = FUNCTIONS[1].source
    texts = [played.arena.git("show", f"{ref}:kit/text.py") for ref in branches + saved]
    assert any(source in text for text in texts), (branches, saved)


def test_a_rate_limit_is_waited_out_and_is_no_attempt(stage: Stage) -> None:
    played = stage("rate-limit")
    holds(played)
    assert [e["attempt"] for e in played.named("iteration_started") if e["n"] > 1][-1] == 1
    assert len(played.named("waiting")) == 1
    assert 3 <= played.score.waited <= 15


def test_a_flood_of_output_is_read_to_its_end(stage: Stage) -> None:
    played = stage(good=FLOOD)
    holds(played)
    assert played.outcomes() == ["complete"]


def test_a_deleted_test_is_put_back_and_named(stage: Stage) -> None:
    played = stage("delete-test")
    holds(played)
    assert played.outcomes()[-1] == "complete"
    assert "tests/test_text__slugify.py" in played.reasons()


def test_a_question_parks_the_story_until_it_is_answered(stage: Stage) -> None:
    played = stage("ask")
    holds(played)
    (error,) = played.named("error")
    assert "May I call it slugify" in str(error)
    assert played.outcomes()[-1] == "complete"


@pytest.mark.full
def test_eight_stories_with_every_habit() -> None:
    argv = [sys.executable, "-m", "bench", "outcomes", "--quick"]
    done = subprocess.run(argv, cwd=TOP, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
