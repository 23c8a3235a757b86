"""The loop without stories, driven through fakes."""

import pytest
from msgspec.structs import replace

from tests.fakes.agent import COMPLETE, INTERRUPTED, SILENT, failed
from tests.fakes.checkpoint import FakeCheckpoint
from tests.fakes.loop import STORIES, FakeLoop
from tests.fakes.plans import LIMITS, PLAIN
from tests.fakes.source import FakeSource
from tests.fakes.verifier import FakeVerifier
from untildone.domain.agents.agent import AgentReport
from untildone.domain.run import fact as f
from untildone.domain.run.plan import Done, Plan
from untildone.domain.run.run import Outcome, Reason, Status, Stop, StopHow
from untildone.ports import Notify

TASKS = replace(PLAIN, done=Done.TASKS)
PROMISE = replace(PLAIN, done=Done.PROMISE, verify=("test",))


def test_the_same_prompt_until_the_cap() -> None:
    plan = replace(PLAIN, limits=replace(LIMITS, max_iterations=3))
    loop = FakeLoop((COMPLETE, failed("no net"), SILENT), plan=plan, source=None)
    run = loop.drive()
    assert (run.status, run.reason) == (Status.STUCK, Reason.MAX_ITERATIONS)
    assert len(set(loop.agent.prompts)) == 1
    assert [it.outcome for it in run.iterations] == [
        *(Outcome.COMPLETE, Outcome.FAILED, Outcome.NO_PROMISE),
    ]
    assert [it.commits for it in run.iterations] == [("c1",), ("c2",), ("c3",)]
    assert [message.partition("\n")[0] for message in loop.checkpoint.messages] == [
        *("checkpoint: iteration-1", "checkpoint: iteration-2", "checkpoint: iteration-3"),
    ]
    assert "revert" not in [call[0] for call in loop.checkpoint.calls]


def test_stalled() -> None:
    checkpoint = FakeCheckpoint()
    checkpoint.dirty = False
    run = FakeLoop((SILENT, SILENT), plan=PLAIN, source=None, checkpoint=checkpoint).drive()
    assert (run.status, run.reason, run.closed) == (Status.STALLED, Reason.STALLED, True)
    assert [it.commits for it in run.iterations] == [(), ()]


def test_boxes_end_it() -> None:
    def ticks(notify: Notify) -> AgentReport:
        assert loop.source
        loop.source.text = STORIES.replace("[ ]", "[x]")
        return failed("but not sure")

    loop = FakeLoop((SILENT, ticks), plan=TASKS)
    run = loop.drive()
    assert (run.status, [it.done_check for it in run.iterations]) == (Status.DONE, [False, True])
    assert [it.commits for it in run.iterations] == [("c1",), ("c2",)]


def test_no_boxes_are_not_done() -> None:
    plan = replace(TASKS, limits=replace(LIMITS, max_iterations=1))
    for source in (FakeSource("## 1. First\n"), None):
        run = FakeLoop((SILENT,), plan=plan, source=source).drive()
        assert (run.status, run.reason) == (Status.STUCK, Reason.MAX_ITERATIONS)


def test_manual_is_not_ended_by_boxes_but_by_the_person() -> None:
    def word(notify: Notify) -> AgentReport:
        loop.mail.drop(f.PersonDone())
        return SILENT

    source = FakeSource(STORIES.replace("[ ]", "[x]"))
    loop = FakeLoop((SILENT, word), plan=PLAIN, source=source)
    run = loop.drive()
    assert (run.status, len(run.iterations), loop.record.of("stories_loaded")) == (
        *(Status.DONE, 2, []),
    )


def test_a_promise_that_passes_the_checks_ends_it() -> None:
    verifier = FakeVerifier({"test": ["red"]})
    loop = FakeLoop((failed("x"), COMPLETE, COMPLETE), plan=PROMISE, verifier=verifier, source=None)
    run = loop.drive()
    assert (run.status, run.reason) == (Status.DONE, Reason.SUCCESS)
    assert [(it.outcome, it.done_check) for it in run.iterations] == [
        (Outcome.FAILED, False),
        (Outcome.VERIFY_FAILED, False),
        (Outcome.COMPLETE, True),
    ]
    assert len(set(loop.agent.prompts)) == 1


@pytest.mark.parametrize("plan", [PLAIN, TASKS, PROMISE], ids=lambda plan: str(plan.done))
@pytest.mark.parametrize("how", StopHow)
def test_stop_keeps_the_work(plan: Plan, how: StopHow) -> None:
    def stopped(notify: Notify) -> AgentReport:
        loop.mail.drop(f.StopRequested(Stop(how)))
        return INTERRUPTED

    loop = FakeLoop((stopped,), plan=plan)
    run = loop.drive()
    assert (run.status, run.iterations[0].commits) == (Status.STOPPED, ("c1",))
