"""A checklist in a file of the worktree: read it, and settle one finished story in it."""

from collections.abc import Iterator
from pathlib import Path

from untildone.adapters.stories import checklist, task_lines
from untildone.adapters.stories.story_file import StoryFile
from untildone.domain.errors import StoryLost
from untildone.domain.story import Story, StoryBook, Task
from untildone.domain.value import dataclass

_NAMED_AT_MOST = 10


@dataclass(frozen=True, slots=True)
class ChecklistFile:
    """The Markdown checklist at `path`, which is relative to `root`."""

    root: Path
    path: str
    change: str
    source: str

    def load(self) -> StoryBook:
        """Read the stories as they are now."""
        return self._parse(self._read())

    def settle(self, story: Story, before: StoryBook) -> tuple[str, ...]:
        """Tick the story's open boxes and take back what was ticked elsewhere since `before`."""
        data = self._read()
        now = self._parse(data)
        current = now.find(story.key)
        if current is None:
            raise StoryLost(
                f"Story {story.id} can no longer be found by its number and text in: {self.path}",
                state="The file was left as it is.",
                hint=f"Look at what changed with `git diff -- {self.path}`.",
            )
        opened = [task for task in current.tasks if not task.done]
        claims = list(_claims(current, before, now))
        settled = task_lines.tick(data, [task.line for task in opened])
        settled = task_lines.untick(settled, [task.line for _, task in claims])
        if settled != data:
            self._write(settled)
        return tuple(self._sentences(current, claims, _gone(before, now)))

    def take_back(self, before: StoryBook) -> None:
        """Untick every box that was open in `before`; matters for a file that git ignores."""
        data = self._read()
        now = self._parse(data)
        claims = [
            task
            for was in before.stories
            if (current := now.find(was.key))
            for task in _newly_ticked(was, current)
        ]
        if claims:
            self._write(task_lines.untick(data, [task.line for task in claims]))

    def _parse(self, data: bytes) -> StoryBook:
        return checklist.parse(data, change=self.change, source=self.source, path=self.path)

    @property
    def _file(self) -> StoryFile:
        return StoryFile(self.root, self.path, self.change)

    def _read(self) -> bytes:
        return self._file.read()

    def _write(self, data: bytes) -> None:
        checklist.parse.cache_clear()  # of use no more, and two books at once take memory
        self._file.write(data)

    def _sentences(
        self,
        story: Story,
        claims: list[tuple[Story, Task]],
        gone: list[Story],
    ) -> Iterator[str]:
        for other in dict.fromkeys(claimed.id for claimed, _ in claims):
            tasks = [task for claimed, task in claims if claimed.id == other]
            yield (
                f"Unticked in story {other}, which is not finished but was ticked "
                f"during story {story.id}: {_names(tasks)}"
            )
        if gone:
            yield (
                f"No longer found in {self.path} by number and text: "
                f"{_listed([f'story {lost.id} ({lost.title})' for lost in gone])}"
            )


def _claims(story: Story, before: StoryBook, now: StoryBook) -> Iterator[tuple[Story, Task]]:
    """Boxes of other stories that were open before and are ticked now."""
    earlier = {other.key: other for other in before.stories}
    for other in now.stories:
        was = earlier.get(other.key)
        if was is None or other.key == story.key:
            continue
        yield from ((other, task) for task in _newly_ticked(was, other))


def _newly_ticked(was: Story, now: Story) -> Iterator[Task]:
    """A task is found again by text and occurrence; one that was re-worded, by its number."""
    by_text = checklist.by_text(was)
    texts_now = checklist.by_text(now)
    reworded = {
        task.id: task
        for key, task in by_text.items()
        if key not in texts_now and checklist.has_number(task)
    }
    for key, task in texts_now.items():
        earlier = by_text.get(key)
        if earlier is None and checklist.has_number(task):
            earlier = reworded.get(task.id)
        if task.done and earlier is not None and not earlier.done:
            yield task


def _gone(before: StoryBook, now: StoryBook) -> list[Story]:
    """Open stories that the file had and has no more: an agent may have deleted the work."""
    keys = {story.key for story in now.stories}
    return [story for story in before.stories if not story.done and story.key not in keys]


def _names(tasks: list[Task]) -> str:
    return _listed([task.id if checklist.has_number(task) else f"“{task.text}”" for task in tasks])


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED_AT_MOST
    return ", ".join(names[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
