"""What was marked done between two looks at the stories: a claim, until the loop has checked it."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from untildone.adapters.stories.checklists import checklist, labels
from untildone.domain.errors import StoriesError, StoryLost
from untildone.domain.stories.story import Story, StoryBook, Task

_NAMED_AT_MOST = 10


class Claim(Struct, frozen=True):
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


def refuse_lost(story: Story, before: StoryBook, now: StoryBook) -> None:
    """Open work of other stories that is gone: a run must not be done because it was deleted.

    Nor may it end because the stories that are left can no longer be worked with.
    """
    for remark in now.problems:
        raise StoriesError(
            f"The stories cannot be worked with any more, {remark.path or now.path}:{remark.line}: "
            f"{remark.why}",
            state="The file was left as it is.",
            hint=f"Look at what changed with `git diff -- {remark.path or now.path}`.",
        )
    lost = list(_lost(story, before, now))
    if lost:
        listed = "; ".join(f"story {other.id}: {_names(tasks)}" for other, tasks in lost)
        raise StoryLost(
            f"Open tasks of other stories are gone from {now.path}, or changed beyond "
            f"recognition ({listed}). Leave the lines of other stories as they are",
            state="The file was left as it is.",
            hint=f"Look at what changed with `git diff -- {now.path}`.",
        )


def to_finish(story: Story, before: StoryBook) -> list[Task]:
    """The tasks to write as done: all that were open, whatever was written there meanwhile."""
    was = before.find(story.key)
    opened = [task for task, earlier in _matched(was, story) if not earlier.done] if was else []
    return [task for task in story.tasks if not task.done or task in opened]


def of_others(story: Story, before: StoryBook, now: StoryBook) -> list[Claim]:
    """Claims in all stories but this one."""
    return [claim for claim in of_all(before, now) if claim.story.key != story.key]


def of_all(before: StoryBook, now: StoryBook) -> list[Claim]:
    """Claims in every story that both books have."""
    earlier = {story.key: story for story in before.stories}
    return [
        Claim(story, task, was)
        for story in now.stories
        if story.complete and story.key in earlier
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


def _lost(story: Story, before: StoryBook, now: StoryBook) -> Iterator[tuple[Story, list[Task]]]:
    """Tasks that were open in other stories and are found neither there nor, still open, elsewhere.

    Ticked where it stood a task is a claim, and is taken back; ticked elsewhere it is lost.
    """
    missing = list(_missing(story, before, now))
    if not missing:
        return
    from difflib import get_close_matches  # noqa: PLC0415 - few attempts come here

    new = list(_new_open(story, before, now))
    texts = [_bare(task) for _, task in new]
    ids = {other.id for other, _ in new}
    for was, tasks in missing:
        gone = []
        for task in tasks:
            if found := get_close_matches(_bare(task), texts, n=1):
                texts.remove(found[0])
            elif task.id != was.id or was.id not in ids:  # a story may get another title
                gone.append(task)
        if gone:
            yield was, gone


def _missing(story: Story, before: StoryBook, now: StoryBook) -> Iterator[tuple[Story, list[Task]]]:
    """What was open in other stories and is not found in the same ones."""
    for was in before.stories:
        if was.done or was.key == story.key:
            continue
        other = now.find(was.key)
        if other and other.tasks == was.tasks:
            continue
        found = [earlier for _, earlier in _matched(was, other)] if other else []
        tasks = [task for task in was.tasks if not task.done and task not in found]
        if tasks:
            yield was, tasks


def _new_open(story: Story, before: StoryBook, now: StoryBook) -> Iterator[tuple[Story, Task]]:
    """Open tasks of other stories that were not there before, at least not in the same ones."""
    for other in now.stories:
        was = before.find(other.key)
        if other.key != story.key:
            known = [task for task, _ in _matched(was, other)] if was else []
            yield from ((other, t) for t in other.tasks if not t.done and t not in known)


def _bare(task: Task) -> str:
    return labels.normal(labels.split_number(task.text, letters=True)[1])


def _gone(before: StoryBook, now: StoryBook) -> list[Story]:
    """Open stories that the source had and has no more: an agent may have deleted the work."""
    keys = {story.key for story in now.stories}
    return [story for story in before.stories if not story.done and story.key not in keys]


def _names(tasks: list[Task]) -> str:
    return _listed([task.id if checklist.has_number(task) else f"“{task.text}”" for task in tasks])


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED_AT_MOST
    return ", ".join(names[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
