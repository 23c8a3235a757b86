"""What decides about a story stays as the person wrote it, whoever edits the file meanwhile."""

from msgspec.structs import replace

from tests.fakes.agent import COMPLETE, Reply
from tests.fakes.loop import FakeLoop
from tests.fakes.plans import PLAN, began, ended, loaded, measured, told
from tests.fakes.source import FakeSource
from tests.fakes.verifier import FakeVerifier
from untildone.app import story_terms
from untildone.domain.agents.agent import AgentReport
from untildone.domain.checks.checks import Proof
from untildone.domain.checks.terms import Terms
from untildone.domain.run.run import Status
from untildone.ports import Notify

TEXT = "## 1. First\n- [ ] 1.1 a\n\n## 2. Second\nVerify: `two`\n- [ ] 2.1 b\n"
KEPT = replace(PLAN, terms=(Terms("2", "Second", ("two",)),))


def edits(source: FakeSource, new: str) -> Reply:
    """An agent that rewrites the plan, then says COMPLETE."""

    def play(notify: Notify) -> AgentReport:
        source.text = new
        return COMPLETE

    return play


def loop_with(new: str, *more: Reply) -> FakeLoop:
    source = FakeSource(TEXT)
    loop = FakeLoop((edits(source, new), *more, *(COMPLETE,) * 3), plan=KEPT, source=source)

    def put_back() -> None:
        source.text = TEXT

    loop.checkpoint.on_revert = put_back
    return loop


def reasons(loop: FakeLoop) -> list[str]:
    return [str(event["reason"]) for event in loop.record.of("iteration_ended")]


def test_an_attempt_that_edits_the_check_of_another_story_fails() -> None:
    loop = loop_with(TEXT.replace("`two`", "`true`"))
    assert loop.drive().status is Status.DONE
    assert "- story 2: Verify: `true`, was `two`" in reasons(loop)[0]
    assert reasons(loop)[1:] == ["", ""]
    assert [command for command, _ in loop.verifier.calls] == ["two"]


def test_a_story_with_a_check_that_is_gone_or_renamed() -> None:
    gone = TEXT.replace("## 2. Second\nVerify: `two`", "## 7. Other\nVerify: `true`")
    assert "- story 2: it is gone, and with it `two`" in reasons(_drive(loop_with(gone)))[0]
    renamed = TEXT.replace("2. Second\nVerify: `two`", "2. Sacond\nVerify: `true`")
    assert "- story 2: Verify: `true`, was `two`" in reasons(_drive(loop_with(renamed)))[0]


def _drive(loop: FakeLoop) -> FakeLoop:
    loop.drive()
    return loop


def test_a_deleted_story_without_a_check_is_missed_for_its_open_work() -> None:
    three = TEXT + "\n## 3. Third\n- [ ] 3.1 c\n"
    source = FakeSource(three)
    loop = FakeLoop((edits(source, TEXT), *(COMPLETE,) * 3), plan=KEPT, source=source)

    def put_back() -> None:
        source.text = three

    loop.checkpoint.on_revert = put_back
    assert loop.drive().status is Status.DONE
    (event,) = loop.record.of("retrying")
    assert event["reason"] == "memory.md: open work of other stories is gone: 3"


def test_a_tick_does_not_hide_another_check() -> None:
    ticked = TEXT.replace("- [ ] 2.1", "- [x] 2.1")
    loop = loop_with(ticked.replace("`two`", "`true`"))
    assert loop.drive().status is Status.DONE
    assert "- story 2: Verify: `true`, was `two`" in reasons(loop)[0]


def test_its_own_lines_are_the_storys_business() -> None:
    loop = loop_with(TEXT.replace("- [ ] 1.1 a", "Verify: `true`\n- [ ] 1.1 a"))
    assert loop.drive().status is Status.DONE
    assert reasons(loop) == ["", ""]


def test_a_check_that_edits_the_plan_while_it_runs() -> None:
    source = FakeSource(TEXT)

    def tamper() -> None:
        source.text = str(source.text).replace("`two`", "`true`")

    verifier = FakeVerifier(during=tamper)
    loop = FakeLoop((COMPLETE,) * 3, plan=replace(KEPT, verify=("test",)), source=source)
    loop.verifier = verifier
    loop.drive()
    assert [command for command, _ in verifier.calls] == ["test", "test", "test", "two"]


def test_words_that_differ_from_those_of_the_start_are_told_once_and_not_followed() -> None:
    loop = FakeLoop((COMPLETE,) * 2, plan=KEPT, source=FakeSource(TEXT.replace("`two`", "`true`")))
    assert loop.drive().status is Status.DONE
    (said,) = [str(event["message"]) for event in loop.record.of("warning")]
    assert said.startswith("Story 2 says other things than when the run began (Verify: `true`, was")
    assert said.endswith("`untildone resume demo --trust-story-checks` takes the new words")
    assert [command for command, _ in loop.verifier.calls] == ["two"]


def test_other_words_that_come_and_go_are_told_once() -> None:
    loop = FakeLoop((), plan=KEPT, source=FakeSource(TEXT))
    driver = loop.driver()
    now, other = (FakeSource(text).load() for text in (TEXT, TEXT.replace("`two`", "`true`")))
    for book in (other, now, other):
        story_terms.look(driver, book)
    assert len(loop.record.of("warning")) == 1


def test_after_a_crash_the_work_is_kept_and_the_terms_hold() -> None:
    edited = FakeSource(TEXT.replace("`two`", "`true`"))
    book = FakeSource(TEXT).load()
    run = told(loaded(book), began(of=book.stories[0]), ended(), measured(), plan=KEPT)
    loop = FakeLoop((COMPLETE,), plan=KEPT, source=edited)
    opened = replace(run, origin=loop.driver().origin, status=Status.RUNNING)
    assert loop.drive(opened).status is Status.DONE
    assert [command for command, _ in loop.verifier.calls] == ["two"]


def test_a_story_whose_own_check_is_not_run_is_not_verified() -> None:
    later = TEXT + "\n## 3. Third\nVerify: `three`\n- [ ] 3.1 c\n"
    loop = FakeLoop((COMPLETE,) * 3, plan=replace(KEPT, verify=("test",)), source=FakeSource(later))
    run = loop.drive()
    assert [it.proof for it in run.iterations] == [Proof.VERIFIED, Proof.VERIFIED, Proof.NONE]
