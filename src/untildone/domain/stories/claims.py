"""Which tasks were open before an attempt, for a process that comes after a crash."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from untildone.domain.stories.story import Story, StoryBook, StoryKey

# A story's number and text, then the texts of its open tasks: plain data, to be kept on disk.
OpenTasks = list[list[str]]


def open_tasks(book: StoryBook) -> OpenTasks:
    """What is open, for a later process that must know what was open before a crash."""
    return [
        [*story.key, *(task.text for task in story.tasks if not task.done)]
        for story in book.stories
        if not story.done
    ]


def as_before(
    now: StoryBook, known: Sequence[Sequence[str]], finished: AbstractSet[StoryKey]
) -> StoryBook:
    """The book with every task open that was open and whose story was not finished since."""
    opened = {(row[0], row[1]): set(row[2:]) for row in known}
    stories = tuple(
        story if story.key in finished else _reopened(story, opened.get(story.key, set()))
        for story in now.stories
    )
    return replace(now, stories=stories)


def _reopened(story: Story, texts: set[str]) -> Story:
    tasks = (replace(t, done=False) if t.text in texts else t for t in story.tasks)
    return replace(story, tasks=tuple(tasks)) if texts else story
