"""Which learnings a call is shown: the newest, unless its prompt must not change."""

from msgspec.structs import replace

from tests.fakes.agent import COMPLETE, SILENT, failed
from tests.fakes.learnings_file import FakeLearningsFile
from tests.fakes.loop import FakeLoop
from tests.fakes.plans import LIMITS, PLAIN, PLAN
from untildone.domain.agents.agent import AgentReport
from untildone.domain.run.plan import Done
from untildone.ports import Notify

MORE = replace(PLAN, limits=replace(LIMITS, max_retries=9))


def writes(loop: FakeLoop, text: str, then: AgentReport) -> None:
    """The next call adds to the notes."""

    def call(notify: Notify) -> AgentReport:
        assert loop.learnings is not None
        loop.learnings.text += text
        return then

    loop.agent.replies.append(call)


def test_a_story_is_shown_what_was_known_at_its_first_call_until_there_is_a_reason() -> None:
    loop = FakeLoop((), plan=MORE, learnings=FakeLearningsFile("old\n"))
    writes(loop, "one\n", SILENT)
    writes(loop, "two\n", failed("no net"))
    writes(loop, "three\n", SILENT)
    writes(loop, "four\n", COMPLETE)
    writes(loop, "five\n", COMPLETE)
    loop.drive()
    words = ["old", "one", "two", "three", "four"]
    shown = [[word for word in words if f"{word}\n" in prompt] for prompt in loop.agent.prompts]
    assert shown == [["old"], ["old"], ["old", "one", "two"], ["old"], words]
    assert loop.agent.prompts[0] == loop.agent.prompts[1] == loop.agent.prompts[3]
    assert loop.learnings is not None
    assert [text.count("\n") for text in loop.learnings.kept] == [2, 3, 4, 5, 6]


def test_the_plain_loop_has_the_same_prompt_every_time() -> None:
    plan = replace(PLAIN, done=Done.PROMISE)
    loop = FakeLoop((), plan=plan, source=None, learnings=FakeLearningsFile())
    writes(loop, "one\n", SILENT)
    writes(loop, "two\n", COMPLETE)
    run = loop.drive()
    first, second = loop.agent.prompts
    assert first == second
    assert "`/somewhere/notes.md`" in first
    assert run.tally(("", "")).learned == ""
