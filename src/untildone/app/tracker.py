"""Stories that a tracker keeps, worked on in several lanes: one state for all, in no commit.

Only the main thread asks and tells it. An issue is closed once its work is on the branch. Who
closes one before that, an agent or anybody, has not finished it: it counts as open, and is opened
again when its attempt is put back, or at the next look if nobody is at work on it.
"""

import contextlib
from collections.abc import Mapping, Set

from msgspec.structs import replace

from untildone.app.run_driver import RunDriver
from untildone.domain.errors import StoriesError, StoryLost
from untildone.domain.reporting.event import warning
from untildone.domain.stories.story import Story, StoryBook, as_before
from untildone.ports import StorySource


def look(driver: RunDriver) -> StoryBook | None:
    """The stories as they are now, as far as the run believes their source."""
    source = driver.ports.source
    now = source.load() if source else None
    if source is None or now is None or not _is_beside(driver):
        return now
    if driver.book:
        return _believed(driver, source, driver.book, now)
    # What agents of an earlier process have closed; without open work it was the person.
    known = driver.ports.folder.kept_open() if driver.run.open_iterations else []
    if known and _opened_again(driver, source, as_before(now, known, driver.run.finished)):
        now = source.load()
    return now


def settle(driver: RunDriver, lane: int) -> tuple[str, ...]:
    """Close the issue of a story that is on the branch; a second time changes nothing."""
    source, story_id = driver.ports.source, driver.iteration(lane).story_id
    if source is None or not _is_beside(driver):
        return ()
    now = source.load()
    story = _by_id(now, story_id)
    try:
        return source.settle(story, now.restated((story,))) if story else ()
    except StoryLost as gone:
        return (gone.message,)


def put_back(driver: RunDriver, lane: int) -> tuple[str, ...]:
    """Open the issue of an attempt that did not finish it, and no other."""
    source, book = driver.ports.source, driver.book
    story = _by_id(book, driver.iteration(lane).story_id) if book else None
    if source and book and story and _is_beside(driver):
        # If it cannot be told now, the source does so before its next look.
        with contextlib.suppress(StoriesError):
            return source.take_back(book.restated((story,)))
    return ()


def _is_beside(driver: RunDriver) -> bool:
    return driver.lanes is not None and driver.run.plan.in_tracker


def _believed(
    driver: RunDriver, source: StorySource, known: StoryBook, now: StoryBook
) -> StoryBook:
    """What was open and is not finished by this run is open, and waited for."""
    was = {story.id: story for story in known.stories}
    early = _closed_early(driver, was, now)
    if not early:
        return now
    at_work = {iteration.story_id for iteration in driver.run.open_iterations}
    if strays := tuple(story for story in early.values() if story.id not in at_work):
        _opened_again(driver, source, known.restated(strays))
    stories = (early.get(s.id) or _waiting(s, was.get(s.id), early.keys()) for s in now.stories)
    return now.restated(tuple(stories))


def _closed_early(driver: RunDriver, was: Mapping[str, Story], now: StoryBook) -> dict[str, Story]:
    """Stories that were open and that this run has not finished, as they were."""
    over = {story_id for story_id, _ in driver.run.finished}
    closed = (story.id for story in now.stories if story.done and story.id not in over)
    return {name: was[name] for name in closed if name in was and not was[name].done}


def _waiting(story: Story, was: Story | None, for_ids: Set[str]) -> Story:
    """A tracker may not name any more what a story waited for, once that is closed."""
    lacking = (
        [n for n in was.depends_on if n in for_ids and n not in story.depends_on] if was else []
    )
    return replace(story, depends_on=(*story.depends_on, *lacking)) if lacking else story


def _opened_again(driver: RunDriver, source: StorySource, before: StoryBook) -> bool:
    told = source.take_back(before)
    for text in told:
        driver.tell(warning(text))
    return bool(told)


def _by_id(book: StoryBook, story_id: str) -> Story | None:
    """An issue keeps its number, whatever its title becomes."""
    return next((story for story in book.stories if story.id == story_id), None)
