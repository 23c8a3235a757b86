"""What was marked done between two looks at the stories: a claim, until the loop has checked it."""

from collections.abc import Iterator, Sequence

from untildone.adapters.stories import checklist
from untildone.domain.errors import StoryLost
from untildone.domain.story import Story, StoryBook, Task
from untildone.domain.value import dataclass

_NAMED_AT_MOST = 10


@dataclass(frozen=True, slots=True)
class Claim:
    """A task that is done now and was open before, in the story it belongs to."""

    story: Story
    task: Task
    was: Task


def found_again(story: Story, now: StoryBook) -> Story:
    """The story as it is now; by number and text, nothing else is sure enough."""
    current = now.find(story.key)
    if current is None:
        raise StoryLost(
            f"Story {story.id} can no longer be found by its number and text in: {now.path}",
            state="The file was left as it is.",
            hint=f"Look at what changed with `git diff -- {now.path}`.",
        )
    return current


def of_others(story: Story, before: StoryBook, now: StoryBook) -> list[Claim]:
    """Claims in all stories but this one."""
    return [claim for claim in of_all(before, now) if claim.story.key != story.key]


def of_all(before: StoryBook, now: StoryBook) -> list[Claim]:
    """Claims in every story that both books have."""
    earlier = {story.key: story for story in before.stories}
    return [
        Claim(story, task, was)
        for story in now.stories
        if any(task.done for task in story.tasks) and story.key in earlier
        for task, was in _newly_done(earlier[story.key], story)
    ]


def sentences(
    story: Story, claims: Sequence[Claim], before: StoryBook, now: StoryBook
) -> Iterator[str]:
    """What to tell about claims that were taken back, and about stories that have gone."""
    for other in dict.fromkeys(claim.story.id for claim in claims):
        tasks = [claim.task for claim in claims if claim.story.id == other]
        yield (
            f"Unticked in story {other}, which is not finished but was ticked "
            f"during story {story.id}: {_names(tasks)}"
        )
    gone = _gone(before, now)
    if gone:
        yield (
            f"No longer found in {now.path} by number and text: "
            f"{_listed([f'story {lost.id} ({lost.title})' for lost in gone])}"
        )


def taken_back(claims: Sequence[Claim]) -> tuple[str, ...]:
    """What to tell about claims of an attempt that failed."""
    names = dict.fromkeys(claim.story.id for claim in claims)
    return (f"Open again, marked as done by a failed attempt: {_listed(list(names))}",) * bool(
        names
    )


def _newly_done(was: Story, now: Story) -> Iterator[tuple[Task, Task]]:
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
            yield task, earlier


def _gone(before: StoryBook, now: StoryBook) -> list[Story]:
    """Open stories that the source had and has no more: an agent may have deleted the work."""
    keys = {story.key for story in now.stories}
    return [story for story in before.stories if not story.done and story.key not in keys]


def _names(tasks: list[Task]) -> str:
    return _listed([task.id if checklist.has_number(task) else f"“{task.text}”" for task in tasks])


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED_AT_MOST
    return ", ".join(names[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
