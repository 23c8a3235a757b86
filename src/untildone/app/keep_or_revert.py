"""What becomes of an attempt's work: kept, or put back."""

import contextlib

from msgspec.structs import replace

from untildone.app.keep_plan_edits import keep_plan_edits, plan_as_written
from untildone.app.run_driver import RunDriver
from untildone.app.story_terms import changed_for_others
from untildone.app.verify import own_scripts, own_tests
from untildone.domain.checks.protection import MOST_NAMED, tests_among
from untildone.domain.errors import SourceAway, StoriesError, StoryLost, WorkDiverged
from untildone.domain.run import fact as f
from untildone.domain.run.commit_message import subject
from untildone.domain.run.plan import Plan
from untildone.domain.run.run import Iteration
from untildone.domain.stories.story import StoryBook, StoryKey, as_before
from untildone.ports import StorySource


def save(driver: RunDriver, lane_id: int) -> f.Saved | f.Verified:
    with held_plan(driver):
        return _save(driver, lane_id)


def held_plan(driver: RunDriver) -> contextlib.AbstractContextManager[None]:
    """What a person adds just now comes before all of this, or after it."""
    files = driver.ports.plan_files
    return files.held() if files else contextlib.nullcontext()


def _save(driver: RunDriver, lane_id: int) -> f.Saved | f.Verified:
    ports, plan = driver.ports, driver.run.plan
    lane = driver.run.lanes[lane_id]
    iteration = driver.iteration(lane_id)
    remarks: tuple[str, ...] = ()
    if not plan.plain and ports.source:
        try:
            remarks = _settled(driver, ports.source, iteration.story_key)
        except SourceAway:
            raise
        except StoriesError as broken:
            # What cannot be ticked must not be saved; with a reason it may be worth a retry.
            fatal = not isinstance(broken, StoryLost)
            return f.Verified(lane_id, passed=False, reason=broken.message, fatal=fatal)
    message = message_of(plan, iteration)
    try:
        saved = ports.checkpoint.save(lane_id, lane.checkpoint, message, only_changes=plan.plain)
    except WorkDiverged as diverged:
        return f.Verified(lane_id, passed=False, reason=diverged.message)
    return looked_at(driver, replace(saved, remarks=(*remarks, *saved.remarks)))


def message_of(plan: Plan, iteration: Iteration) -> str:
    """The message of a checkpoint; a later process knows it by the lines below the subject."""
    name = f"iteration-{iteration.n}" if plan.plain else iteration.story_id
    title = plan.task if plan.plain else iteration.story_key[1]
    attempt = iteration.attempt
    return (
        f"{subject(plan.commit_message, name, title, plan.change_id, attempt)}\n\n"
        f"Untildone-Run: {plan.run_id}\nUntildone-Story: {name}\nUntildone-Attempt: {attempt}\n"
    )


def looked_at(driver: RunDriver, saved: f.Saved) -> f.Saved:
    """With what says whether its checks prove anything; its paths need not be kept for that."""
    plan = driver.run.plan
    paths, saved = saved.paths, replace(saved, paths=())
    if plan.plain:
        return saved
    changed = set(paths) - _plan_files(driver)
    if not changed:
        return replace(saved, unchanged=True)
    if not driver.iteration(saved.lane).proof:
        return saved
    own = own_scripts(driver, saved.lane, changed)
    if not plan.protect_tests:  # else the tests were looked at
        own += own_tests(driver, saved.lane, tests_among(sorted(changed - set(own))))
    return replace(saved, own_tests=own[:MOST_NAMED])


def _plan_files(driver: RunDriver) -> set[str]:
    """The files that the stories stand in, as far as they can be told."""
    run, source = driver.run, driver.ports.source
    with contextlib.suppress(StoriesError):
        book = run.book or (source.load() if source else None)
        return set(book.files) if book else set()
    return set()


def _settled(driver: RunDriver, source: StorySource, key: StoryKey) -> tuple[str, ...]:
    now = source.load()
    if changed := changed_for_others(driver, now, key):  # by what the checks ran
        raise StoryLost(changed)
    book = _before(driver) or now
    story = book.find(key)
    return source.settle(story, book) if story else ()


def archive(driver: RunDriver) -> f.Archived:
    """Put the finished change away and keep that too; a refusal leaves the run as it is."""
    ports, plan = driver.ports, driver.run.plan
    assert ports.archive is not None
    try:
        path = ports.archive()
    except StoriesError as refused:
        return f.Archived("", refused.message)
    message = (
        f"archive: {plan.change_id}\n\nUntildone-Run: {plan.run_id}\nUntildone-Story: archive\n"
    )
    checkpoint = driver.run.lanes[0].checkpoint
    saved = ports.checkpoint.save(0, checkpoint, message, only_changes=True)
    return f.Archived(path, "", saved.commit, saved.checkpoint, saved.remarks)


def revert(driver: RunDriver, lane_id: int) -> f.Reverted:
    lane = driver.run.lanes[lane_id]
    it = driver.iteration(lane_id)
    story = f"{it.story_id}-limit" if it.limit else it.story_id
    attempt = it.n if it.limit else it.attempt
    if len(driver.run.lanes) > 1:  # what a person edits is not in a slot
        return driver.ports.checkpoint.revert(lane_id, lane.checkpoint, story, attempt)
    with held_plan(driver):
        written = plan_as_written(driver, it)
        reverted = driver.ports.checkpoint.revert(lane_id, lane.checkpoint, story, attempt)
        kept = keep_plan_edits(driver, it, written, reverted.saved_ref, _before(driver))
        said = (*kept, *_taken_back(driver, it.story_id))
    return replace(reverted, remarks=(*reverted.remarks, *said)) if said else reverted


def _taken_back(driver: RunDriver, story_id: str) -> tuple[str, ...]:
    source = driver.ports.source if story_id else None
    # An unreadable file is found by the next look at the stories, which says so.
    with contextlib.suppress(StoriesError):
        before = _before(driver) if source else None
        return source.take_back(before) if source and before else ()
    return ()


def _before(driver: RunDriver) -> StoryBook | None:
    """The stories before the attempt; after a crash as far as they are known."""
    run, source = driver.run, driver.ports.source
    if run.book or not source:
        return run.book
    known = driver.ports.folder.kept_open()
    return as_before(source.load(), known, run.finished) if known else None
