"""Several lanes on stories that a tracker keeps: what the run believes, and what it tells."""

from msgspec.structs import replace

from tests.app.test_lanes import CLASH, TWO, LaneLoop, intended, lanes_of
from tests.fakes.agent import COMPLETE, failed
from tests.fakes.loop import STORIES
from tests.fakes.source import FakeSource
from untildone.app.recovery import missing_facts
from untildone.domain.agents.agent import AgentReport
from untildone.domain.errors import SourceAway, StoryLost
from untildone.domain.run import fact as f
from untildone.domain.run.run import Reason, Run, Status
from untildone.domain.stories.story import Story, StoryBook
from untildone.ports import Notify

TRACKED = replace(TWO, source="github")
THREE = f"{STORIES}\n## 3. Third\nDepends: 1\n- [ ] 3.1 c\n"


class FakeTracker(FakeSource):
    """Issues by their numbers; like `bd` it names no closed one as waited for."""

    def __init__(self, text: str = THREE) -> None:
        super().__init__(text)
        self.told: list[str] = []
        self.away: list[Exception] = []

    def load(self) -> StoryBook:
        book = super().load()
        over = {story.id for story in book.stories if story.done}
        stories = (
            replace(s, depends_on=tuple(n for n in s.depends_on if n not in over))
            for s in book.stories
        )
        return book.restated(tuple(stories))

    def settle(self, story: Story, before: StoryBook) -> tuple[str, ...]:
        if self.away:
            raise self.away.pop(0)
        self.told.append(f"close {story.id}")
        return super().settle(story, before)

    def take_back(self, before: StoryBook) -> tuple[str, ...]:
        said = super().take_back(before)
        self.told += [
            text.replace("A box of a failed attempt was taken back:", "open") for text in said
        ]
        return said

    def close(self, *numbers: str) -> None:
        """As somebody else does it."""
        assert self.text
        for number in numbers:
            self.text = self.text.replace(f"[ ] {number}.", f"[x] {number}.")


class TrackerLoop(LaneLoop):
    """Of two lanes, whose first calls begin together."""

    def __init__(self, tracker: FakeTracker | None = None, together: int = 2) -> None:
        self.tracker = tracker or FakeTracker()
        lanes = lanes_of(THREE, together=together)
        super().__init__(lanes, TRACKED)
        self.source = self.tracker
        self.all_lanes = lanes

    def again(self, run: Run) -> Run:
        """A later process."""
        driver = self.driver(run)
        for fact in missing_facts(
            run, driver.origin, self.checkpoint, self.all_lanes, self.all_lanes.branch
        ):
            driver.record(fact)
        driver.record(f.Resumed(run.plan))
        return self.drive(driver.run)


def test_issues_are_closed_when_their_work_is_on_the_branch() -> None:
    loop = TrackerLoop()
    assert loop.drive().status is Status.DONE
    assert sorted(loop.tracker.told) == ["close 1", "close 2", "close 3"]
    assert len(loop.all_lanes.branch.landed) == 3


def test_what_an_agent_closes_counts_as_open_until_it_has_landed() -> None:
    loop = TrackerLoop()

    def closes(notify: Notify) -> AgentReport:
        loop.tracker.close("1", "2", "3")
        return failed("no luck")

    loop.all_lanes.answers["1"] = [closes]
    run = loop.drive()
    assert run.status is Status.DONE
    assert {key[0] for key in run.finished} == {"1", "2", "3"}
    assert [intent.story_id for intent in loop.all_lanes.agent.intents][-1] == "3"
    assert {"open 1.1", "open 3.1"} <= set(loop.tracker.told)
    assert "open 2.1" not in loop.tracker.told  # another lane was at work on it


def test_an_issue_that_is_closed_by_its_own_agent_is_left_to_it() -> None:
    loop = TrackerLoop()

    def closes(notify: Notify) -> AgentReport:
        loop.tracker.close("1")
        while len(loop.all_lanes.branch.landed) < 1:
            pass
        return COMPLETE

    loop.all_lanes.answers["1"] = [closes]
    assert loop.drive().status is Status.DONE
    assert loop.all_lanes.branch.landed[0] == "checkpoint: 2"
    assert not [text for text in loop.tracker.told if text.startswith("open")]


def test_what_could_not_be_brought_together_is_open_again() -> None:
    loop = TrackerLoop(together=1)  # whoever comes first has the conflict
    loop.all_lanes.branch.conflicts = [CLASH]

    def closes(notify: Notify) -> AgentReport:
        loop.tracker.close("1", "2")
        return COMPLETE

    loop.all_lanes.answers["1"] = [closes]
    assert loop.drive().status is Status.DONE
    (requeued,) = loop.facts(f.Requeued)
    assert isinstance(requeued, f.Requeued)
    assert any("taken back" in text for text in requeued.remarks)


def test_a_tracker_that_is_away_is_told_by_the_next_process() -> None:
    loop = TrackerLoop()
    loop.tracker.away = [SourceAway("no network")]
    run = loop.drive()
    assert (run.status, run.reason, run.error) == (Status.STUCK, Reason.ERROR, "no network")
    (lane,) = (lane for lane in run.lanes if lane.landing)
    assert lane.iteration is not None
    mine = lane.iteration.story_id
    assert f"close {mine}" not in loop.tracker.told
    again = TrackerLoop(loop.tracker, together=1)
    again.all_lanes.branch = loop.all_lanes.branch
    assert again.again(run).status is Status.DONE
    assert f"close {mine}" in loop.tracker.told
    assert mine not in [intent.story_id for intent in again.all_lanes.agent.intents]
    assert len(loop.all_lanes.branch.landed) == 3


def test_an_issue_that_is_gone_does_not_hold_up_what_has_landed() -> None:
    loop = TrackerLoop()
    loop.tracker.away = [StoryLost("the issue is gone")]
    loop.drive()
    landed = [fact for fact in loop.facts(f.Landed) if isinstance(fact, f.Landed)]
    assert any("the issue is gone" in fact.remarks for fact in landed)


def test_a_landing_of_a_dead_loop_is_told_first() -> None:
    first = TrackerLoop()
    run = first.drive()
    index = next(k for k, (fact, _) in enumerate(first.record.facts) if intended(fact))
    run = first.record.runs[index]
    (lane,) = (lane for lane in run.lanes if lane.landing)
    assert lane.landing is not None
    assert lane.iteration is not None
    again = TrackerLoop(together=1)
    again.all_lanes.branch.now = lane.landing.candidate
    assert again.again(run).status is Status.DONE
    assert again.tracker.told[0] == f"close {lane.iteration.story_id}"


def test_what_agents_of_a_dead_loop_have_closed_is_open_again() -> None:
    first = TrackerLoop()
    first.drive()
    kinds = [type(fact) for fact, _ in first.record.facts]
    run = first.record.runs[kinds.index(f.AttemptStarted)]
    again = TrackerLoop(together=1)
    again.folder.open = first.folder.open
    again.tracker.close("1", "3")
    assert again.again(run).status is Status.DONE
    assert again.tracker.told[:2] == ["open 1.1", "open 3.1"]
    assert len(again.all_lanes.branch.landed) == 3


def test_what_the_person_closes_between_two_processes_stays_closed() -> None:
    first = TrackerLoop()
    first.drive()
    kinds = [type(fact) for fact, _ in first.record.facts]
    run = first.record.runs[kinds.index(f.AttemptStarted) - 1]
    again = TrackerLoop(together=1)
    again.folder.open = first.folder.open
    again.tracker.close("2", "3")
    assert again.again(run).status is Status.DONE
    assert again.tracker.told == ["close 1"]


def test_a_put_back_that_cannot_be_told_now_is_told_later() -> None:
    loop = TrackerLoop()
    take_back, calls = loop.tracker.take_back, list[int]()

    def away(before: StoryBook) -> tuple[str, ...]:
        calls.append(1)
        if len(calls) == 1:
            raise SourceAway("no network")
        return take_back(before)

    loop.tracker.take_back = away  # type: ignore[method-assign]

    def closes(notify: Notify) -> AgentReport:
        loop.tracker.close("1")
        return failed("no luck")

    loop.all_lanes.answers["1"] = [closes]
    assert loop.drive().status is Status.DONE
    assert "open 1.1" in loop.tracker.told
