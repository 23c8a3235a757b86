"""Budgets in the loop: looked at between calls, never in the middle of one."""

import pytest
from msgspec.structs import replace

from tests.fakes.agent import failed, said
from tests.fakes.loop import FakeLoop
from tests.fakes.plans import PLAIN, PLAN, at
from untildone.app.orchestrator import drive
from untildone.domain.agents.agent import AgentReport, Kind, Trouble, Usage
from untildone.domain.agents.promise import Promise
from untildone.domain.costs.budget import read
from untildone.domain.reporting import views
from untildone.domain.run import fact as f
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Status, Stop, StopHow

DONE = said(Promise(complete=True), usage=Usage(100, 20))
SAID_NO = replace(failed("no"), reading=replace(failed("no").reading, usage=Usage(100, 20)))
LIMITED = said(error="limit", limit=Trouble(Kind.QUOTA_EXHAUSTED, "limit", at(3600)))
STOP = f.StopRequested(Stop(StopHow.NOW))


def loop(*replies: AgentReport, budget: str, plan: Plan = PLAN) -> FakeLoop:
    return FakeLoop(replies, plan=replace(plan, budgets=read((budget,))))


def test_the_call_that_goes_over_is_kept_and_then_the_run_stops() -> None:
    one = loop(DONE, budget="tokens=100")
    run = one.drive()
    assert (run.status, run.finished_count, run.closed) == (Status.STOPPED, 1, False)
    assert [it.commits for it in run.iterations] == [("c1",)]
    assert one.record.names[-5:] == [
        *("checkpoint_saved", "stories_loaded", "error", "complete", "finished"),
    ]
    assert one.record.of("error")[0]["budget"] == "tokens"


def test_a_run_that_is_done_is_done() -> None:
    assert loop(DONE, DONE, budget="tokens=240").drive().status is Status.DONE


def test_a_failed_attempt_at_the_budget_keeps_its_retries() -> None:
    run = loop(SAID_NO, budget="story-iterations=1").drive()
    assert run.over is not None
    assert (run.status, run.over.story_id) == (Status.STOPPED, "1")
    assert [(t.calls, t.spent) for t in run.tallies.values()] == [(1, 1)]


def test_the_plain_loop_has_budgets_too() -> None:
    run = loop(DONE, DONE, budget="iterations=2", plan=PLAIN).drive()
    assert (run.status, len(run.iterations)) == (Status.STOPPED, 2)


@pytest.mark.parametrize("by_mail", [False, True])
def test_on_a_terminal_the_loop_waits_and_goes_on(by_mail: bool) -> None:
    one = loop(DONE, DONE, budget="tokens=100")
    one.human.at_terminal = True
    more = f.BudgetSet(read(("tokens=500",)))
    phases: list[str] = []
    machine = one.driver()

    def waiting() -> None:
        phases.append(views.phase(machine.run))
        one.clock.advance(3600)
        if by_mail:
            one.mail.drop(more)

    one.on_wait = waiting
    one.human.budgets = [None if by_mail else more]
    run = drive(machine)
    assert (run.status, one.human.asked_for) == (Status.DONE, ["tokens"])
    assert phases == ["waiting_budget"]
    assert run.ledger.total.seconds == 0


def test_a_word_ends_the_pause() -> None:
    one = loop(DONE, budget="tokens=100")
    one.human.at_terminal = True
    one.human.budgets = [STOP]
    run = one.drive()
    assert (run.status, len(run.iterations)) == (Status.STOPPED, 1)


def test_time_runs_out_while_a_limit_is_waited_out() -> None:
    one = loop(LIMITED, budget="time=30m")
    one.human = type(one.human)(one.clock, on_wait=lambda: None)
    run = one.drive()
    assert run.over is not None
    assert (run.status, run.over.name) == (Status.STOPPED, "time")
    assert run.lanes[0].waiting is not None


def test_no_limit_is_waited_out_for_a_run_without_budget() -> None:
    spent = said(
        error="limit",
        usage=Usage(100, 20),
        limit=Trouble(Kind.QUOTA_EXHAUSTED, "limit", at(3600)),
    )
    one = loop(spent, budget="tokens=100")
    run = one.drive()
    assert (run.status, one.human.waits) == (Status.STOPPED, [])
