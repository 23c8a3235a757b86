"""What becomes of an attempt's work: kept, or put back."""

import contextlib
from dataclasses import replace

from untildone.app.world import Course, open_iteration
from untildone.domain import fact as f
from untildone.domain.claims import as_before
from untildone.domain.errors import StoriesError, StoryLost, WorkAstray
from untildone.domain.story import StoryBook
from untildone.ports import StorySource


class Keeper:
    """Keeps the work, or puts the tree back."""

    def __init__(self, course: Course) -> None:
        self._course = course

    def save(self, lane_id: int) -> f.Saved | f.Verified:
        ports, plan = self._course.ports, self._course.run.plan
        lane = self._course.run.lanes[lane_id]
        iteration = open_iteration(lane)
        name = f"iteration-{iteration.n}" if plan.plain else iteration.story_id
        remarks: tuple[str, ...] = ()
        if not plan.plain and ports.source:
            book = self._before(ports.source) or ports.source.load()
            story = book.find(iteration.story_key)
            try:
                remarks = ports.source.settle(story, book) if story else ()
            except StoryLost as lost:
                # Worth a retry with this reason: what cannot be ticked must not be saved.
                return f.Verified(lane_id, passed=False, reason=lost.message)
        message = (
            f"checkpoint: {name}\n\nUntildone-Run: {plan.run_id}\n"
            f"Untildone-Story: {name}\nUntildone-Attempt: {iteration.attempt}\n"
        )
        try:
            saved = ports.checkpoint.save(
                lane_id, lane.checkpoint, message, only_changes=plan.plain
            )
        except WorkAstray as astray:
            return f.Verified(lane_id, passed=False, reason=astray.message)
        return replace(saved, remarks=(*remarks, *saved.remarks))

    def archive(self) -> f.Archived:
        """Put the finished change away and keep that too; a refusal leaves the run as it is."""
        ports, plan = self._course.ports, self._course.run.plan
        assert ports.archive is not None
        try:
            path = ports.archive()
        except StoriesError as refused:
            return f.Archived("", refused.message)
        message = (
            f"archive: {plan.change_id}\n\nUntildone-Run: {plan.run_id}\nUntildone-Story: archive\n"
        )
        checkpoint = self._course.run.lanes[0].checkpoint
        saved = ports.checkpoint.save(0, checkpoint, message, only_changes=True)
        return f.Archived(path, "", saved.commit, saved.checkpoint, saved.remarks)

    def revert(self, lane_id: int) -> f.Reverted:
        lane = self._course.run.lanes[lane_id]
        it = open_iteration(lane)
        story = f"{it.story_id}-limit" if it.limit else it.story_id
        attempt = it.n if it.limit else it.attempt
        reverted = self._course.ports.checkpoint.revert(lane_id, lane.checkpoint, story, attempt)
        said = self._taken_back(it.story_id)
        return replace(reverted, remarks=(*reverted.remarks, *said)) if said else reverted

    def _taken_back(self, story_id: str) -> tuple[str, ...]:
        source = self._course.ports.source if story_id else None
        # An unreadable file is found by the next look at the stories, which says so.
        with contextlib.suppress(StoriesError):
            before = self._before(source) if source else None
            return source.take_back(before) if source and before else ()
        return ()

    def _before(self, source: StorySource) -> StoryBook | None:
        """The stories before the attempt; after a crash as far as they are known."""
        run = self._course.run
        if run.book:
            return run.book
        known = self._course.ports.folder.kept_open()
        return as_before(source.load(), known, run.finished) if known else None
