"""Whether COMPLETE is true, by the loop's own checks."""

from dataclasses import replace

from tests.fakes.agent import COMPLETE
from tests.fakes.loop import FakeLoop
from tests.fakes.plans import LIMITS, PLAN
from tests.fakes.source import FakeSource
from tests.fakes.verifier import FakeVerifier
from untildone.domain.run import Outcome, Plan, Status

LEVELS = replace(PLAN, verify=("warn: lint", "off: slow", "test"))


def loop_of(plan: Plan, **results: list[str]) -> FakeLoop:
    return FakeLoop((COMPLETE,) * 4, plan=plan, verifier=FakeVerifier(results))


def outcomes(loop: FakeLoop) -> list[object]:
    return [event["outcome"] for event in loop.record.of("iteration_ended")]


def warnings(loop: FakeLoop) -> list[object]:
    return [event["message"] for event in loop.record.of("warning")]


def test_a_check_of_level_warn_is_told_and_blocks_nothing() -> None:
    loop = loop_of(LEVELS, lint=["ugly", "ugly"])
    assert loop.drive().status is Status.DONE
    assert outcomes(loop) == [Outcome.COMPLETE] * 2
    assert [command for command, _ in loop.verifier.calls] == ["lint", "test"] * 2
    assert [(e["level"], e["passed"]) for e in loop.record.of("verify_ended")[:2]] == [
        ("warn", False),
        ("required", True),
    ]
    assert warnings(loop)[0] == "A check that blocks nothing failed (exit code 1): `lint`"
    assert "all must pass:\n\n- `test`\n" in loop.agent.prompts[0]
    assert "tells the person what fails:\n\n- `lint`\n" in loop.agent.prompts[0]
    assert "slow" not in loop.agent.prompts[0]


def test_only_checks_that_are_off_is_no_check() -> None:
    loop = loop_of(replace(PLAN, verify=("off: test",)))
    loop.drive()
    assert loop.verifier.calls == []
    assert "# Checks" not in loop.agent.prompts[0]


def test_a_storys_own_checks_run_after_those_of_the_run() -> None:
    loop = loop_of(replace(PLAN, verify=("test",), story_verify=("2=two",)), two=["no"])
    loop.drive()
    assert outcomes(loop) == [Outcome.COMPLETE, Outcome.VERIFY_FAILED, Outcome.COMPLETE]
    assert [command for command, _ in loop.verifier.calls] == ["test", *["test", "two"] * 2]
    assert "- `two`" not in loop.agent.prompts[0]
    assert "- `two`" in loop.agent.prompts[1]


def test_a_line_of_the_story_is_a_check_even_without_others() -> None:
    text = "## 1. First\nVerify: `one`\n- [ ] 1.1 a\n"
    loop = loop_of(PLAN, one=["no"])
    loop.source = FakeSource(text)
    loop.drive()
    assert outcomes(loop) == [Outcome.VERIFY_FAILED, Outcome.COMPLETE]


def test_the_limit_of_a_check() -> None:
    loop = loop_of(replace(PLAN, verify=("a",), limits=replace(LIMITS, verify_timeout_min=0.5)))
    loop.drive()
    assert {seconds for _, seconds in loop.verifier.calls} == {30}
