"""Whether COMPLETE is true: the loop's own checks of an attempt's work."""

import contextlib
from collections.abc import Iterator, Set

from msgspec import to_builtins
from msgspec.structs import replace

from untildone.app.run_driver import RunDriver
from untildone.app.wording import let_through
from untildone.domain.checks import baseline, terms
from untildone.domain.checks.check_files import scripts_of
from untildone.domain.checks.checks import Check, Checked, Failing, Level, in_force
from untildone.domain.checks.counted_tests import Counted, files_of_tests, shrunk
from untildone.domain.checks.protection import (
    MOST_NAMED,
    Violation,
    complaint,
    is_protected,
    tests_among,
)
from untildone.domain.reporting.event import Event, warning
from untildone.domain.run import fact as f
from untildone.domain.run import step as s
from untildone.domain.run.machine import required_at_start
from untildone.domain.stories.story import Story

AT_START = "checks-at-start"
ROUNDS = 2
UNSETTLED = (
    "The checks change files each time they run, so that none has passed on those that are saved: "
    "the work is kept and not counted as verified. What checks write belongs into .gitignore; "
    "with `--clean-room` they run beside your files"
)
OWN_PROOF = (
    "A file that a check runs, or that its runner obeys, was changed by the attempt. If a story is "
    "meant to do that, a line `Touches: PATH` in its text allows it; `--no-protect-checks` allows "
    "it to all"
)
# How a shell ends for a program that may not be run, or is not there.
CANNOT_START = ("exit code 126", "exit code 127")
LEAVE_TESTS = (
    "Leave tests that are there as they are and put new ones beside them. Only a story whose text "
    "says `Tests: may change`, or names the file in a line `Touches:`, may change them."
)
NOTHING_DONE = (
    "COMPLETE, but nothing was changed outside the task list. Do the work; if there is nothing to "
    "do, end with FAILED and say why."
)


def try_checks(driver: RunDriver, step: s.TryChecks) -> f.ChecksTried | None:
    """Which checks fail already; what they leave behind is put back. None if cut short."""
    checkpoint = driver.run.lanes[step.lane].checkpoint
    ports = driver.ports
    ports.checkpoint.ensure_at(checkpoint, step.story_id)
    checks = required_at_start(driver.run)
    driver.tell(Event("checks_tried", {"commands": [c.command for c in checks]}))
    found: list[Failing] = []
    counted: list[Counted] = []
    cut_short = False
    with _place(driver, checkpoint) as folder:
        for check in _apart(driver, checks) if folder else checks:
            checked = _checked(driver, check, folder)
            cut_short = checked.interrupted
            if cut_short:
                break
            if checked.reason:
                found.append(baseline.failing(check, checked))
            counted += _counted(check, checked)
    changed = ports.checkpoint.pending(checkpoint).paths
    known = ports.checkpoint.had(checkpoint, changed) if changed else ()
    made = tuple(path for path in changed if path not in known)
    remarks = _tidied(driver, step.lane, checkpoint, changed)
    if cut_short:
        return None
    missing = tuple(failing.command for failing in found if failing.how in CANNOT_START)
    return f.ChecksTried(tuple(found), remarks, tuple(counted), missing, known, made)


def verify(driver: RunDriver, lane: int) -> f.Verified:
    """What must hold for this attempt; the first check that blocks is the last."""
    plan, iteration = driver.run.plan, driver.iteration(lane)
    if unproven := _tampered(driver, lane) or _no_evidence(driver, lane):
        return f.Verified(lane, passed=False, reason=unproven)
    checks = in_force(plan.verify, iteration.checks) if plan.checks_count else ()
    if unproven := _changed_tests(driver, lane, checks):
        return f.Verified(lane, passed=False, reason=unproven)
    if not checks:
        return f.Verified(lane, passed=True)
    with _place(driver, driver.run.lanes[lane].checkpoint) as folder:
        return run_all(driver, lane, checks, folder)


def first_failure(driver: RunDriver, checks: tuple[Check, ...], folder: str) -> Checked:
    """Run checks in a folder, of no attempt; the first that blocks, or one that passed."""
    for check in _apart(driver, checks) if driver.run.plan.clean_room else checks:
        driver.tell(Event("verify_started", _named(check)))
        checked = _checked(driver, check, folder)
        old: tuple[str, ...] = ()
        if checked.reason and driver.run.plan.baseline and not check.own:
            checked, old = _against_start(driver, baseline.failing(check, checked), checked)
        _tell_end(driver, check, checked, old)
        if checked.reason and check.level is Level.REQUIRED:
            return checked
    return Checked()


def _changed_tests(
    driver: RunDriver, lane: int, checks: tuple[Check, ...], free: tuple[str, ...] = ()
) -> str:
    """Why tests that were there were not to be changed; nothing if they pass as they were."""
    plan, checkpoint = driver.run.plan, driver.run.lanes[lane].checkpoint
    if not plan.protect_tests:
        return ""
    changed = tests_among(driver.ports.checkpoint.pending(checkpoint).paths)
    if not (plan.clean_room and checks):
        tests = own_tests(driver, lane, tuple(path for path in changed if path not in free))
        files = complaint(Violation(path, "changed or deleted") for path in tests)
        return f"{files}\n{LEAVE_TESTS}" if tests else ""
    # A new test file beside the old ones may disturb them as well.
    touched = _not_freed(driver, lane, changed)
    if not touched:
        return ""
    with _place(driver, checkpoint, touched) as folder:
        earlier = tuple(replace(check, earlier_tests=True) for check in checks)
        before = run_all(driver, lane, earlier, folder)
    said = "Tests were changed or added, and without that the tests that were there do not pass"
    rows = "\n".join(f"- {path}" for path in touched[:MOST_NAMED])
    return "" if before.passed else f"{said}:\n{rows}\n{LEAVE_TESTS}\n{before.reason}"


def own_tests(driver: RunDriver, lane: int, tests: tuple[str, ...]) -> tuple[str, ...]:
    """Which of these the checkpoint has, but for those that the person lets the story change."""
    kept = _not_freed(driver, lane, tests)
    return driver.ports.checkpoint.had(driver.run.lanes[lane].checkpoint, kept) if kept else ()


def own_scripts(driver: RunDriver, lane: int, changed: Set[str]) -> tuple[str, ...]:
    """Scripts that a check runs and that the attempt has written: they were not there before."""
    plan, iteration = driver.run.plan, driver.iteration(lane)
    if not plan.protect_checks:
        return ()
    commands = (check.command for check in in_force(plan.verify, iteration.checks))
    written = tuple(path for path in scripts_of(commands) if path in changed)
    return _not_freed(driver, lane, written) if written else ()


def _not_freed(driver: RunDriver, lane: int, tests: tuple[str, ...]) -> tuple[str, ...]:
    said = _terms(driver, lane)
    return tuple(path for path in tests if not (said.frees_tests or said.frees(path)))


def run_all(driver: RunDriver, lane: int, checks: tuple[Check, ...], folder: str) -> f.Verified:
    still: dict[str, Failing] = {}
    counted: list[Counted] = []
    turns = _Turns(driver, lane, checks, folder)
    for check in turns:
        checked, old = _run_one(driver, lane, check, folder)
        still.pop(check.command, None)
        still |= {check.command: old} if old else {}
        counted += _counted(check, checked)
        if checked.reason and check.level is Level.REQUIRED:
            return f.Verified(lane, passed=False, reason=turns.since + checked.reason)
    if turns.since and (unproven := _tampered_by_checks(driver, lane, checks)):
        return f.Verified(lane, passed=False, reason=turns.since + unproven)
    return f.Verified(
        lane,
        passed=True,
        still_failing=tuple(still.values()),
        counted=tuple(counted),
        checked=turns.settled and _proven(driver, lane, checks),
    )


def _tampered_by_checks(driver: RunDriver, lane: int, checks: tuple[Check, ...]) -> str:
    """What a check runs is the agent's code; what it changed without that, before, is no matter."""
    free = driver.run.changed_by_checks
    return _tampered(driver, lane, free) or _changed_tests(driver, lane, checks, free)


def _run_one(
    driver: RunDriver, lane: int, check: Check, folder: str
) -> tuple[Checked, Failing | None]:
    """What a check gave, and what of it is old and was let through."""
    driver.tell(Event("verify_started", _named(check)))
    checked = _checked(driver, check, folder)
    old: tuple[str, ...] = ()
    let: Failing | None = None
    if checked.reason and driver.run.plan.baseline and not check.own:
        now = baseline.failing(check, checked)
        checked, old = _against_start(driver, now, checked)
        let = replace(now, names=old if now.names else ()) if old else None
    if not checked.reason and check.level is Level.REQUIRED:
        checked = replace(checked, reason=_fewer_tests(driver, lane, check, checked))
    _tell_end(driver, check, checked, old)
    return checked, let


def _apart(driver: RunDriver, checks: tuple[Check, ...]) -> Iterator[Check]:
    """The checks in turn, each in the clean checkout as it was made."""
    for check in checks:
        if check is not checks[0]:
            driver.ports.clean_checkout.put_back()
        yield check


class _Turns:
    """The checks in turn, until each has passed on the very files that are saved.

    Where one changes files, those that began before that run once more; which files it changed,
    the reason of a later failure says (`since`). What writes other files each time proves nothing
    of those that are saved. In a clean checkout none sees what another one changed.
    """

    def __init__(
        self, driver: RunDriver, lane: int, checks: tuple[Check, ...], folder: str
    ) -> None:
        self._driver = driver
        self._checkpoint = driver.run.lanes[lane].checkpoint
        self._checks = checks
        self._folder = folder
        self.since = ""
        self.settled = True

    def __iter__(self) -> Iterator[Check]:
        if self._folder:
            return _apart(self._driver, self._checks)
        return self._in_worktree()

    def _in_worktree(self) -> Iterator[Check]:
        tree, changes = self._tree(), 0
        began: dict[str, int] = {}  # after how many changes
        for _ in range(ROUNDS):
            for check in self._checks:
                if began.get(check.command) == changes:
                    continue
                began[check.command] = changes
                yield check
                before, tree = tree, self._tree()
                changes += self._changed(check, before, tree)
        self.settled = set(began.values()) <= {changes}
        if not self.settled:
            self._driver.tell(warning(UNSETTLED))

    def _tree(self) -> str:
        return self._driver.ports.checkpoint.pending(self._checkpoint).tree

    def _changed(self, check: Check, before: str, after: str) -> bool:
        """Whether files changed that matter: neither the task list nor what checks always write."""
        run = self._driver.run
        changed = set(self._driver.ports.checkpoint.changed_between(before, after))
        changed -= {*run.made_by_checks, *(run.book.files if run.book else ())}
        if not changed:
            return False
        names = baseline.listed(tuple(sorted(changed)))
        said = f"Files changed while the check `{check.command}` ran: {names}"
        if not self.since:
            text = f"{said}. They are kept so, and checks that saw them otherwise run once more"
            self._driver.tell(warning(text))
        self.since = f"{said}\n"
        return True


def _proven(driver: RunDriver, lane: int, checks: tuple[Check, ...]) -> bool:
    """Whether a check was required, and none that the story's text names was left out."""
    story = _story(driver, lane)
    left_out = terms.left_out(story, driver.run.plan.terms) if story else ()
    return not left_out and any(check.level is Level.REQUIRED for check in checks)


def _counted(check: Check, checked: Checked) -> Iterator[Counted]:
    if checked.tests and check.level is Level.REQUIRED:
        yield Counted(check.command, checked.tests, checked.reported)


def _fewer_tests(driver: RunDriver, lane: int, check: Check, checked: Checked) -> str:
    """Why a check that passed proves less than before, and which files did that."""
    less = shrunk(check.command, checked.tests, checked.reported, driver.run.counted)
    if not less or _terms(driver, lane).tests_may_shrink:
        return ""
    changed = driver.ports.checkpoint.pending(driver.run.lanes[lane].checkpoint).paths
    files = baseline.listed(files_of_tests(changed)) or "none"
    return (
        f"The check `{check.command}` passed, but with fewer tests: {less}.\n"
        f"Files that were changed: {files}\n"
        "Tests that were there must stay and run. Only a story whose text says "
        "`Tests: may shrink` may take some away."
    )


def _terms(driver: RunDriver, lane: int) -> terms.Terms:
    story = _story(driver, lane)
    return terms.in_force(story, driver.run.plan.terms) if story else terms.Terms("", "")


def _story(driver: RunDriver, lane: int) -> Story | None:
    source = driver.ports.source
    if driver.run.plan.plain or not source:
        return None
    book = driver.run.book or source.load()
    return book.find(driver.iteration(lane).story_key)


@contextlib.contextmanager
def _place(driver: RunDriver, checkpoint: str, as_before: tuple[str, ...] = ()) -> Iterator[str]:
    """Where the checks run: in the worktree, or where only committed files are."""
    ports = driver.ports
    if not driver.run.plan.clean_room:
        yield ""
        return
    tree = ports.checkpoint.pending(checkpoint).tree
    try:
        yield ports.clean_checkout.make(tree, checkpoint, as_before)
    finally:
        ports.clean_checkout.remove()


def _tampered(driver: RunDriver, lane: int, free: tuple[str, ...] = ()) -> str:
    """Which protected files were changed: then no check is worth running."""
    plan, iteration = driver.run.plan, driver.iteration(lane)
    if not (plan.protected or iteration.checks):
        return ""
    found = [v for v in driver.ports.protected_files.violations() if v.path not in free]
    named = [v for v in found if is_protected(v.path, plan.protect)]
    if len(named) < len(found):
        found = [v for v in found if v in named or not _terms(driver, lane).frees(v.path)]
    if len(named) < len(found):  # what nobody has named is protected because of the checks
        driver.tell(warning(OWN_PROOF))
    return complaint(found)


def _no_evidence(driver: RunDriver, lane: int) -> str:
    """Why COMPLETE is not believed: nothing was done."""
    plan, source = driver.run.plan, driver.ports.source
    if not plan.evidence or plan.plain or not source:
        return ""
    if _may_be_empty(driver, lane):
        return ""
    book = driver.run.book or source.load()
    changed = driver.ports.checkpoint.pending(driver.run.lanes[lane].checkpoint).paths
    return "" if set(changed) - book.files else NOTHING_DONE


def _may_be_empty(driver: RunDriver, lane: int) -> bool:
    asked = {"*", driver.iteration(lane).story_id}
    allowed = not asked.isdisjoint(driver.run.plan.allow_empty_story)
    return allowed or _terms(driver, lane).may_be_empty


def _checked(driver: RunDriver, check: Check, folder: str) -> Checked:
    seconds = driver.run.plan.limits.check_min * 60
    return driver.ports.verifier.run(check.command, seconds, folder)


def _against_start(
    driver: RunDriver, now: Failing, checked: Checked
) -> tuple[Checked, tuple[str, ...]]:
    """The failure without what is old, and what of it was let through."""
    compared = baseline.compare(now, driver.run.known_failures or ())
    if not compared.new:
        driver.tell(warning(let_through(now, compared.old)))
        return Checked(tests=checked.tests, reported=checked.reported), compared.old
    reason = f"Newly broken: {baseline.listed(compared.new)}\n{checked.reason}"
    return replace(checked, reason=reason), ()


def _tell_end(driver: RunDriver, check: Check, checked: Checked, old: tuple[str, ...]) -> None:
    data = _named(check) | {"passed": not checked.reason, "reason": checked.reason}
    data |= {"tests": to_builtins(checked.tests)} if checked.tests else {}
    driver.tell(Event("verify_ended", data | ({"let_through": old} if old else {})))
    if checked.reason and check.level is Level.WARN:
        text = f"A check that blocks nothing failed ({checked.how}): `{check.command}`"
        driver.tell(warning(text))


def _tidied(
    driver: RunDriver, lane: int, checkpoint: str, changed: tuple[str, ...]
) -> tuple[str, ...]:
    """The tree as it was before the checks; what they changed is stored like an attempt."""
    if not changed:
        return ()
    back = driver.ports.checkpoint.revert(lane, checkpoint, AT_START, 1)
    said = f"The checks changed files that git does not ignore: {baseline.listed(changed)}"
    return (f"{said}; that was put back and is stored as {back.saved_ref}", *back.remarks)


def _named(check: Check) -> dict[str, object]:
    named: dict[str, object] = {"command": check.command, "level": check.level}
    return named | ({"earlier_tests": True} if check.earlier_tests else {})
