"""What a crash left behind, at every point of a run."""

from datetime import datetime

import pytest
from msgspec.structs import replace

from tests.fakes.agent import COMPLETE
from tests.fakes.checkpoint import FakeCheckpoint
from tests.fakes.loop import FakeLoop
from tests.fakes.plans import (
    NOW,
    ONE,
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
from untildone.app.keep_or_revert import looked_at
from untildone.app.recovery import facts_before, missing_facts, replay, story_base
from untildone.domain.run import fact as f
from untildone.domain.run.machine import next_steps
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Choice, Outcome, Run
from untildone.domain.run.step import MeasureUsage, RunAttempt, Save

DIED = f.AttemptEnded(0, Outcome.INTERRUPTED, "the loop ended during this iteration", ("a1",))
SAVED = f.Saved(0, "c1", "c1", paths=("work.txt",))
SINCE = ("changed_between", "c0", "c1")
JUDGED = (OPENED, loaded(), began(), ended(), measured())
PLAIN_JUDGED = (OPENED, began(4, None), ended(), measured())

# The plan, what is on record, whether the checkpoint was made; the missing facts, what was asked.
Crash = tuple[Plan, tuple[f.Fact, ...], str, tuple[f.Fact, ...], list[tuple[object, ...]]]

CRASHES: dict[str, Crash] = {
    "between stories": (PLAN, (OPENED, loaded()), "", (), []),
    "while the agent ran": (PLAN, (OPENED, loaded(), began()), "", (DIED,), [("commits", "c0")]),
    "before measuring": (PLAN, (OPENED, loaded(), began(), ended()), "", (), []),
    "before saving": (PLAN, JUDGED, "", (), [("saved_as", "c0", "1", 1)]),
    "after saving": (PLAN, JUDGED, "c1", (SAVED,), [("saved_as", "c0", "1", 1), SINCE]),
    "plain, after saving": (
        PLAIN,
        PLAIN_JUDGED,
        "c1",
        (SAVED,),
        [("saved_as", "c0", "iteration-4", 1), SINCE],
    ),
}


@pytest.mark.parametrize("name", CRASHES)
def test_missing_facts(name: str) -> None:
    plan, facts, made, missing, asked = CRASHES[name]
    checkpoint = FakeCheckpoint()
    checkpoint.made, checkpoint.agent_commits = made, ("a1",)
    checkpoint.between = ("work.txt",)
    assert missing_facts(told(*facts, plan=plan), ORIGIN, checkpoint) == missing
    assert checkpoint.calls == asked


def test_what_was_saved_before_a_crash_is_looked_at_again() -> None:
    """As far as the stories can be read; a plain loop has none."""
    loop = FakeLoop(())
    assert loop.source
    driver = loop.driver(replace(told(*JUDGED), book=None))
    assert looked_at(driver, SAVED) == f.Saved(0, "c1", "c1")
    plan_only = replace(SAVED, paths=tuple(loop.source.load().files))
    assert looked_at(driver, plan_only).unchanged
    loop.source.text = None
    assert not looked_at(driver, plan_only).unchanged
    plain = FakeLoop(()).driver(told(*PLAIN_JUDGED, plan=PLAIN))
    assert looked_at(plain, replace(SAVED, paths=())) == f.Saved(0, "c1", "c1")


def test_a_crash_while_opening() -> None:
    checkpoint = FakeCheckpoint()
    assert missing_facts(told(), ORIGIN, checkpoint) == (f.Abandoned("the start was cut short"),)
    checkpoint.workspace = OPENED
    assert missing_facts(told(), ORIGIN, checkpoint) == (OPENED,)


def test_the_machine_goes_on_from_there() -> None:
    facts = (OPENED, loaded(), began())
    assert next_steps(told(*facts, DIED)) == (MeasureUsage(0),)
    assert next_steps(told(*JUDGED)) == (Save(0),)
    assert isinstance(next_steps(told(*facts, *won()[1:], loaded()))[0], RunAttempt)


def test_replay() -> None:
    facts: list[f.Fact] = [f.Started(PLAN), OPENED, f.Adopted(0, "c5")]
    stamped = [(fact, at(k)) for k, fact in enumerate(facts)]
    assert replay(stamped) == told(OPENED, f.Adopted(0, "c5"))
    assert replay([]) is None
    assert replay([(OPENED, NOW)]) is None
    assert replay([(OPENED, NOW), (f.Started(PLAN), NOW)]) == Run(PLAN, NOW)


def test_a_second_start_in_one_journal_is_a_new_run() -> None:
    other = replace(PLAN, run_id="r2")
    facts: list[f.Fact] = [f.Started(PLAN), OPENED, f.Started(other)]
    stamped = [(fact, at(3 * k)) for k, fact in enumerate(facts)]
    assert replay(stamped) == Run(other, at(6))


FINISHED = (f.Started(PLAN), OPENED, loaded(), *won(), loaded())
CHOSEN = (*FINISHED, f.ChoiceMade(Choice.KEEP), f.Closed(Choice.KEEP))


def stamped(*facts: f.Fact) -> list[tuple[f.Fact, datetime]]:
    return [(fact, at(k)) for k, fact in enumerate((f.Started(PLAN), *facts))]


def replayed(*facts: f.Fact) -> Run:
    run = replay([(fact, at(k)) for k, fact in enumerate(facts)])
    assert run
    return run


def test_a_run_that_was_taken_back_stands_where_it_stood() -> None:
    run = replayed(*FINISHED, f.TakenBack(3))
    assert (run.finished, run.lanes[0].checkpoint) == (frozenset(), OPENED.checkpoint)
    assert [it.n for it in run.iterations] == [1]
    assert run.tally(ONE.key).calls == 1
    again = replayed(*FINISHED, f.TakenBack(3), f.TakenBack(len(FINISHED)))
    assert (again.finished, again.tallies) == (frozenset({ONE.key}), {})


def test_a_live_run_knows_nothing_of_what_was() -> None:
    assert told(OPENED, f.TakenBack(1)) == told(OPENED)


# The operation, the commit it made, the facts so far; how many facts there were before it.
POSITIONS: dict[str, tuple[str, str, tuple[f.Fact, ...], int | None]] = {
    "a checkpoint": ("checkpoint", "c1", FINISHED, 3),
    "a checkpoint that the journal does not know": ("checkpoint", "c9", FINISHED, None),
    "the choice": ("keep", "c1", CHOSEN, len(FINISHED)),
    "a choice made again after a kill": (
        *("keep", "c1", (*CHOSEN[:-1], *CHOSEN[len(FINISHED) :]), len(FINISHED)),
    ),
    "a restore": ("restore", "b0", (*CHOSEN, f.Abandoned("restored")), len(CHOSEN)),
    "a story that was taken out": (
        *("undo story", "f9", (*CHOSEN, f.StoryUndone(ONE.key, "c2"))),
        len(CHOSEN),
    ),
    "a put-back": ("put-back", "c0", FINISHED, None),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_facts_before_an_operation(name: str) -> None:
    operation, commit, facts, position = POSITIONS[name]
    assert facts_before(operation, commit, facts) == position


def test_where_the_branch_was_before_a_story() -> None:
    landed = (*JUDGED, f.LandIntended(0, "tip", "c1"), f.Landed(0, "c1"))
    assert story_base(stamped(*landed), "c1") == "tip"
    saved = stamped(*JUDGED, SAVED)
    assert story_base(saved, "c1") == OPENED.checkpoint
    assert story_base(saved, "c9") == ""


def test_ticks_of_an_attempt_that_a_crash_cut_short_are_taken_back() -> None:
    text = "## 1. Story 1\n- [{}] 1.1 a\n\n## 2. Story 2\n- [{}] 2.1 b\n"
    facts = (OPENED, loaded(), began(), ended(Outcome.INTERRUPTED), measured())
    loop = FakeLoop((COMPLETE, COMPLETE), source=FakeSource(text.format("x", "x")))
    loop.folder.keep_open([["1", "Story 1", "a"], ["2", "Story 2", "b"]])
    run = loop.drive(replace(told(*facts), book=None))
    assert [it.story_id for it in run.iterations] == ["1", "1", "2"]
    assert loop.folder.open[0] == ["1", "Story 1", "a"]


def test_boxes_of_other_stories_are_taken_back_after_a_crash_before_the_save() -> None:
    text = "## 1. Story 1\n- [x] 1.1 a\n\n## 2. Story 2\n- [x] 2.1 b\n"
    loop = FakeLoop((COMPLETE,), source=FakeSource(text))
    loop.folder.keep_open([["1", "Story 1", "a"], ["2", "Story 2", "b"]])
    run = loop.drive(replace(told(OPENED, loaded(), began(), ended(), measured()), book=None))
    assert [it.story_id for it in run.iterations] == ["1", "2"]
