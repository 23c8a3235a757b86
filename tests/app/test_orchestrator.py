"""The loop, driven through fakes of every port."""

import pytest
from msgspec.structs import replace

from tests.fakes.agent import COMPLETE, INTERRUPTED, SILENT, failed, said
from tests.fakes.checkpoint import FakeCheckpoint
from tests.fakes.loop import STORIES, FakeLoop
from tests.fakes.mail import FakeMail
from tests.fakes.meter import FakeMeter
from tests.fakes.plans import (
    LIMITS,
    NOW,
    OPENED,
    ORIGIN,
    PLAIN,
    PLAN,
    at,
    began,
    book,
    ended,
    loaded,
    story,
    told,
)
from tests.fakes.source import FakeSource
from tests.fakes.verifier import FakeVerifier
from untildone.app.call_agent import EVENT_SIZE, NOTICE_BUDGET
from untildone.app.orchestrator import drive
from untildone.app.run_driver import RunDriver
from untildone.domain.agents.agent import (
    AgentReport,
    AgentText,
    Ending,
    Intent,
    Kind,
    Reading,
    Session,
    Trouble,
    Usage,
)
from untildone.domain.agents.promise import Promise
from untildone.domain.errors import (
    CloseRefused,
    Interrupted,
    SourceAway,
    StepError,
    StoriesError,
    UserError,
    WorkDiverged,
)
from untildone.domain.reporting.event import Event
from untildone.domain.run import fact as f
from untildone.domain.run.plan import Done
from untildone.domain.run.run import Choice, Outcome, Reason, Status, Stop, StopHow
from untildone.domain.stories.story import Remark, StoryBook
from untildone.ports import Notify

STOP = f.StopRequested(Stop(StopHow.NOW))
VERIFY = replace(PLAN, verify=("lint", "test"))
MESSAGE_1 = "checkpoint: 1\n\nUntildone-Run: r1\nUntildone-Story: 1\nUntildone-Attempt: 1\n"


class BookSource(FakeSource):
    """Gives the same book whenever it is asked."""

    def __init__(self, book: StoryBook) -> None:
        super().__init__()
        self._book = book

    def load(self) -> StoryBook:
        return self._book


def outcomes(loop: FakeLoop) -> list[object]:
    return [event["outcome"] for event in loop.record.of("iteration_ended")]


def test_two_stories_done_and_kept() -> None:
    loop = FakeLoop((COMPLETE, COMPLETE))
    run = loop.drive()
    assert (run.status, run.reason, run.choice, run.closed) == (
        *(Status.DONE, Reason.SUCCESS, Choice.KEEP, True),
    )
    assert loop.checkpoint.calls == [
        ("open", "20260102T030405000000"),
        ("ensure_at", "c0"),
        ("commits", "c0"),
        ("diverged", "c0"),
        ("save", "c0", False),
        ("ensure_at", "c1"),
        ("commits", "c1"),
        ("diverged", "c1"),
        ("save", "c1", False),
        ("close", Choice.KEEP, ORIGIN),
    ]
    assert loop.record.names == [
        *("run_started", "stories_loaded"),
        *("iteration_started", "iteration_ended", "checkpoint_saved", "stories_loaded"),
        *("iteration_started", "iteration_ended", "checkpoint_saved", "stories_loaded"),
        *("complete", "finished"),
    ]
    assert loop.checkpoint.messages[0] == MESSAGE_1
    assert loop.source is not None
    assert loop.source.load().complete == 2


def test_a_finished_change_is_archived_on_request() -> None:
    plan = replace(PLAN, archive=True)
    loop = FakeLoop((COMPLETE, COMPLETE), plan=plan, archive=lambda: "archive/demo")
    loop.checkpoint.dirty = True
    run = loop.drive()
    assert (run.status, run.archived, run.lanes[0].checkpoint) == (Status.DONE, True, "c3")
    assert loop.record.names[-3:] == ["complete", "archived", "finished"]
    assert loop.checkpoint.messages[-1].startswith("archive: demo\n\nUntildone-Run: r1\n")


def test_a_change_that_cannot_be_archived_is_done_all_the_same() -> None:
    def refuse() -> str:
        raise StoriesError("a box is open")

    loop = FakeLoop((COMPLETE, COMPLETE), plan=replace(PLAN, archive=True), archive=refuse)
    run = loop.drive()
    assert (run.status, run.closed, run.lanes[0].checkpoint) == (Status.DONE, True, "c2")
    assert loop.record.names[-3:] == ["complete", "warning", "finished"]


def test_what_the_agent_gets() -> None:
    loop = FakeLoop((COMPLETE, COMPLETE), plan=replace(PLAN, model="best"))
    loop.drive()
    prompts = loop.agent.prompts
    assert [replace(intent, asked=None) for intent in loop.agent.intents] == [
        Intent(prompts[0], "/work", "scratch/0", "1", 1, "best", agent="scripted"),
        Intent(prompts[1], "/work", "scratch/0", "2", 1, "best", agent="scripted"),
    ]
    assert loop.folder.prompts == {1: prompts[0], 2: prompts[1]}
    assert ("1.1" in prompts[0], "- [ ] a" in prompts[0], "- [ ] b" in prompts[0]) == (
        *(False, True, False),
    )


def test_the_start_is_on_record_before_the_agent_runs() -> None:
    seen: list[f.Fact] = []

    def look(notify: Notify) -> AgentReport:
        seen.append(loop.record.facts[-1][0])
        return COMPLETE

    loop = FakeLoop((look, COMPLETE))
    loop.drive()
    assert seen == [f.AttemptStarted(0, 1, "1", ("1", "First"), "logs/1", "scripted")]


def test_failure_reason_is_in_exactly_one_prompt() -> None:
    loop = FakeLoop((failed("no net"), SILENT, COMPLETE, COMPLETE))
    run = loop.drive()
    first, second, third, _ = loop.agent.prompts
    assert first == third
    assert "no net" in second
    assert second.replace(_previous("no net"), "") == first
    assert outcomes(loop) == [Outcome.FAILED, Outcome.NO_PROMISE, *[Outcome.COMPLETE] * 2]
    assert [it.saved_ref for it in run.iterations] == [
        *("refs/ralph/attempts/demo/1/1", "refs/ralph/attempts/demo/1/2", "", ""),
    ]


def _previous(reason: str) -> str:
    intro = "The previous attempt failed and its changes were put back. Its reason:"
    return f"# The previous attempt\n\n{intro}\n\n{reason}\n\n"


NOTHING_SAID = {
    "silence": SILENT,
    "crash": AgentReport(Ending.EXITED, 137),
    "time-out": AgentReport(Ending.TIMEOUT),
    "idle": AgentReport(Ending.IDLE_TIMEOUT),
    "not started": AgentReport(Ending.NOT_STARTED, None, Reading(error="no such program")),
    "error": said(error="overflow"),
}


@pytest.mark.parametrize("name", NOTHING_SAID)
def test_after_no_promise_the_prompt_is_byte_equal(name: str) -> None:
    loop = FakeLoop((NOTHING_SAID[name], COMPLETE, COMPLETE))
    loop.drive()
    assert loop.agent.prompts[0] == loop.agent.prompts[1]


def test_retries_used_up() -> None:
    loop = FakeLoop((failed("a"), failed("b"), failed("c")))
    run = loop.drive()
    assert (run.status, run.reason, run.closed) == (Status.STUCK, Reason.MAX_RETRIES, True)
    (error,) = loop.record.of("error")
    assert (error["story_id"], error["reason"], error["saved_ref"]) == (
        *("1", "c", "refs/ralph/attempts/demo/1/3"),
    )
    assert loop.record.names[-4:] == ["reverted", "error", "complete", "finished"]


def test_checks_run_in_order_and_stop_at_the_first_failure() -> None:
    verifier = FakeVerifier({"test": ["The check `test` failed", ""]})
    loop = FakeLoop((COMPLETE, COMPLETE, COMPLETE), plan=VERIFY, verifier=verifier)
    loop.drive()
    assert outcomes(loop) == [Outcome.VERIFY_FAILED, Outcome.COMPLETE, Outcome.COMPLETE]
    assert [command for command, _ in verifier.calls] == ["lint", "test"] * 3
    assert {seconds for _, seconds in verifier.calls} == {45 * 60}
    assert "The check `test` failed" in loop.agent.prompts[1]
    assert loop.record.of("verify_ended")[:2] == [
        {"command": "lint", "level": "required", "passed": True, "reason": ""},
        {
            "command": "test",
            "level": "required",
            "passed": False,
            "reason": "The check `test` failed",
        },
    ]


def test_failed_first_check_is_the_last() -> None:
    verifier = FakeVerifier({"lint": ["ugly", "", ""]})
    loop = FakeLoop((COMPLETE, COMPLETE, COMPLETE), plan=VERIFY, verifier=verifier)
    loop.drive()
    assert [command for command, _ in verifier.calls][:3] == ["lint", "lint", "test"]


def test_stop_in_mid_attempt() -> None:
    def stopped(notify: Notify) -> AgentReport:
        loop.mail.drop(STOP)
        return INTERRUPTED

    loop = FakeLoop((failed("no net"), stopped))
    run = loop.drive()
    assert (run.status, run.reason, run.closed) == (Status.STOPPED, Reason.STOPPED, False)
    assert run.iterations[-1].outcome is Outcome.INTERRUPTED
    assert loop.record.names[-3:] == ["reverted", "complete", "finished"]
    again = FakeLoop((COMPLETE, COMPLETE), source=loop.source)
    driver = again.driver(run)
    driver.record(f.Resumed(PLAN))
    assert drive(driver).status is Status.DONE
    assert "no net" in again.agent.prompts[0]
    assert again.record.of("iteration_started")[0]["n"] == 3


def test_stop_while_checks_run() -> None:
    mail = FakeMail()
    verifier = FakeVerifier({"lint": ["cut short"]}, during=lambda: mail.drop(STOP))
    loop = FakeLoop((COMPLETE,), plan=VERIFY, verifier=verifier, mail=mail)
    run = loop.drive()
    assert (run.status, run.iterations[-1].outcome) == (Status.STOPPED, Outcome.INTERRUPTED)


@pytest.mark.parametrize(("how", "calls"), [(StopHow.AFTER_ITERATION, 1), (StopHow.AFTER_STORY, 2)])
def test_soft_stop(how: StopHow, calls: int) -> None:
    def first(notify: Notify) -> AgentReport:
        loop.mail.drop(f.StopRequested(Stop(how)))
        return SILENT

    loop = FakeLoop((first, COMPLETE))
    run = loop.drive()
    assert (run.status, len(loop.agent.intents)) == (Status.STOPPED, calls)


def test_a_limit_is_waited_out_and_uses_no_attempt() -> None:
    limit = said(error="limit", limit=OVERLOADED)
    loop = FakeLoop((limit, limit, COMPLETE, COMPLETE))
    run = loop.drive()
    assert loop.human.waits == [5, 10]
    assert [it.n for it in run.iterations] == [1, 2]
    assert [event["attempt"] for event in loop.record.of("iteration_started")] == [1, 1, 1, 1]
    assert [call for call in loop.checkpoint.calls if call[0] == "revert"] == [
        ("revert", "c0", "1-limit", 1),
        ("revert", "c0", "1-limit", 1),
    ]
    assert [event["why"] for event in loop.record.of("waiting")] == ["overloaded", "overloaded"]


OVERLOADED = Trouble(Kind.OVERLOADED, "overloaded")


def test_what_a_call_at_a_limit_has_cost_is_counted() -> None:
    limit = said(error="limit", limit=OVERLOADED, usage=Usage(7, 3, cost_usd=0.5))
    run = FakeLoop((limit, limit, COMPLETE, COMPLETE)).drive()
    assert (run.unattempted.total, run.unattempted.cost_usd) == (20, 1.0)
    plain = FakeLoop((limit, COMPLETE), plan=replace(PLAIN, done=Done.PROMISE)).drive()
    assert (plain.unattempted.total, len(plain.iterations)) == (10, 1)


def test_a_guess_at_the_tokens_of_a_call_at_a_limit_is_not_counted() -> None:
    limit = said(error="limit", limit=OVERLOADED, usage=Usage(7, estimated=True))
    run = FakeLoop((limit, COMPLETE, COMPLETE)).drive()
    assert run.unattempted == Usage()


def test_another_agent_steps_in_instead_of_waiting() -> None:
    limit = said(error="limit", limit=Trouble(Kind.QUOTA_EXHAUSTED, "used up", at(60)))
    plan = replace(PLAN, model="best", fallback="codex:small")

    def later(notify: Notify) -> AgentReport:
        loop.clock.advance(100)
        return COMPLETE

    loop = FakeLoop((limit, later, COMPLETE), plan=plan)
    run = loop.drive()
    asked = [(intent.agent, intent.model) for intent in loop.agent.intents]
    assert asked == [("scripted", "best"), ("codex", "small"), ("scripted", "best")]
    assert [it.agent for it in run.iterations] == ["codex", "scripted"]
    assert loop.human.waits == []
    assert any("codex:small steps in" in str(e["message"]) for e in loop.record.of("warning"))


def test_when_both_are_at_a_limit_it_waits() -> None:
    limit = said(error="limit", limit=OVERLOADED)
    plan = replace(PLAN, fallback="codex")
    loop = FakeLoop((limit, limit, COMPLETE, COMPLETE), plan=plan)
    loop.drive()
    assert [intent.agent for intent in loop.agent.intents][:2] == ["scripted", "codex"]
    assert len(loop.human.waits) == 1


def test_a_stand_in_works_for_the_rung_that_is_at_its_limit_only() -> None:
    limit = said(error="limit", limit=Trouble(Kind.QUOTA_EXHAUSTED, "used up", at(600)))
    limits = replace(LIMITS, max_retries=1)
    plan = replace(PLAN, ladder=("scripted", "goose"), fallback="codex:small", limits=limits)
    loop = FakeLoop((limit, failed("a"), limit, COMPLETE, limit, COMPLETE), plan=plan)
    run = loop.drive()
    asked = [(intent.agent, intent.model) for intent in loop.agent.intents]
    usual, above, stand_in = ("scripted", ""), ("goose", ""), ("codex", "small")
    assert asked == [usual, stand_in, above, stand_in, usual, stand_in]
    assert [it.rung for it in run.iterations] == [0, 1, 0]
    assert loop.human.waits == []
    assert [str(e["message"]).partition(";")[0] for e in loop.record.of("warning")] == [
        *("scripted: used up", "goose: used up", "scripted: used up"),
    ]


def test_who_is_not_logged_in_needs_a_person_and_uses_no_attempt() -> None:
    login = said(error="Please run /login", limit=Trouble(Kind.NOT_LOGGED_IN, "not logged in"))
    loop = FakeLoop((login,))
    run = loop.drive()
    assert (run.status, run.reason, run.error) == (Status.STUCK, Reason.ERROR, "Please run /login")
    assert [(it.outcome, it.outcome_class) for it in run.iterations] == [
        (Outcome.AGENT_ERROR, "not_logged_in")
    ]
    assert run.tally(run.iterations[0].story_key).spent == 0
    assert "untildone agents" in str(loop.record.of("error")[0]["hint"])


@pytest.mark.parametrize("resumes", [True, False])
def test_a_retry_goes_on_with_the_conversation_if_asked(resumes: bool) -> None:
    plan = replace(PLAN, resume_session=resumes)
    loop = FakeLoop((failed("no net"), COMPLETE, COMPLETE), plan=plan)
    loop.drive()
    wanted = Session("session") if resumes else None
    assert [intent.resume for intent in loop.agent.intents] == [None, wanted, None]


def test_denied_tools_are_told() -> None:
    denied = AgentReport(Ending.EXITED, 0, Reading(Promise(complete=True), denied=("Write a.txt",)))
    loop = FakeLoop((denied, COMPLETE, COMPLETE))
    run = loop.drive()
    assert run.iterations[0].outcome is Outcome.AGENT_ERROR
    assert "Write a.txt" in str(loop.record.of("warning")[0]["message"])


def test_an_agent_that_lingers_is_told_and_its_work_kept() -> None:
    loop = FakeLoop((AgentReport(Ending.LINGERED, None, Reading(Promise(complete=True))), COMPLETE))
    run = loop.drive()
    assert [it.outcome for it in run.iterations] == [Outcome.COMPLETE, Outcome.COMPLETE]
    assert "did not exit" in str(loop.record.of("warning")[0]["message"])


def test_a_failed_call_without_a_word_gets_no_invented_tokens() -> None:
    guess = Usage(9000, estimated=True)
    failed_call = AgentReport(Ending.EXITED, 1, Reading(error="401", usage=guess))
    worked = replace(failed_call, spoke=True)
    loop = FakeLoop((failed_call, worked, COMPLETE, COMPLETE))
    run = loop.drive()
    assert [it.usage for it in run.iterations[:2]] == [None, guess]


def test_stop_while_waiting() -> None:
    def stop() -> None:
        loop.mail.drop(STOP)

    loop = FakeLoop((said(error="limit", limit=OVERLOADED),), on_wait=stop)
    run = loop.drive()
    assert (run.status, run.iterations) == (Status.STOPPED, ())


def test_manual_waits_for_the_person() -> None:
    def word() -> None:
        loop.mail.drop(f.PersonDone())

    plan = replace(PLAN, done=Done.MANUAL)
    loop = FakeLoop((COMPLETE, COMPLETE), plan=plan, on_wait=word)
    run = loop.drive()
    assert (run.status, run.closed, len(run.iterations)) == (Status.DONE, True, 2)


def test_the_choice_may_come_by_mail() -> None:
    def choose() -> None:
        loop.mail.drop(f.ChoiceMade(Choice.CLEANUP))

    loop = FakeLoop((COMPLETE, COMPLETE), answers=(None,), on_wait=choose)
    assert loop.drive().choice is Choice.CLEANUP


def test_a_signal_while_the_choice_is_open() -> None:
    def signal() -> None:
        loop.mail.drop(f.StopRequested(Stop(StopHow.NOW, 2)))

    loop = FakeLoop((COMPLETE, COMPLETE), answers=(None,), on_wait=signal)
    run = loop.drive()
    assert (run.status, run.closed, run.choice) == (Status.DONE, False, None)
    assert loop.record.names[-2:] == ["complete", "finished"]


def test_refused_choice() -> None:
    error = CloseRefused("Conflicts in: a.txt", state="Nothing was changed.", hint="Merge.")
    loop = FakeLoop((COMPLETE, COMPLETE), checkpoint=FakeCheckpoint(close=error))
    run = loop.drive()
    assert (run.status, run.refused, run.closed, run.choice) == (Status.DONE, True, True, None)
    assert loop.record.facts[-1][0] == f.Refused(
        Choice.KEEP, "Conflicts in: a.txt. Nothing was changed.", "Merge."
    )


STEPS = {
    "ensure_at": ("RunAttempt", StepError("HEAD is elsewhere", hint="git checkout")),
    "commits": ("RunAttempt", StepError("git failed")),
    "save": ("Save", StepError("disk full")),
    "close": ("Close", StepError("disk full")),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_failing_step_is_a_fact(name: str) -> None:
    step, error = STEPS[name]
    loop = FakeLoop((COMPLETE, COMPLETE), checkpoint=FakeCheckpoint(**{name: error}))
    run = loop.drive()
    failures = [fact for fact, _ in loop.record.facts if isinstance(fact, f.StepFailed)]
    assert failures == [f.StepFailed(step, error.message, error.hint)]
    assert run.closed
    if name != "close":
        assert (run.status, run.reason) == (Status.STUCK, Reason.ERROR)


def test_a_source_that_breaks_in_mid_run() -> None:
    def breaks(notify: Notify) -> AgentReport:
        assert loop.source
        loop.source.text = None
        return COMPLETE

    loop = FakeLoop((breaks,))
    run = loop.drive()
    assert (run.status, run.reason, run.choice) == (Status.STUCK, Reason.ERROR, Choice.KEEP)
    assert loop.record.names[-4:] == ["reverted", "error", "complete", "finished"]
    assert [(it.outcome, it.saved_ref) for it in run.iterations] == [
        (Outcome.VERIFY_FAILED, "refs/ralph/attempts/demo/1/1")
    ]
    assert run.error == run.iterations[0].reason == "There is no such file: memory.md"


def test_a_source_that_is_away_leaves_the_work_to_the_next_start() -> None:
    def goes_away(notify: Notify) -> AgentReport:
        assert loop.source
        loop.source.error = SourceAway("no answer")
        return COMPLETE

    loop = FakeLoop((goes_away,))
    run = loop.drive()
    assert (run.status, run.reason, run.error) == (Status.STUCK, Reason.ERROR, "no answer")
    assert run.lanes[0].iteration is not None
    assert "reverted" not in loop.record.names


def test_a_story_that_cannot_be_found_again_is_a_failed_attempt() -> None:
    def renames(notify: Notify) -> AgentReport:
        assert loop.source
        loop.source.text = STORIES.replace("First", "Other").replace("1.1 a", "1.1 nothing")
        return COMPLETE

    def put_back() -> None:
        assert loop.source
        loop.source.text = STORIES

    loop = FakeLoop((renames, COMPLETE, COMPLETE))
    loop.checkpoint.on_revert = put_back
    run = loop.drive()
    assert [it.outcome for it in run.iterations] == [
        *(Outcome.VERIFY_FAILED, Outcome.COMPLETE, Outcome.COMPLETE),
    ]
    assert run.iterations[0].reason == "Story 1 is not found by number and text any more: memory.md"
    assert [event["outcome"] for event in loop.record.of("iteration_ended")] == [
        *("verify_failed", "complete", "complete"),
    ]
    assert "is not found by number and text" in loop.agent.prompts[1]


def test_a_check_that_renames_the_story_fails_the_attempt() -> None:
    def renames() -> None:
        assert loop.source
        loop.source.text = STORIES.replace("First", "Other").replace("1.1 a", "1.1 nothing")

    once = replace(VERIFY, limits=replace(VERIFY.limits, max_retries=0))
    loop = FakeLoop((COMPLETE,), plan=once, verifier=FakeVerifier(during=renames))
    run = loop.drive()
    assert [it.outcome for it in run.iterations] == [Outcome.VERIFY_FAILED]
    assert run.iterations[0].reason == "memory.md: the story is not there any more: 1"


DIVERGED = "The work does not build on the branch `ralph/demo`"


def test_work_that_left_the_branch_is_a_failed_attempt_and_is_said_so() -> None:
    checkpoint = FakeCheckpoint()
    checkpoint.lost = DIVERGED
    loop = FakeLoop((COMPLETE, COMPLETE, COMPLETE), checkpoint=checkpoint)
    run = loop.drive()
    assert (run.iterations[0].outcome, run.iterations[0].reason) == (
        Outcome.VERIFY_FAILED,
        DIVERGED,
    )
    assert [event["outcome"] for event in loop.record.of("iteration_ended")] == [
        *("verify_failed", "complete", "complete"),
    ]


def test_a_check_that_moves_the_work_off_the_branch_fails_the_attempt() -> None:
    checkpoint = FakeCheckpoint(save=WorkDiverged(DIVERGED))
    loop = FakeLoop((COMPLETE, COMPLETE, COMPLETE), checkpoint=checkpoint)
    run = loop.drive()
    assert [it.outcome for it in run.iterations] == [
        *(Outcome.VERIFY_FAILED, Outcome.COMPLETE, Outcome.COMPLETE),
    ]
    assert run.iterations[0].reason == DIVERGED
    assert [call[:2] for call in checkpoint.calls if call[0] == "revert"] == [("revert", "c0")]
    assert [DIVERGED in prompt for prompt in loop.agent.prompts] == [False, True, False]


def test_ticks_of_a_failed_attempt_are_taken_back() -> None:
    def ticks(notify: Notify) -> AgentReport:
        assert loop.source
        loop.source.text = STORIES.replace("[ ]", "[x]")
        return SILENT

    loop = FakeLoop((ticks, COMPLETE, COMPLETE))
    run = loop.drive()
    assert loop.source
    assert [len(book.open_stories(frozenset())) for book in loop.source.taken_back] == [2]
    assert (run.status, [it.story_id for it in run.iterations]) == (Status.DONE, ["1", "1", "2"])


def test_ticks_are_left_when_the_stories_are_not_known() -> None:
    crashed = told(OPENED, loaded(), began(), ended(Outcome.NO_PROMISE))
    loop = FakeLoop((COMPLETE, COMPLETE))
    assert loop.drive(replace(crashed, book=None)).status is Status.DONE
    assert loop.source
    assert loop.source.taken_back == []


def test_the_choice_is_asked_for_again() -> None:
    signal = f.StopRequested(Stop(StopHow.NOW, 15))
    stopped = told(OPENED, loaded(done=True), signal)
    assert FakeLoop(()).drive(stopped) == stopped
    again = FakeLoop((), answers=(Choice.CLEANUP,))
    asking = again.driver(stopped)
    asking.record(f.AskedAgain(PLAN))
    run = drive(asking)
    assert (run.status, run.choice, run.closed) == (Status.DONE, Choice.CLEANUP, True)
    assert again.record.names == ["run_started", "complete", "finished"]


def test_a_source_with_problems_cannot_be_run() -> None:
    run = FakeLoop((), source=FakeSource("")).drive()
    assert (run.status, run.reason, run.error) == (
        *(Status.STUCK, Reason.ERROR, "memory.md:1: no story"),
    )


def test_stories_that_wait_for_each_other_cannot_be_run() -> None:
    source = BookSource(book(story(1, after=("2",)), story(2, after=("1",)), story(3, done=True)))
    run = FakeLoop((), source=source).drive()
    assert (run.status, run.reason, run.error) == (
        *(Status.STUCK, Reason.ERROR),
        "tasks:1: Stories wait for each other: 1 → 2 → 1",
    )


def test_a_stop_that_comes_while_the_workspace_is_made() -> None:
    loop = FakeLoop((), mail=FakeMail(STOP))
    run = loop.drive()
    assert (run.status, run.reason, run.lanes[0].checkpoint) == (
        *(Status.STOPPED, Reason.STOPPED, "c0"),
    )
    assert loop.record.names == ["run_started", "complete", "finished"]
    assert [call[0] for call in loop.checkpoint.calls] == ["open"]


def test_a_stop_that_comes_with_a_limit() -> None:
    def stopped(notify: Notify) -> AgentReport:
        loop.mail.drop(STOP)
        return said(error="limit", limit=OVERLOADED)

    loop = FakeLoop((stopped,))
    run = loop.drive()
    assert (run.status, run.iterations, loop.human.waits) == (Status.STOPPED, (), [])


def test_a_stop_before_the_checks() -> None:
    def stopped(notify: Notify) -> AgentReport:
        loop.mail.drop(STOP)
        return COMPLETE

    loop = FakeLoop((stopped,), plan=VERIFY)
    run = loop.drive()
    assert (run.status, outcomes(loop), loop.verifier.calls) == (
        *(Status.STOPPED, [Outcome.INTERRUPTED], []),
    )
    assert loop.meter.calls == ["start"]


def test_remarks_of_the_start_come_first() -> None:
    loop = FakeLoop((COMPLETE, COMPLETE))
    driver = RunDriver(loop.driver().ports, told(), ORIGIN, ("No tasks.md found",))
    drive(driver)
    assert loop.record.of("warning") == [{"message": "No tasks.md found"}]


def test_a_source_that_breaks_between_stories() -> None:
    def breaks(notify: Notify) -> AgentReport:
        assert loop.source
        loop.source.error = StoriesError("tasks.md: line 3")
        return SILENT

    loop = FakeLoop((breaks,))
    run = loop.drive()
    assert (run.status, run.error) == (Status.STUCK, "tasks.md: line 3")


def test_an_agent_that_cannot_be_reached_is_a_failed_step() -> None:
    run = FakeLoop((UserError("no such agent"),)).drive()
    assert (run.status, run.error) == (Status.STUCK, "no such agent")
    assert run.lanes[0].iteration is not None


def test_an_error_before_the_workspace_stands_is_raised() -> None:
    loop = FakeLoop((), checkpoint=FakeCheckpoint(open=UserError("cannot add")))
    with pytest.raises(UserError, match="cannot add"):
        loop.drive()
    assert [fact for fact, _ in loop.record.facts] == [f.StepFailed("Open", "cannot add")]


def test_an_interrupted_step_is_raised() -> None:
    loop = FakeLoop((), checkpoint=FakeCheckpoint(ensure_at=Interrupted("git was cut short")))
    with pytest.raises(Interrupted):
        loop.drive()


def test_usage_and_warnings() -> None:
    usage = Usage(10, 5, cost_usd=0.5)
    loop = FakeLoop((said(COMPLETE.reading.promise, usage=usage), COMPLETE), meter=FakeMeter("odd"))
    run = loop.drive()
    assert [it.usage for it in run.iterations] == [usage, None]
    assert loop.record.of("warning") == [{"message": "odd"}] * 2
    assert loop.meter.calls == ["start", (usage, "session"), "start", (None, "session")]


def test_agent_commits_are_on_record() -> None:
    checkpoint = FakeCheckpoint()
    checkpoint.agent_commits = ("a1", "a2")
    run = FakeLoop((COMPLETE, COMPLETE), checkpoint=checkpoint).drive()
    assert [it.commits for it in run.iterations] == [("a1", "a2", "c1"), ("a1", "a2", "c2")]


def test_remarks_of_source_and_checkpoint_are_told() -> None:
    def ticks_too_much(notify: Notify) -> AgentReport:
        assert loop.source
        loop.source.text = STORIES.replace("[ ]", "[x]")
        return COMPLETE

    loop = FakeLoop((ticks_too_much, COMPLETE))
    loop.checkpoint.remarks = ("nested",)
    loop.drive()
    assert loop.record.of("warning")[:2] == [
        {"message": "A box of another story was taken back: 2.1"},
        {"message": "nested"},
    ]
    assert loop.record.of("finished")[0]["notes"] == ("nested",)


def test_a_story_that_is_gone_is_saved_without_ticks() -> None:
    crashed = told(OPENED, loaded(), began(), ended())
    loop = FakeLoop((COMPLETE,), source=FakeSource("## 2. Second\n- [ ] 2.1 b\n"))
    driver = loop.driver(replace(crashed, book=None))
    assert drive(driver).status is Status.DONE
    assert [call[0] for call in loop.checkpoint.calls][:1] == ["save"]


def test_an_agent_that_says_a_lot_is_cut_in_the_record() -> None:
    def talks(notify: Notify) -> AgentReport:
        for text in ("x" * (NOTICE_BUDGET - EVENT_SIZE - 1), "last", "too much"):
            notify(AgentText(text))
        return COMPLETE

    loop = FakeLoop((talks, COMPLETE))
    loop.drive()
    assert [len(str(event["text"])) for event in loop.record.of("agent_text")] == [
        *(NOTICE_BUDGET - EVENT_SIZE - 1, 4),
    ]
    assert loop.record.of("warning") == [
        {"message": "The agent says a lot; the rest is only in its log file"}
    ]


def test_own_template() -> None:
    loop = FakeLoop((COMPLETE, COMPLETE), template="{{story_id}} of {{change}}")
    loop.drive()
    assert loop.agent.prompts == ["1 of demo\n", "2 of demo\n"]


def test_adopt_and_tell() -> None:
    loop = FakeLoop(())
    driver = loop.driver(told(OPENED))
    loop.checkpoint.remarks = ("edits kept",)
    assert driver.adopt() == ("c0", ("edits kept",))
    event = Event("warning", {"message": "x"})
    driver.tell(event)
    assert loop.record.events == [event]


def test_facts_carry_the_time() -> None:
    loop = FakeLoop((COMPLETE, COMPLETE))
    loop.drive()
    assert {at for _, at in loop.record.facts} == {NOW}


def test_cap_over_all_stories() -> None:
    plan = replace(PLAN, limits=replace(LIMITS, max_iterations=1))
    run = FakeLoop((COMPLETE,), plan=plan).drive()
    assert (run.status, run.reason) == (Status.STUCK, Reason.MAX_ITERATIONS)


def test_plain_limit_is_not_reverted() -> None:
    limit = said(error="limit", limit=OVERLOADED)
    plan = replace(PLAIN, done=Done.PROMISE)
    loop = FakeLoop((limit, COMPLETE), plan=plan, source=None)
    run = loop.drive()
    assert (run.status, [it.n for it in run.iterations]) == (Status.DONE, [1])
    assert [call[0] for call in loop.checkpoint.calls].count("save") == 2


def test_on_fail_skip_goes_on_and_ends_parked() -> None:
    stories = STORIES + "\n## 3. Third\n- [ ] 3.1 c\n"
    plan = replace(PLAN, on_fail="skip", limits=replace(LIMITS, max_retries=0))
    loop = FakeLoop((failed("no"), COMPLETE, COMPLETE), plan=plan, source=FakeSource(stories))
    run = loop.drive()
    assert (run.status, run.reason) == (Status.STUCK, Reason.PARKED)
    assert {key[0] for key in run.finished} == {"2", "3"}
    assert [event["story_id"] for event in loop.record.of("error")] == ["1"]
    assert [event["next"] for event in loop.record.of("stories_loaded")] == ["1", "2", "3", None]


def test_guidance_and_an_order_that_come_by_mail() -> None:
    guided, order = f.Guided("Use tabs."), f.StoriesReordered((("2", "Second"),))
    loop = FakeLoop((COMPLETE, COMPLETE), mail=FakeMail(guided, order))
    loop.drive()
    assert [intent.story_id for intent in loop.agent.intents] == ["2", "1"]
    assert all("# Guidance from the person" in prompt for prompt in loop.agent.prompts)
    assert loop.mail.on_disk


def test_on_fail_ask_at_a_terminal_and_without_one() -> None:
    plan = replace(PLAN, on_fail="ask", limits=replace(LIMITS, max_retries=0))
    loop = FakeLoop((failed("no"), COMPLETE, COMPLETE), plan=plan)
    loop.human.at_terminal = True
    loop.human.decisions = [None, f.Guided("Use tabs.", ("1", "First"))]
    assert loop.drive().status is Status.DONE
    assert loop.human.asked_for == ["1", "1"]
    assert "Use tabs." in loop.agent.prompts[1]
    alone = FakeLoop((failed("no"),), plan=plan)
    assert alone.drive().reason is Reason.MAX_RETRIES


class LeftSource(FakeSource):
    """Has an entry that is not done and that no call can be given."""

    def load(self) -> StoryBook:
        left = Remark(9, "Story 3 has no file.", unfinished=True)
        return replace(super().load(), ignored=(left, Remark(1, "A note.")))


def test_a_run_is_not_done_while_something_cannot_be_run() -> None:
    loop = FakeLoop((COMPLETE, COMPLETE), source=LeftSource(STORIES))
    run = loop.drive()
    assert (run.status, run.reason) == (Status.STUCK, Reason.UNFINISHED)
    (said,) = [e.data for e in loop.record.events if e.name == "error"]
    assert said["message"] == (
        "The change `demo` is not done: 1 entry is left that cannot be run. Story 3 has no file."
    )
    assert "then `untildone resume demo`" in str(said["hint"])


def test_the_person_may_say_done_whatever_cannot_be_run() -> None:
    mail = FakeMail()
    manual = replace(PLAN, done=Done.MANUAL)
    loop = FakeLoop((COMPLETE, COMPLETE), manual, source=LeftSource(STORIES), mail=mail)
    loop.on_wait = lambda: mail.drop(f.PersonDone())
    assert loop.drive().status is Status.DONE


def test_several_lanes_need_more_than_the_workspace_of_the_run() -> None:
    with pytest.raises(AssertionError, match="a single lane works where the run does"):
        FakeLoop((), plan=replace(PLAN, lanes=2)).drive()
