"""Whether COMPLETE is true: the loop's own checks of an attempt's work."""

import contextlib
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from untildone.app.course import Course
from untildone.domain.checks import baseline
from untildone.domain.checks.checks import Check, Checked, Failing, Level, in_force, may_be_empty
from untildone.domain.checks.protection import complaint
from untildone.domain.reporting.event import Event, warning
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.machine import required_at_start
from untildone.domain.run.run import Iteration

AT_START = "checks-at-start"
OWN_PROOF = (
    "A file that a check runs was changed by the attempt; `--no-protect-checks` allows that, "
    "if the stories are meant to change it"
)
NOTHING_DONE = (
    "COMPLETE, but nothing was changed outside the task list. Do the work; if there is nothing to "
    "do, end with FAILED and say why."
)


class Checker:
    """Proves the work after COMPLETE, and finds out what fails before there is any."""

    def __init__(self, course: Course) -> None:
        self._course = course

    def try_first(self, step: s.TryChecks) -> f.ChecksTried | None:
        """Which checks fail already; what they leave behind is put back. None if cut short."""
        checkpoint = self._course.run.lanes[step.lane].checkpoint
        ports = self._course.ports
        ports.checkpoint.stand(checkpoint, step.story_id)
        checks = required_at_start(self._course.run)
        self._course.tell(Event("checks_tried", {"commands": [c.command for c in checks]}))
        found: list[Failing] = []
        cut_short = False
        with self._place(checkpoint) as folder:
            for check in checks:
                checked = self._checked(check, folder)
                cut_short = checked.interrupted
                if cut_short:
                    break
                if checked.reason:
                    found.append(baseline.failing(check, checked))
        remarks = self._tidied(step.lane, checkpoint)
        return None if cut_short else f.ChecksTried(tuple(found), remarks)

    def verify(self, lane: int) -> f.Verified:
        """What must hold for this attempt; the first check that blocks is the last."""
        plan, iteration = self._course.run.plan, self._course.iteration(lane)
        if unproven := self._tampered(iteration) or self._no_evidence(lane):
            return f.Verified(lane, passed=False, reason=unproven)
        checks = in_force(plan.verify, iteration.checks) if plan.checks_count else ()
        if not checks:
            return f.Verified(lane, passed=True)
        with self._place(self._course.run.lanes[lane].checkpoint) as folder:
            return self._run_all(lane, checks, folder)

    def _run_all(self, lane: int, checks: Iterable[Check], folder: str) -> f.Verified:
        still: list[Failing] = []
        for check in checks:
            self._course.tell(Event("verify_started", _named(check)))
            checked = self._checked(check, folder)
            old: tuple[str, ...] = ()
            if checked.reason and self._course.run.plan.baseline and not check.own:
                now = baseline.failing(check, checked)
                checked, old = self._against_start(now, checked)
                still += [replace(now, names=old if now.names else ())] if old else []
            self._tell_end(check, checked, old)
            if checked.reason and check.level is Level.REQUIRED:
                return f.Verified(lane, passed=False, reason=checked.reason)
        return f.Verified(lane, passed=True, still_failing=tuple(still))

    @contextlib.contextmanager
    def _place(self, checkpoint: str) -> Iterator[str]:
        """Where the checks run: in the worktree, or where only committed files are."""
        ports = self._course.ports
        if not self._course.run.plan.clean_room:
            yield ""
            return
        tree = ports.checkpoint.pending(checkpoint).tree
        try:
            yield ports.clean_checkout.make(tree, checkpoint)
        finally:
            ports.clean_checkout.remove()

    def _tampered(self, iteration: Iteration) -> str:
        """Which protected files were changed: then no check is worth running."""
        plan = self._course.run.plan
        if not (plan.protected or iteration.checks):
            return ""
        found = self._course.ports.protected_files.violations()
        if not found:
            return ""
        if any(violation.path in plan.check_files for violation in found):
            self._course.tell(warning(OWN_PROOF))
        return complaint(found)

    def _no_evidence(self, lane: int) -> str:
        """Why COMPLETE is not believed: nothing was done."""
        course = self._course
        plan, source = course.run.plan, course.ports.source
        if not plan.evidence or plan.plain or not source:
            return ""
        book = course.run.book or source.load()
        story = book.find(course.iteration(lane).story_key)
        if story and may_be_empty(story, plan.allow_empty_story):
            return ""
        changed = course.ports.checkpoint.pending(course.run.lanes[lane].checkpoint).paths
        return "" if set(changed) - book.files else NOTHING_DONE

    def _checked(self, check: Check, folder: str) -> Checked:
        seconds = self._course.run.plan.limits.check_min * 60
        return self._course.ports.verifier.run(check.command, seconds, folder)

    def _against_start(self, now: Failing, checked: Checked) -> tuple[Checked, tuple[str, ...]]:
        """The failure without what is old, and what of it was let through."""
        compared = baseline.compare(now, self._course.run.known_failures or ())
        if not compared.new:
            self._course.tell(warning(baseline.let_through(now, compared.old)))
            return Checked(), compared.old
        reason = f"Newly broken: {baseline.listed(compared.new)}\n{checked.reason}"
        return replace(checked, reason=reason), ()

    def _tell_end(self, check: Check, checked: Checked, old: tuple[str, ...]) -> None:
        data = _named(check) | {"passed": not checked.reason, "reason": checked.reason}
        self._course.tell(Event("verify_ended", data | ({"let_through": old} if old else {})))
        if checked.reason and check.level is Level.WARN:
            text = f"A check that blocks nothing failed ({checked.how}): `{check.command}`"
            self._course.tell(warning(text))

    def _tidied(self, lane: int, checkpoint: str) -> tuple[str, ...]:
        """The tree as it was before the checks; what they changed is stored like an attempt."""
        changed = self._course.ports.checkpoint.pending(checkpoint).paths
        if not changed:
            return ()
        back = self._course.ports.checkpoint.revert(lane, checkpoint, AT_START, 1)
        said = f"The checks changed files that git does not ignore: {baseline.listed(changed)}"
        return (f"{said}; that was put back and is stored as {back.saved_ref}", *back.remarks)


def _named(check: Check) -> dict[str, object]:
    return {"command": check.command, "level": check.level}
