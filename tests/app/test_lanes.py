"""Several lanes, driven by the real orchestrator: threads work, the main one records."""

from collections.abc import Callable, Iterable
from threading import Event as Signal
from threading import current_thread, main_thread

import pytest
from msgspec.structs import replace

from tests.fakes.agent import COMPLETE, INTERRUPTED, Reply, failed
from tests.fakes.lanes import FakeBranch, FakeLanes
from tests.fakes.learnings_file import FakeLearningsFile
from tests.fakes.loop import STORIES, FakeLoop
from tests.fakes.plans import PLAN, at
from tests.fakes.source import FakeSource
from tests.fakes.verifier import FakeVerifier
from untildone.app.lanes import LaneRecord
from untildone.app.recovery import missing_facts
from untildone.domain.agents.agent import AgentReport, AgentText
from untildone.domain.checks.checks import Checked
from untildone.domain.errors import Interrupted, StepError, StoriesError, StoryLost, WorkDiverged
from untildone.domain.reporting.event import Event
from untildone.domain.run import fact as f
from untildone.domain.run.landing import Conflict, Merged, Met
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Outcome, Reason, Run, Status, Stop, StopHow
from untildone.domain.stories.parking import Why
from untildone.domain.stories.story import StoryBook
from untildone.ports import Notify, Report

TWO = replace(PLAN, lanes=2, optimistic=True)
CHECKED = replace(TWO, verify=("make test",), verify_start=True)
CLASH = Conflict(("a.txt",), (Met("c" * 40, "checkpoint: 1"),), "")


def lanes_of(text: str = STORIES, *, together: int = 2) -> FakeLanes:
    return FakeLanes(FakeBranch(FakeSource(text)), together=together)


class LaneLoop(FakeLoop):
    """A loop of two lanes; waiting for mail is waiting for its threads."""

    def __init__(self, lanes: FakeLanes, plan: Plan = TWO, **more: object) -> None:
        super().__init__((), plan, source=lanes.branch.source, lanes=lanes, **more)  # type: ignore[arg-type]
        self.on_wait = self.mail.wait

    @property
    def told(self) -> list[type]:
        return [type(fact) for fact, _ in self.record.facts]

    def facts(self, kind: type[f.Fact]) -> list[f.Fact]:
        return [fact for fact, _ in self.record.facts if isinstance(fact, kind)]


def answers(**by_story: list[Reply]) -> FakeLanes:
    lanes = lanes_of()
    lanes.answers.update({name.removeprefix("s"): listed for name, listed in by_story.items()})
    return lanes


def test_two_stories_land_one_after_the_other() -> None:
    lanes = lanes_of()
    loop = LaneLoop(lanes, learnings=FakeLearningsFile(), predicted=lambda book, tried: book)
    run = loop.drive()
    assert (run.status, sorted(lanes.branch.landed)) == (
        Status.DONE,
        ["checkpoint: 1", "checkpoint: 2"],
    )
    assert (lanes.branch.source.text or "").count("[x]") == 2
    assert [source.text for source in lanes.sources] == [STORIES, STORIES]
    assert lanes.released
    assert lanes.branch.stored == {}
    assert {intent.cwd for intent in lanes.agent.intents} == {"/slots/0", "/slots/1"}
    names = ["slot_ready", "iteration_started", "iteration_ended", "landing", "landed"]
    for name in (*names, "checkpoint_saved"):
        assert {event["lane"] for event in loop.record.of(name)} == {0, 1}, name


def test_the_prompt_says_what_is_done_and_what_is_worked_on_beside() -> None:
    lanes = lanes_of(STORIES + "\n## 3. Third\n- [ ] 3.1 c\n")
    LaneLoop(lanes).drive()
    by_story = {intent.story_id: intent.prompt for intent in lanes.agent.intents}
    assert "stay out of their way" not in by_story["1"]
    assert "stay out of their way:\n\n- 1 First" in by_story["2"]
    assert "Finished since the run began" in by_story["3"]


def test_what_an_agent_says_is_told_with_its_lane() -> None:
    def says(notify: Notify) -> AgentReport:
        notify(AgentText("hello"))
        return COMPLETE

    loop = LaneLoop(answers(s2=[says]))
    loop.drive()
    assert loop.record.of("agent_text") == [{"text": "hello", "lane": 1}]


def test_only_the_main_thread_records() -> None:
    loop = LaneLoop(lanes_of())
    with pytest.raises(AssertionError, match="only the main thread"):
        LaneRecord(loop.mail, 0).fact(f.PersonDone(), (), loop.driver().run, at(1))


def test_a_failed_attempt_is_put_back_in_its_slot_and_tried_again() -> None:
    lanes = answers(s1=[failed("no luck")])
    loop = LaneLoop(lanes)
    assert loop.drive().status is Status.DONE
    (back,) = loop.facts(f.Reverted)
    assert isinstance(back, f.Reverted)
    assert back.saved_ref == "refs/ralph/attempts/demo/1/1"
    assert ("revert", "c0", "1", 1) in lanes.checkpoints[back.lane].calls


def test_a_conflict_is_done_again_with_the_old_patch_in_the_prompt() -> None:
    lanes = lanes_of()
    lanes.branch.conflicts = [None, CLASH]
    loop = LaneLoop(lanes)
    assert loop.drive().status is Status.DONE
    (again,) = loop.record.of("requeued")
    assert (again["files"], again["requeues"]) == (("a.txt",), 1)
    assert "checkpoint: 1 (cccccccccccc)" in str(again["why"])
    redone = [i.prompt for i in lanes.agent.intents if i.story_id == again["story_id"]][1]
    assert f"+the patch of refs/ralph/attempts/demo/{again['story_id']}/1" in redone


def test_work_is_done_again_from_what_a_person_has_committed() -> None:
    lanes = lanes_of()
    lanes.branch.now = "p1"
    lanes.branch.conflicts = [CLASH]
    loop = LaneLoop(lanes)
    assert loop.drive().status is Status.DONE
    (adopted,) = loop.facts(f.Adopted)
    assert isinstance(adopted, f.Adopted)
    assert adopted.checkpoint == "p1"
    bases = [
        fact.base for fact in loop.facts(f.AttemptStarted) if isinstance(fact, f.AttemptStarted)
    ]
    assert bases[:2] == ["c0", "c0"]
    assert bases[2] != "c0"


MADE = replace(TWO, regenerate=("a.txt=make a",))


def test_a_generated_file_is_made_anew_instead() -> None:
    lanes = lanes_of()
    lanes.branch.conflicts = [None, CLASH]
    loop = LaneLoop(lanes, MADE)
    assert loop.drive().status is Status.DONE
    assert loop.record.of("requeued") == []
    assert [command for command, _ in lanes.verifier.calls] == ["make a"]
    said = [str(event["message"]) for event in loop.record.of("warning")]
    assert any("made it anew: a.txt" in text for text in said)


def test_a_command_that_fails_to_make_a_file_is_the_reason_to_do_it_again() -> None:
    lanes = lanes_of()
    lanes.branch.conflicts = [None, CLASH]
    lanes.verifier = FakeVerifier({"make a": ["no such target"]})
    loop = LaneLoop(lanes, MADE)
    assert loop.drive().status is Status.DONE
    (again,) = loop.record.of("requeued")
    assert "no such target" in str(again["why"])


def test_a_command_that_was_cut_short_says_nothing_about_the_work() -> None:
    lanes = lanes_of()
    lanes.branch.conflicts = [None, CLASH]
    lanes.verifier = FakeVerifier({"make a": ["ended"]})
    stop = lanes.verifier.run

    def run(command: str, timeout_s: float, folder: str = "") -> Checked:
        lanes.interrupted |= {0, 1}
        return stop(command, timeout_s, folder)

    lanes.verifier.run = run  # type: ignore[method-assign]
    loop = LaneLoop(lanes, MADE)
    loop.drive()
    assert loop.record.of("requeued") == []


@pytest.mark.parametrize("clean_room", [False, True])
def test_the_sum_is_checked_and_a_check_that_fails_once_is_flaky(*, clean_room: bool) -> None:
    lanes = lanes_of()
    # Tried at the start, once for each story, and on the sum: there it is red for the first time.
    lanes.verifier = FakeVerifier({"make test": ["", "", "", "red", ""]})
    loop = LaneLoop(lanes, replace(CHECKED, clean_room=clean_room))
    assert loop.drive().status is Status.DONE
    assert len(lanes.verifier.calls) == 5
    flaky = [fact.flaky for fact in loop.facts(f.Landed) if isinstance(fact, f.Landed)]
    assert flaky == [(), ("make test",)]
    said = [event["message"] for event in loop.record.of("warning")]
    assert any("passed on the very same files" in str(text) for text in said)
    assert ("removed" in lanes.rooms.calls) is clean_room


def test_a_step_under_way_is_not_begun_twice() -> None:
    lanes = lanes_of()
    loop = LaneLoop(lanes, replace(CHECKED, verify_start=False))

    def is_heard() -> None:
        loop.mail.report(Report(0, Event("heard")))
        count = len(lanes.verifier.calls)
        while loop.record.names.count("heard") < count:
            pass

    lanes.verifier = FakeVerifier(during=is_heard)
    assert loop.drive().status is Status.DONE
    assert len(loop.facts(f.Verified)) == 2


def test_what_is_red_together_is_done_again() -> None:
    lanes = lanes_of()
    lanes.verifier = FakeVerifier({"make test": ["", "", "", "red", "red"]})
    loop = LaneLoop(lanes, CHECKED)
    assert loop.drive().status is Status.DONE
    (again,) = loop.record.of("requeued")
    assert again["why"] == "Green alone, red together. red"


def test_a_stop_during_the_check_of_the_sum_puts_the_story_back() -> None:
    lanes = lanes_of()
    loop = LaneLoop(lanes, CHECKED)

    def stops() -> None:
        if len(lanes.verifier.calls) == 4:
            lanes.interrupted |= {0, 1}
            loop.mail.drop(f.StopRequested(Stop(StopHow.NOW)))

    lanes.verifier = FakeVerifier({"make test": ["", "", "", "cut short"]}, stops)
    run = loop.drive()
    assert run.status is Status.STOPPED
    assert [it.outcome for it in run.iterations] == [Outcome.COMPLETE, Outcome.INTERRUPTED]
    (back,) = loop.facts(f.Reverted)
    assert isinstance(back, f.Reverted)
    assert back.saved_ref == f"refs/ralph/attempts/demo/{run.iterations[-1].story_id}/1"


def test_a_stop_ends_every_call() -> None:
    lanes = lanes_of()
    loop = LaneLoop(lanes)

    def waits(notify: Notify) -> AgentReport:
        if len(lanes.agent.intents) == 2:
            loop.mail.drop(f.StopRequested(Stop(StopHow.NOW)))
            notify(AgentText("wake"))
        while not lanes.interrupted >= {0, 1}:
            pass
        return INTERRUPTED

    lanes.answers.update({"1": [waits], "2": [waits]})
    run = loop.drive()
    assert run.status is Status.STOPPED
    assert [it.outcome for it in run.iterations] == [Outcome.INTERRUPTED] * 2


def test_a_skipped_story_ends_alone() -> None:
    lanes = lanes_of()
    loop = LaneLoop(lanes)

    def waits(notify: Notify) -> AgentReport:
        loop.mail.drop(f.StoryParked(("1", "First"), Why.SKIPPED))
        notify(AgentText("wake"))
        while 0 not in lanes.interrupted:
            pass
        return INTERRUPTED

    lanes.answers["1"] = [waits]
    run = loop.drive()
    assert (run.reason, lanes.branch.landed) == (Reason.PARKED, ["checkpoint: 2"])


def test_a_branch_that_somebody_moves_is_looked_at_again() -> None:
    lanes = lanes_of()
    lanes.branch.moves = ["by-hand"]
    loop = LaneLoop(lanes)
    assert loop.drive().status is Status.DONE
    assert len(loop.facts(f.LandIntended)) == 3


def test_edits_by_hand_come_before_a_landing() -> None:
    lanes = lanes_of()
    loop = LaneLoop(lanes)

    def edits(notify: Notify) -> AgentReport:
        loop.clock.advance(5)
        loop.checkpoint.by_hand = lanes.branch.now = "by-hand"
        return COMPLETE

    lanes.answers["1"] = [edits]
    assert loop.drive().status is Status.DONE
    (edited,) = loop.facts(f.Adopted)
    assert isinstance(edited, f.Adopted)
    assert edited.checkpoint == "by-hand"


def test_a_commit_by_hand_between_the_checks_and_the_landing_is_built_upon() -> None:
    lanes = lanes_of()
    loop = LaneLoop(lanes)
    candidate = lanes.branch.candidate

    def once(tip: str, tree: str, message: str, files: object = None) -> str:
        lanes.branch.candidate = candidate  # type: ignore[method-assign]
        lanes.branch.now = "by-hand"
        return candidate(tip, tree, message)

    lanes.branch.candidate = once  # type: ignore[method-assign]
    assert loop.drive().status is Status.DONE
    assert len(lanes.branch.landed) == 2


def test_a_branch_without_the_finished_stories_ends_the_run() -> None:
    lanes = lanes_of()
    lanes.branch.lost, lanes.branch.now = True, "elsewhere"
    loop = LaneLoop(lanes)
    run = loop.drive()
    assert (run.status, run.reason) == (Status.STUCK, Reason.ERROR)
    assert "does not contain the last checkpoint" in run.error
    assert "refs/ralph/moved/demo/1" in run.error


def test_a_landing_that_git_refuses_ends_the_run() -> None:
    lanes = lanes_of()
    lanes.branch.error = StepError("no space left")
    run = LaneLoop(lanes).drive()
    assert (run.reason, run.error) == (Reason.ERROR, "no space left")


def test_edits_in_the_last_moment_come_before_a_landing_that_git_refused_for_them() -> None:
    lanes = lanes_of()
    loop = LaneLoop(lanes)
    land = lanes.branch.land

    def once(tip: str, candidate: str, why: str) -> bool:
        lanes.branch.land = land  # type: ignore[method-assign]
        loop.checkpoint.by_hand = lanes.branch.now = "by-hand"
        raise StepError("not uptodate")

    lanes.branch.land = once  # type: ignore[method-assign]
    assert loop.drive().status is Status.DONE
    assert len(lanes.branch.landed) == 2


def test_a_landing_that_is_cut_short_ends_the_process() -> None:
    lanes = lanes_of()
    lanes.branch.error = Interrupted("cut short")
    with pytest.raises(Interrupted):
        LaneLoop(lanes).drive()
    assert lanes.released


def test_work_that_does_not_build_on_its_base_is_put_back() -> None:
    lanes = lanes_of()
    lanes.checkpoints[0]._errors["save"] = WorkDiverged("elsewhere")
    loop = LaneLoop(lanes)
    assert loop.drive().status is Status.DONE
    assert loop.record.of("retrying")[0]["reason"] == "elsewhere"


def test_finished_work_is_stored_while_another_story_lands() -> None:
    both = Signal()

    class Slow(FakeBranch):
        def store_work(self, story_id: str, attempt: int, base: str, work: str) -> str:
            commit = super().store_work(story_id, attempt, base, work)
            if len(self.stored) == 2:
                both.set()
            return commit

        def merge(
            self, tip: str, base: str, story: str, beside: Iterable[str] = ()
        ) -> Merged | Conflict:
            assert both.wait(10)
            return super().merge(tip, base, story, beside)

    lanes = FakeLanes(Slow(FakeSource(STORIES)))
    assert LaneLoop(lanes).drive().status is Status.DONE
    assert len(lanes.branch.landed) == 2


def test_work_that_was_not_stored_before_its_turn_is_stored_then() -> None:
    lanes = lanes_of()

    class CutShort(dict[str, Exception]):
        def pop(self, name: str, default: object = None) -> Exception | None:  # type: ignore[override]
            return cuts.pop(0) if name == "save" and cuts else None

    cuts = [Interrupted("cut short"), WorkDiverged("elsewhere")]
    lanes.checkpoints[0]._errors = CutShort()
    loop = LaneLoop(lanes)
    assert loop.drive().status is Status.DONE
    assert loop.record.of("retrying")[0]["reason"] == "elsewhere"


@pytest.mark.parametrize("error", [StoryLost("gone"), StoriesError("broken")])
def test_boxes_that_cannot_be_ticked_keep_a_story_from_landing(error: StoriesError) -> None:
    lanes = lanes_of()
    lanes.sources[0].error = lanes.sources[1].error = error
    run = LaneLoop(lanes, replace(TWO, limits=replace(TWO.limits, max_retries=0))).drive()
    assert (run.status, lanes.branch.landed) == (Status.STUCK, [])


def test_a_story_that_the_person_renames_while_it_is_worked_on_stays_the_same() -> None:
    lanes, landed = lanes_of(), Signal()

    def renames(notify: Notify) -> AgentReport:
        text = lanes.branch.source.text or ""
        lanes.branch.source.text = text.replace("First", "Begin").replace("Second", "Go on")
        return COMPLETE

    def waits(notify: Notify) -> AgentReport:
        assert landed.wait(10)
        return COMPLETE

    lanes.answers.update({"1": [renames], "2": [waits]})
    loop = LaneLoop(lanes)
    load = lanes.branch.source.load

    def looked() -> StoryBook:
        found = load()
        if lanes.branch.landed and current_thread() is main_thread():
            landed.set()
        return found

    lanes.branch.source.load = looked  # type: ignore[method-assign]
    assert loop.drive().status is Status.DONE
    assert len(loop.facts(f.AttemptStarted)) == 2
    assert (lanes.branch.source.text or "").count("[x]") == 2


def test_a_story_that_the_person_took_away_lands_without_a_box() -> None:
    lanes = lanes_of()

    def edits(notify: Notify) -> AgentReport:
        lanes.branch.source.text = STORIES.replace("## 1. First\n- [ ] 1.1 a\n", "")
        return COMPLETE

    lanes.answers["1"] = [edits]
    assert LaneLoop(lanes).drive().status is Status.DONE
    assert len(lanes.branch.landed) == 2


def test_a_slot_that_cannot_be_made_ends_the_run() -> None:
    lanes = lanes_of()
    lanes.errors = [StepError("no room", state="Nothing was changed.", hint="df")] * 2
    loop = LaneLoop(lanes)
    run = loop.drive()
    assert (run.reason, run.error) == (Reason.ERROR, "no room. Nothing was changed.")


def test_a_set_up_that_is_cut_short_is_no_attempt() -> None:
    lanes = lanes_of(together=1)
    loop = LaneLoop(lanes)
    made: set[int] = set()
    ready = lanes.ready

    def once(lane: int, base: str, *, may_be_cut: bool) -> object:
        assert may_be_cut
        if lane in made:  # the slot stands: now it is made ready for a call
            loop.mail.drop(f.StopRequested(Stop(StopHow.NOW)))
            raise Interrupted("cut short")
        made.add(lane)
        return ready(lane, base)

    lanes.ready = once  # type: ignore[method-assign,assignment]
    run = loop.drive()
    assert run.status is Status.STOPPED
    assert {it.reason for it in run.iterations} == {"cut short"}


def test_a_slot_whose_set_up_is_cut_short_is_made_again() -> None:
    lanes = lanes_of()
    lanes.errors = [Interrupted("cut short")]
    assert LaneLoop(lanes).drive().status is Status.DONE


def test_no_thread_outlives_a_loop_that_breaks_off() -> None:
    lanes = lanes_of()
    ended: list[int] = []

    def waits(notify: Notify) -> AgentReport:
        while not lanes.interrupted:
            pass
        ended.append(1)
        return INTERRUPTED

    lanes.answers["1"] = [waits]
    lanes.branch.error = Interrupted("cut short")
    with pytest.raises(Interrupted):
        LaneLoop(lanes).drive()
    assert ended == [1]


def test_a_mistake_of_ours_in_a_lane_ends_the_process() -> None:
    lanes = lanes_of()
    lanes.errors = [ZeroDivisionError()]
    with pytest.raises(ZeroDivisionError):
        LaneLoop(lanes).drive()
    assert lanes.released


def test_without_memory_for_a_second_lane_one_works_at_a_time() -> None:
    lanes = lanes_of(together=1)
    lanes.room = False
    loop = LaneLoop(lanes)
    assert loop.drive().status is Status.DONE
    calls = [kind for kind in loop.told if kind in (f.AttemptStarted, f.AttemptEnded)]
    assert calls == [f.AttemptStarted, f.AttemptEnded] * 2


# -- the whole ---------------------------------------------------------------------------------


@pytest.mark.parametrize("clean_room", [False, True])
def test_the_first_story_that_makes_the_whole_red_is_named(*, clean_room: bool) -> None:
    lanes = lanes_of(STORIES + "\n## 3. Third\n- [ ] 3.1 c\n")
    verifier = FakeVerifier({"make test": ["red", "", "red"]})  # the tip, the middle, the last
    plan = replace(CHECKED, clean_room=clean_room, verify=("make test", "warn: lint"))
    loop = LaneLoop(lanes, plan, verifier=verifier)
    run = loop.drive()
    assert (run.status, run.reason) == (Status.STUCK, Reason.UNFINISHED)
    named = run.iterations[2]
    assert f"with story {named.story_id} ({named.commits[-1]}). red" in run.error
    (error,) = loop.record.of("error")
    assert f"undo demo --story {named.story_id}" in str(error["hint"])
    assert [kind for kind in verifier.folders if kind] == verifier.folders


def test_failures_from_before_the_run_do_not_make_the_whole_red() -> None:
    lanes = lanes_of()
    lanes.verifier = FakeVerifier({"make test": ["old"] * 9})
    loop = LaneLoop(
        lanes, replace(CHECKED, baseline=True), verifier=FakeVerifier({"make test": ["old"]})
    )
    assert loop.drive().status is Status.DONE


def test_a_stop_cuts_the_check_of_the_whole_short() -> None:
    lanes = lanes_of()
    loop = LaneLoop(lanes, CHECKED)

    def stops() -> None:
        loop.verifier.interrupted = True
        loop.mail.drop(f.StopRequested(Stop(StopHow.NOW)))

    loop.verifier = FakeVerifier({"make test": ["cut short"]}, stops)
    assert loop.drive().status is Status.STOPPED


def test_the_whole_is_checked_when_no_lane_is_at_work() -> None:
    lanes = lanes_of(together=1)
    loop = LaneLoop(lanes, replace(CHECKED, verify_start=False))
    ready, begun, waited = lanes.ready, Signal(), Signal()

    def slowly(lane: int, base: str, **_: bool) -> object:
        if lane == 1:
            begun.set()
        assert (begun if lane == 0 else waited).wait(10)
        return ready(lane, base)

    def waits() -> None:
        if len(lanes.branch.landed) == 2:  # the first lane has done it all
            waited.set()
        loop.mail.wait()

    lanes.ready, loop.on_wait = slowly, waits  # type: ignore[method-assign,assignment]
    assert loop.drive().status is Status.DONE
    assert len(loop.verifier.calls) == 1


# -- after a crash -----------------------------------------------------------------------------


def cut_at(lanes: FakeLanes, plan: Plan, last: Callable[[f.Fact], bool]) -> Run:
    """The run as the journal has it up to the first fact that a test names."""
    loop = LaneLoop(lanes, plan)
    loop.drive()
    index = next(k for k, (fact, _) in enumerate(loop.record.facts) if last(fact))
    return loop.record.runs[index]


def recovered(run: Run, lanes: FakeLanes) -> Run:
    loop = LaneLoop(lanes, run.plan)
    driver = loop.driver(run)
    for fact in missing_facts(run, driver.origin, loop.checkpoint, lanes, lanes.branch):
        driver.record(fact)
    driver.record(f.Resumed(run.plan))
    return loop.drive(driver.run)


def test_calls_of_a_dead_loop_are_no_attempts() -> None:
    run = cut_at(lanes_of(), TWO, lambda fact: isinstance(fact, f.AttemptStarted) and fact.n == 2)
    again = lanes_of(together=1)
    again.bases = {0: "c0"}  # the other one was never made ready
    done = recovered(run, again)
    assert [it.outcome for it in done.iterations[:2]] == [Outcome.INTERRUPTED] * 2
    assert {it.saved_ref for it in done.iterations[:2]} == {"", "refs/ralph/attempts/demo/1/1"}
    assert done.status is Status.DONE


def intended(fact: f.Fact) -> bool:
    return isinstance(fact, f.LandIntended)


@pytest.mark.parametrize("moved", [True, False])
def test_a_landing_that_was_cut_short_is_finished_and_not_done_again(*, moved: bool) -> None:
    run = cut_at(lanes_of(), TWO, intended)
    (lane,) = (lane for lane in run.lanes if lane.landing)
    assert lane.landing is not None
    assert lane.iteration is not None
    again = lanes_of(together=1)
    again.bases = {lane.id: "c0"}
    if moved:
        again.branch.now = lane.landing.candidate
        again.branch.source.text = STORIES.replace(
            f"[ ] {lane.iteration.story_id}.", f"[x] {lane.iteration.story_id}."
        )
    loop = LaneLoop(again, run.plan)
    facts = missing_facts(run, loop.driver().origin, loop.checkpoint, again, again.branch)
    landed = [fact for fact in facts if isinstance(fact, f.Landed)]
    assert [fact.commit for fact in landed] == ([lane.landing.candidate] if moved else [])
    done = recovered(run, again)
    assert done.status is Status.DONE
    assert lane.iteration.story_id not in [intent.story_id for intent in again.agent.intents]


def judged(fact: f.Fact) -> bool:
    return isinstance(fact, f.UsageMeasured)


@pytest.mark.parametrize("stored", [True, False])
def test_finished_work_whose_slot_is_gone_lands_only_if_it_was_stored(*, stored: bool) -> None:
    run = cut_at(lanes_of(), TWO, judged)
    (lane,) = (lane for lane in run.lanes if lane.ticket)
    assert lane.iteration is not None
    again = lanes_of(together=1)
    if stored:
        again.branch.stored[lane.iteration.story_id, 1] = "w1"
    done = recovered(run, again)
    assert done.status is Status.DONE
    called = [intent.story_id for intent in again.agent.intents]
    assert (lane.iteration.story_id in called) is not stored


@pytest.mark.parametrize("answer", [COMPLETE, failed("no luck")])
def test_an_agent_that_removes_its_slot_has_failed(answer: AgentReport) -> None:
    lanes = lanes_of()
    loop = LaneLoop(lanes)

    def removes(notify: Notify) -> AgentReport:
        lanes.removed.add(0)
        return answer

    lanes.answers["1"] = [removes]
    run = loop.drive()
    assert run.status is Status.DONE
    first = next(it for it in run.iterations if it.story_id == "1")
    assert (first.outcome is Outcome.VERIFY_FAILED) is (answer is COMPLETE)
    assert (first.commits, first.saved_ref) == ((), "")


def test_a_slot_that_is_removed_while_its_checks_run_is_made_again() -> None:
    lanes = lanes_of()
    loop = LaneLoop(lanes, replace(CHECKED, verify_start=False))
    run, away = lanes.verifier.run, list[int]()

    def once(command: str, timeout_s: float, folder: str = "") -> Checked:
        if not away:
            away.append(1)
            lanes.removed |= {0, 1}
            raise FileNotFoundError("/slots/0")
        return run(command, timeout_s, folder)

    lanes.verifier.run = once  # type: ignore[method-assign]
    assert loop.drive().status is Status.DONE
    assert len(lanes.branch.landed) == 2


def test_what_is_not_measured_or_checked_when_its_slot_is_gone_is_tried_again() -> None:
    for fact in (f.AttemptEnded, f.UsageMeasured):
        run = cut_at(lanes_of(), CHECKED, lambda told, kind=fact: isinstance(told, kind))  # type: ignore[misc]
        assert recovered(run, lanes_of(together=1)).status is Status.DONE


def test_no_stories_at_all_need_no_lane() -> None:
    loop = LaneLoop(lanes_of(STORIES.replace("[ ]", "[x]")))
    assert loop.drive().status is Status.DONE
    assert loop.told.count(f.AttemptStarted) == 0
