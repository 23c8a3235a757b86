"""Whether COMPLETE is true: the loop's own checks of an attempt's work."""

from untildone.app.world import Course
from untildone.domain import fact as f
from untildone.domain.checks import Check, Checked, Level, in_force
from untildone.domain.event import Event, warning


class Checker:
    """Proves the work after COMPLETE."""

    def __init__(self, course: Course) -> None:
        self._course = course

    def verify(self, lane: int) -> f.Verified:
        """Every check that is in force for this attempt; the first that blocks is the last."""
        plan, iteration = self._course.run.plan, self._course.iteration(lane)
        for check in in_force(plan.verify, iteration.checks):
            checked = self._run(check)
            if checked.reason and check.level is Level.REQUIRED:
                return f.Verified(lane, passed=False, reason=checked.reason)
            if checked.reason:
                text = f"A check that blocks nothing failed ({checked.how}): `{check.command}`"
                self._course.tell(warning(text))
        return f.Verified(lane, passed=True)

    def _run(self, check: Check) -> Checked:
        said = {"command": check.command, "level": check.level}
        self._course.tell(Event("verify_started", said))
        seconds = self._course.run.plan.limits.check_min * 60
        checked = self._course.ports.verifier.run(check.command, seconds)
        ended = said | {"passed": not checked.reason, "reason": checked.reason}
        self._course.tell(Event("verify_ended", ended))
        return checked
