"""What was marked done between two looks at the stories: a claim, until the loop has checked it."""

from collections.abc import Iterator, Sequence

from untildone.adapters.stories import checklist
from untildone.domain.errors import StoryLost
from untildone.domain.story import Story, StoryBook, Task
from untildone.domain.value import dataclass

_NAMED_AT_MOST = 10


@dataclass(frozen=True, slots=True)
class Claim:
    """A task whose state is another than before, in the story it belongs to."""

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
        for task, was in _matched(earlier[story.key], story)
        if task.done and not was.done
    ]


def undone(story: Story, before: StoryBook, now: StoryBook) -> list[Claim]:
    """What was done in other stories and is open now: that it is not done is a claim as well."""
    earlier = {other.key: other for other in before.stories if other.complete}
    return [
        Claim(other, task, was)
        for other in now.stories
        if not other.done and other.key in earlier and other.key != story.key
        for task, was in _matched(earlier[other.key], other)
        if was.done and not task.done
    ]


def sentences(
    story: Story, claims: Sequence[Claim], before: StoryBook, now: StoryBook
) -> Iterator[str]:
    """What to tell about claims that were taken back, and about stories that have gone."""
    for other, again in dict.fromkeys((claim.story.id, claim.was.done) for claim in claims):
        tasks = [c.task for c in claims if (c.story.id, c.was.done) == (other, again)]
        what = (
            f"Ticked again in story {other}, where it was unticked "
            if again
            else f"Unticked in story {other}, which is not finished but was ticked "
        )
        yield f"{what}during story {story.id}: {_names(tasks)}"
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


def _matched(was: Story, now: Story) -> Iterator[tuple[Task, Task]]:
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
        if earlier is not None:
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
