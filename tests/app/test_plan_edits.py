"""The plan is edited while the loop runs, driven through fakes of every port."""

from collections.abc import Callable

from msgspec.structs import replace

from tests.fakes.agent import COMPLETE, Reply, failed
from tests.fakes.loop import STORIES, FakeLoop
from tests.fakes.plan_files import FakePlanFiles
from tests.fakes.plans import LIMITS, OPENED, PLAIN, PLAN, began, ended, loaded, measured, told
from tests.fakes.source import PATH, FakeSource
from untildone.domain.agents.agent import AgentReport
from untildone.domain.errors import StoriesError
from untildone.domain.run import fact as f
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Outcome, Status
from untildone.ports import Notify

THIRD = "\n## 3. Third\n- [ ] 3.1 c\n"
MORE = STORIES + THIRD
ONCE = replace(PLAN, limits=replace(LIMITS, max_retries=0))


def loop_with(*writes: str | None, plan: Plan = ONCE, back: str = STORIES) -> FakeLoop:
    """One failing call per text, which somebody writes as the plan; then all calls are good."""
    source = FakeSource(STORIES)

    def failing(text: str | None) -> Callable[[Notify], AgentReport]:
        def called(_: Notify) -> AgentReport:
            source.text = text
            return failed("no")

        return called

    def put_back() -> None:
        source.text = back

    replies: list[Reply] = [failing(text) for text in writes]
    good: list[Reply] = [COMPLETE] * 5
    loop = FakeLoop((*replies, *good), plan, source=source, plan_files=FakePlanFiles(source))
    loop.checkpoint.on_revert = put_back
    return loop


def text(loop: FakeLoop) -> str | None:
    assert loop.source
    return loop.source.text


def warnings(loop: FakeLoop) -> list[str]:
    return [str(event["message"]) for event in loop.record.of("warning")]


def test_a_new_story_outlives_the_attempt_and_is_a_checkpoint_before_the_next() -> None:
    loop = loop_with(MORE, plan=PLAN)
    loop.checkpoint.by_hand = "by hand"
    assert loop.drive().status is Status.DONE
    assert [intent.story_id for intent in loop.agent.intents] == ["1", "1", "2", "3"]
    assert warnings(loop) == [
        "Written during story 1, perhaps by you, and kept although the attempt was put back: "
        f"the new story 3 (Third), in {PATH}"
    ]
    names = [call[:2] for call in loop.checkpoint.calls]
    assert names.count(("keep_edits", "c0")) == 1
    assert ("ensure_at", "by hand") in names


def test_ticks_are_not_kept() -> None:
    loop = loop_with(MORE.replace("- [ ] 1.1", "- [x] 1.1"))
    loop.drive()
    assert text(loop) == MORE


def test_a_plan_that_nobody_edited_is_left_alone() -> None:
    loop = loop_with(STORIES)
    loop.drive()
    assert (text(loop), warnings(loop)) == (STORIES, [])
    assert not any(call[0] == "keep_edits" for call in loop.checkpoint.calls)


def test_text_that_belongs_to_no_story_is_kept() -> None:
    loop = loop_with(f"Hello.\n{STORIES}")
    loop.drive()
    assert text(loop) == f"Hello.\n{STORIES}"
    assert "text that belongs to no story" in warnings(loop)[0]


def test_what_is_not_kept_is_named_with_its_place() -> None:
    loop = loop_with(MORE.replace("## 1. First", "## 1. Other\nand more"))
    loop.drive()
    assert text(loop) == MORE
    assert warnings(loop)[1] == (
        f"An edit of {PATH} was put back with the attempt, because it changes story 1, which was "
        "attempted; if it was yours, `git show refs/ralph/attempts/demo/1/1:memory.md` has it"
    )


def test_a_plan_that_was_broken_is_put_back_and_named() -> None:
    loop = loop_with("")
    loop.drive()
    assert (text(loop), len(warnings(loop))) == (STORIES, 1)


def test_a_plan_that_cannot_be_read_after_the_put_back_is_left_alone() -> None:
    loop = loop_with(MORE)
    source = loop.source
    assert source

    def unreadable() -> None:
        source.text = STORIES
        source.error = StoriesError("gone")

    loop.checkpoint.on_revert = unreadable
    loop.drive()
    assert (source.text, "cannot be read" in warnings(loop)[0]) == (STORIES, True)


def test_an_edit_that_cannot_be_read_is_named() -> None:
    loop = loop_with(MORE)
    source = loop.source
    assert source
    load = source.load

    def picky() -> object:
        if source.text == MORE:
            raise StoriesError("what is a third story")
        return load()

    source.load = picky  # type: ignore[method-assign, assignment]
    loop.drive()
    assert (source.text, "what is a third story" in warnings(loop)[0]) == (STORIES, True)


def test_a_process_that_comes_after_a_crash_knows_the_plan_as_it_was_written() -> None:
    loop = loop_with()
    loop.folder.plans[1] = {PATH: MORE.encode()}
    cut = told(OPENED, loaded(), began(), ended(Outcome.FAILED, "no"), measured(), plan=ONCE)
    loop.drive(replace(cut, book=None))
    assert text(loop) == MORE


def test_edits_between_two_calls_are_a_checkpoint_when_there_was_time_for_them() -> None:
    loop = loop_with()
    loop.checkpoint.by_hand = "by hand"
    take = loop.mail.take

    def slow() -> tuple[f.Fact, ...]:
        loop.clock.advance(2)
        return take()

    loop.mail.take = slow  # type: ignore[method-assign]
    loop.drive()
    kept = [fact for fact, _ in loop.record.facts if isinstance(fact, f.Adopted)]
    assert kept == [f.Adopted(0, "by hand"), f.Adopted(0, "by hand")]


def test_a_plain_loop_keeps_everything_anyway() -> None:
    loop = FakeLoop((COMPLETE,), replace(PLAIN, limits=replace(LIMITS, max_iterations=1)))
    loop.drive()
    assert not any(call[0] == "keep_edits" for call in loop.checkpoint.calls)
