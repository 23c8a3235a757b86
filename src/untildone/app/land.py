"""Landing: finished work of a lane on top of what landed before, checked as a whole."""

import contextlib
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from untildone.app import tracker
from untildone.app.keep_or_revert import held_plan, looked_at, message_of
from untildone.app.run_driver import FinishedWork, RunDriver
from untildone.app.verify import first_failure, run_all
from untildone.app.wording import whole_is_red
from untildone.domain.checks.checks import Check, Checked, in_force
from untildone.domain.errors import Interrupted, StepError, StoriesError, StoryLost, WorkDiverged
from untildone.domain.run import fact as f
from untildone.domain.run.landing import Conflict, Merged, Standing
from untildone.domain.run.run import Iteration, Outcome, Run
from untildone.domain.run.run_commands import regenerators
from untildone.domain.stories.same_story import same_story
from untildone.domain.stories.story import StoryKey
from untildone.ports import Lanes, RunBranch

NAMED = 5
TAIL = 4000


class Landable(Struct, frozen=True):
    """Work that was brought together with the tip and checked; the branch has not moved yet."""

    tip: str
    landed: f.Landed


def begun(driver: RunDriver, lane: int) -> Landable | None:
    """What an earlier process was about to land: it was checked then, and may be there by now."""
    branch, landing = _branch(driver), driver.run.lanes[lane].landing
    if landing is None:
        return None
    before = branch.stands(landing.tip, landing.candidate) is Standing.BEFORE
    if before or branch.builds_on(landing.candidate):
        return Landable(landing.tip, f.Landed(lane, landing.candidate))
    return None


def land(driver: RunDriver, lane: int) -> Landable | f.Requeued | f.Verified:
    """All of a landing that takes time, in the thread of the lane; nothing lands here."""
    branch, known = _branch(driver), driver.run.lanes[lane]
    work = driver.finished.get(known.ticket) or store(driver, lane)
    if isinstance(work, f.Verified):
        return work
    tip = _tip(driver)
    assert driver.book is not None
    beside = sorted(driver.book.files)
    merged = _merged(driver, lane, (tip, known.checkpoint, work.commit), beside)
    if not isinstance(merged, Merged):
        return merged
    try:
        ticked, said = _ticked(driver, lane, merged.tree, beside)
    except StoriesError as broken:
        fatal = not isinstance(broken, StoryLost)
        return f.Verified(lane, passed=False, reason=broken.message, fatal=fatal)
    commit = branch.candidate(tip, merged.tree, _message(driver, lane), ticked)
    checked, flaky = f.Verified(lane, passed=True), tuple[str, ...]()
    if tip != known.checkpoint and (checks := _checks(driver, lane)):
        # Others wait meanwhile, so the slot follows only where something is to run in it.
        driver.use(_lanes(driver).ready(lane, commit))
        checked, flaky = _checked(driver, lane, commit, checks)
    if not checked.passed and _lanes(driver).is_interrupted(lane):
        return checked
    if not checked.passed:
        return _requeued(driver, lane, f"Green alone, red together. {checked.reason}", ())
    if tip == known.checkpoint:
        checked = replace(checked, still_failing=known.still_failing, counted=known.counted)
    landed = f.Landed(
        lane,
        commit,
        (*work.saved.remarks, *said, *_made_anew(merged)),
        checked.still_failing,
        checked.counted,
        flaky,
        work.saved.unchanged,
        work.saved.own_tests,
    )
    return Landable(tip, landed)


def bring_in(driver: RunDriver, found: Landable) -> f.Landed | None:
    """Move the branch; None if somebody else has moved it: then all is looked at once more."""
    lane, branch = found.landed.lane, _branch(driver)
    if not _is_there(driver, found):
        with held_plan(driver):
            driver.keep_edits(lane)
            if not _has_moved(driver, found):
                return None
    told = tracker.settle(driver, lane)
    iteration = driver.iteration(lane)
    branch.forget_work(iteration.story_id, iteration.attempt)
    return replace(found.landed, remarks=(*found.landed.remarks, *told))


def _is_there(driver: RunDriver, found: Landable) -> bool:
    """Whether the branch was moved before, and then a crash came, or its tracker was away."""
    landing, commit = driver.run.lanes[found.landed.lane].landing, found.landed.commit
    intended = landing is not None and landing.candidate == commit
    return intended and _branch(driver).builds_on(commit)


def _has_moved(driver: RunDriver, found: Landable) -> bool:
    lane, branch = found.landed.lane, _branch(driver)
    if branch.tip() != found.tip:
        return False
    driver.record(f.LandIntended(lane, found.tip, found.landed.commit))
    why = _message(driver, lane).partition("\n")[0]
    try:
        return branch.land(found.tip, found.landed.commit, why)
    except Interrupted:
        raise
    except StepError:
        driver.edited = True  # perhaps by hand, in the last moment: then the edits come first
        driver.keep_edits(lane)
        if branch.tip() == found.tip:
            raise
        return False


def final_gate(driver: RunDriver, fact: f.StoriesLoaded) -> f.StoriesLoaded | None:
    """All checks once more, those of single stories too, on what all stories have come to.

    In the main thread, while no lane is at work. None if it has to wait, or was cut short.
    """
    landed = _landed(driver.run)
    own = dict.fromkeys(command for it in landed for command in it.checks)
    checks = in_force(driver.run.plan.verify, tuple(own))
    if not checks or not landed:
        return fact
    if driver.begun:
        driver.ports.human.wait_for_word()
        return None
    found = _at(driver, driver.run.tip, checks)
    if not found.reason or found.interrupted:
        return None if found.interrupted else fact
    first = _first_red(driver, landed, checks)
    said = whole_is_red(first.story_id, first.commits[-1], found.reason)
    return replace(fact, done=False, unfinished=said)


def _landed(run: Run) -> list[Iteration]:
    """What stories have landed with, but for those that were taken out again."""
    done = (it for it in run.iterations if it.outcome is Outcome.COMPLETE)
    return [it for it in done if it.story_key in run.finished]


def _first_red(driver: RunDriver, landed: list[Iteration], checks: tuple[Check, ...]) -> Iteration:
    """The story with whose commit the whole became red, by bisection."""
    low, high = 0, len(landed) - 1
    while low < high:
        middle = (low + high) // 2
        red = _at(driver, landed[middle].commits[-1], checks).reason
        low, high = (low, middle) if red else (middle + 1, high)
    return landed[low]


def _at(driver: RunDriver, commit: str, checks: tuple[Check, ...]) -> Checked:
    """The checks on the files of a commit and no others."""
    if not driver.run.plan.clean_room:
        return first_failure(driver, checks, _lanes(driver).ready(0, commit).cwd)
    room = driver.ports.clean_checkout
    try:
        folder = room.make(_branch(driver).tree_of(commit), commit)
        return first_failure(driver, checks, folder)
    finally:
        room.remove()


def attempt_ref(driver: RunDriver, lane: int) -> str:
    """Where the work of a lane's open iteration is stored, or will be."""
    iteration, plan = driver.iteration(lane), driver.run.plan
    return f"refs/ralph/attempts/{plan.change_id}/{iteration.story_id}/{iteration.attempt}"


def _branch(driver: RunDriver) -> RunBranch:
    assert driver.ports.branch is not None
    return driver.ports.branch


def _lanes(driver: RunDriver) -> Lanes:
    assert driver.ports.lanes is not None
    return driver.ports.lanes


def _message(driver: RunDriver, lane: int) -> str:
    return message_of(driver.run.plan, driver.iteration(lane))


def store(driver: RunDriver, lane: int) -> FinishedWork | f.Verified:
    """The work as a commit that the user's repository has, before anything else is done with it."""
    branch, iteration = _branch(driver), driver.iteration(lane)
    base = driver.run.lanes[lane].checkpoint
    if commit := branch.stored_work(iteration.story_id, iteration.attempt):
        return FinishedWork(commit, f.Saved(lane, commit, commit))
    message = _message(driver, lane)
    try:
        saved = driver.ports.checkpoint.save(lane, base, message, only_changes=False)
    except WorkDiverged as diverged:
        return f.Verified(lane, passed=False, reason=diverged.message)
    saved = looked_at(driver, saved)
    commit = branch.store_work(iteration.story_id, iteration.attempt, base, saved.commit)
    return FinishedWork(commit, saved)


def _tip(driver: RunDriver) -> str:
    """Where the branch is; commits that a person has added are built upon."""
    branch, known = _branch(driver), driver.run.tip
    tip = branch.tip()
    if tip == known or branch.builds_on(known):
        return tip
    change = driver.run.plan.change_id
    raise StepError(
        f"The branch `ralph/{change}` does not contain the last checkpoint {known[:12]} any more",
        state=f"Where it is now is stored as: {branch.store_moved() or 'nowhere, it is gone'}",
        hint=f"git branch -f ralph/{change} {known[:12]} && untildone resume {change}",
    )


def _checks(driver: RunDriver, lane: int) -> tuple[Check, ...]:
    return in_force(driver.run.plan.verify, driver.iteration(lane).checks)


def _checked(
    driver: RunDriver, lane: int, together: str, checks: tuple[Check, ...]
) -> tuple[f.Verified, tuple[str, ...]]:
    """The checks on the sum; one that fails is run once more on the very same files."""
    result, flaky = f.Verified(lane, passed=True), list[str]()
    with _place(driver, together) as folder:
        for check in checks:
            found = run_all(driver, lane, (check,), folder)
            if not found.passed and not _lanes(driver).is_interrupted(lane):
                _put_back(driver, folder)
                found = run_all(driver, lane, (check,), folder)
                flaky += [check.command] if found.passed else []
            if not found.passed:
                return found, ()
            _put_back(driver, folder)
            still = (*result.still_failing, *found.still_failing)
            result = replace(found, still_failing=still, counted=(*result.counted, *found.counted))
    return result, tuple(flaky)


def _put_back(driver: RunDriver, room: str) -> None:
    """What one check changes in a clean checkout, the next one does not see."""
    if room:
        driver.ports.clean_checkout.put_back()


@contextlib.contextmanager
def _place(driver: RunDriver, together: str) -> Iterator[str]:
    """The slot, which has the files of the sum, or where only committed files are."""
    if not driver.run.plan.clean_room:
        yield ""
        return
    room = driver.ports.clean_checkout
    try:
        yield room.make(_branch(driver).tree_of(together), together)
    finally:
        room.remove()


def _merged(
    driver: RunDriver, lane: int, sides: tuple[str, str, str], beside: list[str]
) -> Merged | f.Requeued | f.Verified:
    """Tip, base and story as one; generated files are left to the commands that make them."""
    branch, plan, verifier = _branch(driver), driver.run.plan, driver.ports.verifier

    def run(command: str, folder: str) -> str:
        ended = verifier.run(command, plan.limits.check_min * 60, folder)
        return f"{ended.how}\n{ended.output[-TAIL:].strip()}".strip() if ended.reason else ""

    merged = branch.merge(*sides, beside)
    if isinstance(merged, Conflict) and plan.regenerate:
        merged = branch.regenerated(merged, sides, regenerators(plan), run, beside)
        if isinstance(merged, Conflict) and _lanes(driver).is_interrupted(lane):
            return f.Verified(lane, passed=False, reason=merged.why)
    if isinstance(merged, Conflict):
        return _requeued(driver, lane, _met(merged), merged.files)
    return merged


def _made_anew(merged: Merged) -> tuple[str, ...]:
    files = ", ".join(merged.regenerated)
    return (f"Two stories changed it, and its command has made it anew: {files}",) if files else ()


def _requeued(driver: RunDriver, lane: int, why: str, files: tuple[str, ...]) -> f.Requeued:
    return f.Requeued(lane, why, files, attempt_ref(driver, lane))


def _met(conflict: Conflict) -> str:
    files = ", ".join(conflict.files[:NAMED])
    met = "; ".join(f"{met.subject} ({met.commit[:12]})" for met in conflict.met[:NAMED])
    said = f"It changes the same places as what landed before it, in: {files}."
    since = f" Landed since it began: {met}." if met else ""
    return f"{said}{since} {conflict.why}".strip()


def _ticked(
    driver: RunDriver, lane: int, tree: str, paths: list[str]
) -> tuple[dict[str, bytes | None], tuple[str, ...]]:
    """The task list of the tip with the boxes of this story ticked; and what is worth telling.

    The story source sees it in the slot, whose own task list is put there again afterwards.
    """
    files = driver.ports.plan_files
    assert files is not None
    if driver.run.plan.in_tracker:
        return {}, ()
    wanted = _branch(driver).read(tree, paths)
    own = files.read(wanted)
    try:
        for path, data in wanted.items():
            files.write(path, data)
        said = _settled(driver, driver.iteration(lane).story_key)
        now = files.read(wanted)
    finally:
        for path in wanted:
            files.write(path, own.get(path))
    return {path: now.get(path) for path in wanted if now.get(path) != wanted[path]}, said


def _settled(driver: RunDriver, key: StoryKey) -> tuple[str, ...]:
    assert driver.ports.source is not None
    book, before = driver.ports.source.load(), driver.book
    assert before is not None
    was = before.find(key)
    story = same_story(was, before, book) if was else book.find(key)
    return driver.ports.source.settle(story, book) if story else ()
