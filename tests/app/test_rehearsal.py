"""What the loop would do next, told without doing it."""

import pytest
from msgspec.structs import replace

from tests.fakes.agent import COMPLETE, failed
from tests.fakes.loop import STORIES, FakeLoop
from tests.fakes.plans import (
    NOW,
    OPENED,
    ORIGIN,
    PLAIN,
    PLAN,
    at,
    began,
    ended,
    loaded,
    measured,
    told,
    won,
)
from tests.fakes.source import FakeSource
from untildone.app.rehearsal import Rehearsed, interrupted, rehearse
from untildone.domain.agents.agent import Kind, Trouble
from untildone.domain.run import fact as f
from untildone.domain.run.machine import begin
from untildone.domain.run.plan import Done
from untildone.domain.run.run import Outcome, Run

TICKED = STORIES.replace("[ ]", "[x]")
LIMIT = Trouble(Kind.RATE_LIMITED, "full")


def rehearsed(run: Run, source: FakeSource | None = None, template: str = "") -> Rehearsed:
    return rehearse(run, ORIGIN, source, NOW, template)


def test_the_prompt_is_the_one_that_the_loop_sends() -> None:
    loop = FakeLoop((failed("too hard"), COMPLETE, COMPLETE))
    before = rehearsed(begin(f.Started(PLAN), NOW), FakeSource(STORIES))
    assert before.before == ()
    loop.drive()
    first, second, _ = loop.agent.intents
    assert before.prompt == first.prompt
    after = told(OPENED, loaded(), began(1), ended(Outcome.FAILED, "too hard"), measured())
    again = rehearsed(after, FakeSource(STORIES.replace("First", "Story 1")))
    assert again.call
    assert (again.call.n, again.call.attempt) == (2, 2)
    assert again.prompt == second.prompt.replace("First", "Story 1")
    assert again.before == ("What iteration 1 left is stored as an attempt and put back.",)


def test_a_plain_loop_needs_no_source_and_takes_the_template() -> None:
    run = begin(f.Started(PLAIN), NOW)
    assert rehearsed(run).prompt.startswith("Do it.")
    assert rehearsed(run, template="Only {{tasks}}").prompt == "Only Do it.\n"


def test_a_call_that_a_crash_left_open_is_put_back_first() -> None:
    run = interrupted(told(OPENED, loaded(), began(1)), at(9))
    found = rehearsed(run, FakeSource("## 1. Story 1\n- [ ] 1.1 a\n"))
    assert found.call
    assert (found.call.n, found.call.attempt) == (2, 2)
    assert found.before == ("What iteration 1 left is stored as an attempt and put back.",)


def test_work_that_is_judged_complete_is_kept_first() -> None:
    run = told(OPENED, loaded(), began(1), ended(), measured())
    assert interrupted(run, NOW) == run
    found = rehearsed(run, FakeSource("## 1. Story 1\n- [ ] 1.1 a\n## 2. Two\n- [ ] 2.1 b\n"))
    assert found.call
    assert found.call.story
    assert found.call.story.id == "2"
    assert found.before == ("What iteration 1 left is kept.",)


def test_a_limit_is_waited_out_first() -> None:
    facts = (OPENED, loaded(), began(1), ended(Outcome.AGENT_ERROR, limit=LIMIT), measured())
    waits = told(*facts, f.Reverted(0, "ref"), f.WaitStarted(0, at(60), "full"))
    found = rehearsed(waits, FakeSource(STORIES))
    assert found.call
    assert found.before == ("A limit is waited out until 2026-01-02T03:05:05+00:00.",)


def test_the_checks_would_be_tried_first() -> None:
    run = told(OPENED, loaded(), plan=replace(PLAN, verify=("true",), verify_start=True))
    found = rehearsed(run, FakeSource(STORIES))
    assert found.call
    assert found.before == (
        "The required checks are tried, so that one that already fails is named.",
    )


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (told(OPENED, loaded(), *won(1), f.StoriesLoaded(1, 1, done=True)), "Cleanup or keep."),
        (
            told(OPENED, loaded(), began(), ended(), plan=replace(PLAN, verify=("true",))),
            "Run the loop's own checks.",
        ),
        (
            told(
                *(OPENED, loaded(), began(1), ended(Outcome.AGENT_ERROR, limit=LIMIT), measured()),
                f.Reverted(0, "ref"),
            ),
            "Wait out a limit; `until` is known once the wait has begun.",
        ),
        (
            told(OPENED, plan=replace(PLAN, done=Done.MANUAL)),
            "All stories are finished; the person has to say `done`.",
        ),
    ],
    ids=["choice", "checks", "limit", "person"],
)
def test_what_only_the_world_can_answer_ends_the_telling(run: Run, said: str) -> None:
    found = rehearsed(run, FakeSource(TICKED))
    assert (found.call, found.prompt) == (None, "")
    assert found.before == (said,)
