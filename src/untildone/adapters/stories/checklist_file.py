"""A checklist in a file of the worktree: read it, and settle one finished story in it."""

from pathlib import Path

from untildone.adapters.stories import checklist, claims, task_lines
from untildone.adapters.stories.story_file import StoryFile
from untildone.domain.story import Story, StoryBook
from untildone.domain.value import dataclass


@dataclass(frozen=True, slots=True)
class ChecklistFile:
    """The Markdown checklist at `path`, which is relative to `root`."""

    root: Path
    path: str
    change: str
    source: str

    def load(self) -> StoryBook:
        """Read the stories as they are now."""
        return self._parse(self._file.read())

    def settle(self, story: Story, before: StoryBook) -> tuple[str, ...]:
        """Tick the story's open boxes and take back what was ticked elsewhere since `before`."""
        data = self._file.read()
        now = self._parse(data)
        current = claims.found_again(story, now)
        taken = claims.of_others(current, before, now)
        settled = task_lines.tick(data, [task.line for task in current.tasks if not task.done])
        settled = task_lines.untick(settled, [claim.task.line for claim in taken])
        if settled != data:
            self._write(settled)
        return tuple(claims.sentences(current, taken, before, now))

    def take_back(self, before: StoryBook) -> None:
        """Untick every box that was open in `before`; matters for a file that git ignores."""
        data = self._file.read()
        taken = claims.of_all(before, self._parse(data))
        if taken:
            self._write(task_lines.untick(data, [claim.task.line for claim in taken]))

    @property
    def _file(self) -> StoryFile:
        return StoryFile(self.root, self.path, self.change)

    def _parse(self, data: bytes) -> StoryBook:
        return checklist.parse(data, change=self.change, source=self.source, path=self.path)

    def _write(self, data: bytes) -> None:
        checklist.parse.cache_clear()  # of use no more, and two books at once take memory
        self._file.write(data)
