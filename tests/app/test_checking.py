"""Whether COMPLETE is true, by the loop's own checks."""

import pytest
from msgspec.structs import replace

from tests.fakes.agent import COMPLETE
from tests.fakes.loop import STORIES, FakeLoop
from tests.fakes.mail import FakeMail
from tests.fakes.plans import (
    LIMITS,
    OPENED,
    PLAIN,
    PLAN,
    began,
    ended,
    loaded,
    measured,
    told,
)
from tests.fakes.protected_files import FakeProtectedFiles
from tests.fakes.source import FakeSource
from tests.fakes.verifier import FakeVerifier
from untildone.domain.checks.checks import Failing, Proof
from untildone.domain.checks.counted_tests import Counted, Counts
from untildone.domain.checks.protection import Violation
from untildone.domain.checks.runner_settings import KEPT_TESTS, RunnerSetting
from untildone.domain.errors import StepError
from untildone.domain.run.fact import StopRequested
from untildone.domain.run.plan import Done, Plan
from untildone.domain.run.run import Choice, Outcome, Run, Status, Stop, StopHow

ONE_CALL = replace(LIMITS, max_iterations=1)
STOP = StopRequested(Stop(StopHow.NOW))
TESTED = replace(PLAN, verify=("test",))
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


TRIED = replace(PLAN, verify=("warn: lint", "test"), verify_start=True)


def test_a_check_that_already_fails_is_named_before_the_first_call() -> None:
    loop = loop_of(TRIED, test=["red"])
    run = loop.drive()
    assert outcomes(loop) == [Outcome.COMPLETE] * 2
    assert loop.record.of("checks_tried") == [{"commands": ["test"]}]
    (said,) = warnings(loop)
    assert str(said).startswith("already fails before the first story: `test` (exit code 1); ")
    assert loop.record.names.index("warning") < loop.record.names.index("iteration_started")
    assert [command for command, _ in loop.verifier.calls] == ["test", *["lint", "test"] * 2]
    assert len(loop.record.of("verify_started")) == 4
    assert run.known_failures == (Failing("test", "exit code 1"),)
    assert [call for call in loop.checkpoint.calls if call[0] == "revert"] == []


def test_what_the_first_look_changed_is_put_back() -> None:
    loop = loop_of(TRIED)
    loop.checkpoint.changed = ("junk",)
    loop.drive()
    assert loop.checkpoint.calls[:5] == [
        *(loop.checkpoint.calls[0], ("ensure_at", "c0"), ("pending", "c0")),
        *(("had", "c0", ("junk",)), ("revert", "c0", "checks-at-start", 1)),
    ]
    assert warnings(loop) == [
        "The checks changed files that git does not ignore: junk; that was put back and is stored "
        "as refs/ralph/attempts/demo/checks-at-start/1"
    ]


def test_a_stop_during_the_first_look() -> None:
    mail = FakeMail()
    verifier = FakeVerifier({"test": ["cut short"]}, during=lambda: mail.drop(STOP))
    verifier.interrupted = True
    loop = FakeLoop((), plan=TRIED, verifier=verifier, mail=mail)
    run = loop.drive()
    assert (run.status, run.known_failures, run.iterations) == (Status.STOPPED, None, ())
    assert warnings(loop) == []


OLD = replace(PLAN, verify=("test",), baseline=True)
RED = "FAILED tests/a.py::{} - no\n"


def red(*names: str) -> str:
    return "".join(map(RED.format, names))


def test_old_failures_are_let_through_and_told() -> None:
    loop = loop_of(OLD, test=[red("a", "b"), red("a", "b"), red("a")])
    assert loop.drive().known_failures == (Failing("test", "exit code 1", ("tests/a.py::a",)),)
    assert outcomes(loop) == [Outcome.COMPLETE] * 2
    assert loop.record.of("verify_ended")[0] == {
        "command": "test",
        "level": "required",
        "passed": True,
        "reason": "",
        "let_through": ("tests/a.py::a", "tests/a.py::b"),
    }
    assert warnings(loop)[1:] == [
        "Old failures of `test` were let through: tests/a.py::a, tests/a.py::b",
        "Old failures of `test` were let through: tests/a.py::a",
    ]


def test_what_is_newly_broken_blocks_and_is_named() -> None:
    loop = loop_of(OLD, test=[red("a"), red("a", "b"), "", red("a")])
    run = loop.drive()
    failed, complete = Outcome.VERIFY_FAILED, Outcome.COMPLETE
    assert outcomes(loop) == [failed, complete, failed, complete]
    assert "Newly broken: tests/a.py::b\nFAILED" in loop.agent.prompts[1]
    assert "Newly broken: tests/a.py::a\n" in run.iterations[2].reason


def test_a_storys_own_check_must_pass_whatever_failed_before() -> None:
    loop = loop_of(replace(OLD, story_verify=("1=one",)), one=["no", ""])
    loop.drive()
    assert outcomes(loop)[0] is Outcome.VERIFY_FAILED


GUARDED = replace(PLAN, verify=("sh check.sh",), protect=("tests/**",), check_files=("check.sh",))
TAMPERED = (Violation("check.sh", "changed"),)


def test_no_check_runs_after_a_protected_file_was_changed() -> None:
    loop = FakeLoop((COMPLETE,) * 3, plan=GUARDED, protected_files=FakeProtectedFiles(TAMPERED))
    run = loop.drive()
    assert outcomes(loop) == [Outcome.VERIFY_FAILED, Outcome.COMPLETE, Outcome.COMPLETE]
    assert "- check.sh (changed)" in run.iterations[0].reason
    assert "- check.sh (changed)" in loop.agent.prompts[1]
    assert len(loop.verifier.calls) == 2
    assert loop.protected_files.noted == [
        (at, ("tests/**",), ("check.sh",)) for at in ("c0", "c0", "c1")
    ]
    (said,) = warnings(loop)
    assert "`--no-protect-checks` allows it" in str(said)
    assert "# Protected files" in loop.agent.prompts[0]
    assert "- `tests/**`\n- `check.sh`\n" in loop.agent.prompts[0]


def test_protection_needs_no_check() -> None:
    plan = replace(PLAN, protect=("a",))
    loop = FakeLoop(
        (COMPLETE,) * 3, plan=plan, protected_files=FakeProtectedFiles((Violation("a", "deleted"),))
    )
    loop.drive()
    assert outcomes(loop)[:2] == [Outcome.VERIFY_FAILED, Outcome.COMPLETE]
    assert warnings(loop) == []


def test_the_files_of_a_storys_own_check_are_protected() -> None:
    plan = replace(PLAN, story_verify=("2=sh two.sh",))
    loop = FakeLoop((COMPLETE,) * 2, plan=plan)
    loop.drive()
    assert loop.protected_files.noted == [("c1", (), ("two.sh",))]
    loop = FakeLoop((COMPLETE,) * 2, plan=replace(plan, protect_checks=False))
    loop.drive()
    assert loop.protected_files.noted == []


def test_without_protection_nothing_is_looked_at() -> None:
    loop = FakeLoop((COMPLETE,) * 2)
    loop.drive()
    assert (loop.protected_files.noted, loop.protected_files.looks) == ([], 0)


def test_a_plain_loop_compares_with_its_first_files() -> None:
    plan = replace(PLAIN, done=Done.PROMISE, protect=("a",))
    protected_files = FakeProtectedFiles((Violation("a", "changed"),))
    loop = FakeLoop((COMPLETE,) * 2, plan=plan, source=None, protected_files=protected_files)
    assert loop.drive().status is Status.DONE
    assert outcomes(loop) == [Outcome.VERIFY_FAILED, Outcome.COMPLETE]
    assert len(protected_files.noted) == 1


EVIDENCE = replace(PLAN, evidence=True)
CHANGED = {
    "nothing": ((), (), Outcome.VERIFY_FAILED),
    "the task list": (("memory.md",), (), Outcome.VERIFY_FAILED),
    "a file": (("memory.md", "a.py"), (), Outcome.COMPLETE),
    "nothing is allowed": ((), ("1", "2"), Outcome.COMPLETE),
    "nothing is allowed to all": ((), ("*",), Outcome.COMPLETE),
}


@pytest.mark.parametrize("name", CHANGED)
def test_evidence(name: str) -> None:
    changed, allowed, outcome = CHANGED[name]
    plan = replace(EVIDENCE, allow_empty_story=allowed, limits=replace(LIMITS, max_retries=0))
    loop = FakeLoop((COMPLETE,) * 2, plan=plan)
    loop.checkpoint.changed = changed
    loop.drive()
    assert outcomes(loop)[0] is outcome


def test_evidence_after_a_crash() -> None:
    loop = FakeLoop((), source=FakeSource("## 1. Story 1\n- [ ] 1.1 a\n"))
    run = told(OPENED, loaded(), began(), ended(), measured(), plan=EVIDENCE)
    loop.checkpoint.changed = ("a.py",)
    loop.drive(replace(run, book=None))
    assert [name for name, *_ in loop.checkpoint.calls][:2] == ["pending", "save"]


def test_a_plain_loop_needs_no_evidence() -> None:
    plan = replace(PLAIN, done=Done.PROMISE, evidence=True)
    assert FakeLoop((COMPLETE,), plan=plan, source=None).drive().status is Status.DONE


def test_checks_of_a_plain_loop_do_not_count_because_a_file_is_protected() -> None:
    plan = replace(PLAIN, verify=("sh a.sh",), check_files=("a.sh",), limits=ONE_CALL)
    loop = FakeLoop((COMPLETE,), plan=plan, source=None)
    loop.drive()
    assert (loop.protected_files.looks, loop.verifier.calls) == (1, [])


def test_checks_in_a_clean_room() -> None:
    plan = replace(PLAN, verify=("a", "b"), clean_room=True, verify_start=True)
    loop = loop_of(plan, a=["", "no"])
    loop.drive()
    assert set(loop.verifier.folders) == {"checkout"}
    assert loop.clean_checkout.calls == [
        *(("tree", "c0"), "put back", "removed"),
        *(("tree", "c0"), "removed"),
        *(("tree", "c0"), "put back", "removed"),
        *(("tree", "c1"), "put back", "removed"),
    ]
    assert "files that git ignores are not there" in loop.agent.prompts[0]


def test_a_clean_room_is_left_when_a_check_breaks_down() -> None:
    def breaks() -> None:
        raise StepError("disk")

    verifier = FakeVerifier(during=breaks)
    plan = replace(PLAN, verify=("a",), clean_room=True)
    loop = FakeLoop((COMPLETE,), plan=plan, verifier=verifier)
    assert loop.drive().status is Status.STUCK
    assert loop.clean_checkout.calls[-1] == "removed"


def in_the_worktree(*written: tuple[str, ...], **changes: object) -> FakeLoop:
    """A run of one story by the checks `a` and `b`; what changed by each look at the files."""
    plan = replace(PLAN, verify=("a", "b"), limits=ONE_CALL, **changes)
    loop = FakeLoop((COMPLETE,), plan=plan, verifier=FakeVerifier())
    loop.checkpoint.written = list(written)
    return loop


def ran(loop: FakeLoop) -> list[str]:
    return [command for command, _ in loop.verifier.calls]


def test_checks_that_saw_other_files_than_are_saved_run_once_more() -> None:
    loop = in_the_worktree((), ("x.py",))
    assert proofs(loop.drive())[0] is Proof.VERIFIED
    assert ran(loop)[:3] == ["a", "b", "a"]
    assert warnings(loop)[0] == (
        "Files changed while the check `a` ran: x.py. They are kept so, and checks that saw them "
        "otherwise run once more"
    )
    late = in_the_worktree((), (), ("x.py",))
    assert proofs(late.drive())[0] is Proof.VERIFIED
    assert ran(late)[:4] == ["a", "b", "a", "b"]


def test_what_changes_files_each_time_is_kept_and_not_verified() -> None:
    loop = in_the_worktree((), ("x.py",), (), ("x.py",))
    run = loop.drive()
    assert (run.iterations[0].outcome, run.iterations[0].proof) == (Outcome.COMPLETE, Proof.NONE)
    assert ran(loop)[:4] == ["a", "b", "a", "b"]
    assert len(warnings(loop)) == 2
    assert "not counted as verified" in str(warnings(loop)[1])


def test_a_check_that_fails_on_what_another_one_left_says_so() -> None:
    loop = in_the_worktree((), (), ("x.py",))
    loop.verifier = FakeVerifier({"a": ["", "no"]})
    reason = loop.drive().iterations[0].reason
    assert reason == "Files changed while the check `b` ran: x.py\nno"


def test_the_task_list_and_what_checks_always_write_are_no_change() -> None:
    loop = in_the_worktree((), (), (), ("junk", "tasks.md"), verify_start=True)
    loop.checkpoint.changed = ("junk",)
    run = loop.drive()
    assert (run.made_by_checks, proofs(run)[0]) == (("junk",), Proof.VERIFIED)
    assert ran(loop)[:4] == ["a", "b", "a", "b"]  # at the start, and after the story


def test_a_check_may_not_change_what_is_protected_unless_it_did_so_at_the_start() -> None:
    protects = {"protect": ("x.py",)}
    loop = in_the_worktree((), ("x.py",), **protects)
    loop.protected_files = FakeProtectedFiles((), (Violation("x.py", "changed"),))
    reason = loop.drive().iterations[0].reason
    assert reason.startswith("Files changed while the check `a` ran: x.py\nProtected files")
    free = in_the_worktree((), (), (), ("x.py",), verify_start=True, **protects)
    free.checkpoint.changed = free.checkpoint.known = ("x.py",)
    free.protected_files = FakeProtectedFiles((), (Violation("x.py", "changed"),))
    run = free.drive()
    assert (run.changed_by_checks, proofs(run)[0]) == (("x.py",), Proof.VERIFIED)


def test_a_check_may_not_change_protected_tests_unless_it_did_so_at_the_start() -> None:
    plan = {"protect_tests": True}
    loop = in_the_worktree((), (), OWN, **plan)  # looked at for tests, and before and after `a`
    loop.checkpoint.known = OWN
    loop.checkpoint.changed_later = OWN
    reason = loop.drive().iterations[0].reason
    assert reason.startswith(f"Files changed while the check `a` ran: {OWN[0]}\nProtected files")
    free = in_the_worktree((), (), (), (), OWN, verify_start=True, **plan)
    free.checkpoint.known = free.checkpoint.changed = OWN
    free.checkpoint.on_revert = lambda: setattr(free.checkpoint, "changed", ())
    free.checkpoint.changed_later = OWN
    assert proofs(free.drive())[0] is Proof.VERIFIED


def test_a_check_that_fails_no_more_when_it_runs_again_is_no_old_failure() -> None:
    plan = replace(OLD, verify=("test", "b"), limits=ONE_CALL)
    loop = loop_of(plan, test=[red("a"), red("a"), ""])
    loop.checkpoint.written = [(), (), (), ("x.py",)]
    assert loop.drive().known_failures == ()


COUNTED = replace(PLAN, verify=("test",), verify_start=True)


def counting(plan: Plan, *tests: Counts | None) -> FakeLoop:
    loop = loop_of(plan)
    loop.verifier.tests = list(tests)
    return loop


def test_a4_fewer_tests_than_before_fail_the_attempt_and_name_the_files() -> None:
    loop = counting(COUNTED, Counts(5), Counts(4), Counts(6), Counts(5), Counts(6))
    loop.checkpoint.changed = ("a.py", "tests/test_a.py")
    run = loop.drive()
    assert outcomes(loop) == [
        *(Outcome.VERIFY_FAILED, Outcome.COMPLETE, Outcome.VERIFY_FAILED, Outcome.COMPLETE)
    ]
    first, _, third, _ = (str(e["reason"]) for e in loop.record.of("iteration_ended"))
    assert first.startswith("The check `test` passed, but with fewer tests: 4 passed, ")
    assert "Files that were changed: tests/test_a.py\n" in first
    assert "at the last checkpoint 6 passed" in third
    assert run.counted == (Counted("test", Counts(6)),)
    assert loop.record.of("verify_ended")[1]["tests"] == {"passed": 6, "failed": 0, "skipped": 0}


def test_a4_a_number_that_the_product_prints_does_not_make_up_for_a_test() -> None:
    loop = counting(COUNTED, Counts(5), Counts(5), Counts(5), Counts(5))
    loop.verifier.reported = [Counts(5), Counts(4), Counts(6), Counts(6)]
    run = loop.drive()
    assert outcomes(loop) == [Outcome.VERIFY_FAILED, Outcome.COMPLETE, Outcome.COMPLETE]
    reason = str(loop.record.of("iteration_ended")[0]["reason"])
    assert "fewer tests: by the report of its runner 4 passed, 0 skipped, " in reason
    assert run.counted == (Counted("test", Counts(5), Counts(6)),)


def test_a4_a_story_may_say_that_tests_may_shrink() -> None:
    text = "## 1. First\nTests: may shrink\n- [ ] 1.1 a\n\n## 2. Second\n- [ ] 2.1 b\n"
    loop = counting(COUNTED, Counts(5), Counts(4), None, Counts(4))
    loop.source = FakeSource(text)
    loop.drive()
    assert outcomes(loop) == [Outcome.COMPLETE, Outcome.VERIFY_FAILED, Outcome.COMPLETE]
    assert "no number of tests was printed" in str(loop.record.of("iteration_ended")[1]["reason"])
    assert "Files that were changed: none" in str(loop.record.of("iteration_ended")[1]["reason"])


def test_a4_a_check_that_blocks_nothing_is_not_counted() -> None:
    loop = counting(replace(PLAN, verify=("warn: test",)), Counts(5), Counts(4))
    assert loop.drive().counted == ()
    assert outcomes(loop) == [Outcome.COMPLETE] * 2


def test_a4_a_plain_loop_counts_from_its_first_verified_iteration() -> None:
    plan = replace(PLAIN, done=Done.PROMISE, verify=("test",))
    loop = counting(plan, Counts(5))
    assert loop.drive().counted == (Counted("test", Counts(5)),)
    again = counting(replace(plan, verify_start=True), Counts(5), Counts(4), Counts(5))
    again.drive()
    assert outcomes(again) == [Outcome.VERIFY_FAILED, Outcome.COMPLETE]


def test_a4_old_failures_that_are_let_through_are_counted_too() -> None:
    loop = loop_of(OLD, test=[red("a"), red("a"), red("a")])
    loop.verifier.tests = [Counts(5, 1), Counts(5, 1), Counts(4, 1), Counts(5, 1)]
    loop.drive()
    assert outcomes(loop) == [Outcome.COMPLETE, Outcome.VERIFY_FAILED, Outcome.COMPLETE]


def test_a_run_whose_check_cannot_start_ends_before_the_first_call() -> None:
    plan = replace(PLAN, verify=("gone", "test"), verify_start=True)
    loop = loop_of(plan, gone=["exit code 127"], test=["no"])
    run = loop.drive()
    assert (run.status, run.choice, run.closed) == (Status.STUCK, Choice.CLEANUP, True)
    assert (run.cannot_start, loop.agent.prompts) == (("gone",), [])
    (said,) = loop.record.of("error")
    assert "`gone`" in str(said["message"])
    (warned,) = warnings(loop)
    assert "already fails before the first story: `test`" in str(warned)
    assert loop.record.of("complete") == []


OWN = ("tests/test_a.py",)


def changing(plan: Plan, text: str = STORIES, **results: list[str]) -> FakeLoop:
    """Every attempt changes a test that was there before."""
    loop = FakeLoop(
        (COMPLETE,) * 4, plan=plan, verifier=FakeVerifier(results), source=FakeSource(text)
    )
    loop.checkpoint.changed = (*OWN, "src.py")
    loop.checkpoint.known = (*OWN, "src.py")
    return loop


def proofs(run: Run) -> list[Proof]:
    return [iteration.proof for iteration in run.iterations]


def test_work_that_changed_its_own_tests_is_done_and_not_verified() -> None:
    loop = changing(TESTED)
    run = loop.drive()
    assert proofs(run) == [Proof.OWN_TESTS] * 2
    assert run.iterations[0].own_tests == OWN
    assert "tests/test_a.py" in str(warnings(loop)[0])
    assert [e["verified"] for e in loop.record.of("checkpoint_saved")] == [False, False]


@pytest.mark.parametrize("line", ["Tests: may change", "Touches: `tests/`"])
def test_the_person_may_let_a_story_change_tests(line: str) -> None:
    text = STORIES.replace("## 1. First\n", f"## 1. First\n{line}\n")
    kept = replace(TESTED, protect_tests=True)
    for plan in (TESTED, kept, replace(kept, clean_room=True)):
        run = changing(replace(plan, limits=ONE_CALL), text).drive()
        assert proofs(run) == [Proof.VERIFIED]


def test_a4_work_that_wrote_the_script_of_its_check_is_done_and_not_verified() -> None:
    script = replace(TESTED, verify=("sh new.sh",), limits=ONE_CALL)
    touches = STORIES.replace("## 1. First\n", "## 1. First\nTouches: `new.sh`\n")
    for plan, text, proof in (
        (script, STORIES, Proof.OWN_TESTS),
        (replace(script, protect_tests=True), STORIES, Proof.OWN_TESTS),
        (replace(script, protect_checks=False), STORIES, Proof.VERIFIED),
        (script, touches, Proof.VERIFIED),
    ):
        loop = changing(plan, text)
        loop.checkpoint.changed = ("new.sh",)
        loop.checkpoint.known = ()
        assert proofs(loop.drive()) == [proof]


def test_without_a_check_changed_tests_are_nobodys_business() -> None:
    assert proofs(changing(PLAN).drive()) == [Proof.NONE] * 2


def test_work_that_changed_nothing_is_never_verified() -> None:
    loop = loop_of(TESTED)
    loop.checkpoint.dirty = False
    run = loop.drive()
    assert proofs(run) == [Proof.UNCHANGED] * 2
    assert all(e["unchanged"] for e in loop.record.of("checkpoint_saved"))


def test_protected_tests_stay_as_they_are() -> None:
    loop = changing(replace(TESTED, protect_tests=True, limits=ONE_CALL))
    run = loop.drive()
    assert outcomes(loop) == [Outcome.VERIFY_FAILED]
    assert "- tests/test_a.py (changed or deleted)" in run.iterations[0].reason
    assert loop.verifier.calls == []
    assert KEPT_TESTS in loop.agent.prompts[0]


def test_in_a_clean_checkout_protected_tests_must_pass_as_they_were() -> None:
    plan = replace(TESTED, protect_tests=True, clean_room=True)
    loop = changing(plan, test=["no", "", ""])
    run = loop.drive()
    assert outcomes(loop)[:2] == [Outcome.VERIFY_FAILED, Outcome.COMPLETE]
    reason = run.iterations[0].reason
    assert "the tests that were there do not pass:\n- tests/test_a.py\n" in reason
    assert run.iterations[1].proof is Proof.VERIFIED
    made = [call for call in loop.clean_checkout.calls if call != "removed"]
    assert made[:3] == [("tree", "c0", *OWN), ("tree", "c0", *OWN), ("tree", "c0")]
    told = [event.get("earlier_tests", False) for event in loop.record.of("verify_ended")]
    assert told[:3] == [True, True, False]


def test_protected_tests_that_nobody_changed_are_no_trouble() -> None:
    loop = loop_of(replace(TESTED, protect_tests=True))
    assert proofs(loop.drive()) == [Proof.VERIFIED] * 2


SETTING = RunnerSetting("pytest", "**/conftest.py")


def test_settings_of_a_runner_are_noted_and_a_story_may_be_let_touch_them() -> None:
    changed = (Violation("conftest.py", "new"),)
    plan = replace(TESTED, runner_settings=(SETTING,), check_files=("t.py",), limits=ONE_CALL)
    text = STORIES.replace("## 1. First\n", "## 1. First\nTouches: `conftest.py`, `t.py`\n")
    for stories, outcome in ((STORIES, Outcome.VERIFY_FAILED), (text, Outcome.COMPLETE)):
        files = FakeProtectedFiles(changed)
        loop = FakeLoop((COMPLETE,), plan=plan, protected_files=files, source=FakeSource(stories))
        loop.drive()
        assert outcomes(loop) == [outcome]
        assert files.settings == (SETTING,)
        assert ("- `t.py`" in loop.agent.prompts[0]) == (outcome is Outcome.VERIFY_FAILED)


def test_what_is_protected_by_name_stays_protected() -> None:
    text = STORIES.replace("## 1. First\n", "## 1. First\nTouches: `a`, `b`\n")
    plan = replace(PLAN, protect=("a",), limits=ONE_CALL)
    both = FakeProtectedFiles((Violation("a", "changed"), Violation("b", "changed")))
    loop = FakeLoop((COMPLETE,), plan=plan, protected_files=both, source=FakeSource(text))
    run = loop.drive()
    assert "- a (changed)" in run.iterations[0].reason
    assert "- b" not in run.iterations[0].reason
    assert warnings(loop) == []
