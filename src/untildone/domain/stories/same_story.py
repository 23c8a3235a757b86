"""A story in a later reading of its plan, also after somebody gave it another title."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress
from operator import is_not

from untildone.domain.stories.story import Story, StoryBook, Task


def same_story(story: Story, before: StoryBook, now: StoryBook) -> Story | None:
    """By number and text; else the only new one that is the same but for its title.

    A new title for the same tasks, or for the same id and text, is a renamed story. Where the title
    is all there is, it has to be nearly the same: more cannot be told from another story.
    """
    found = now.find(story.key)
    if found:
        return found
    titles = {other.title for other in before.stories}  # in other places they were renumbered
    alike = [s for s in now.stories if s.title not in titles and _is_renamed(story, s)]
    return alike[0] if len(alike) == 1 else None


def not_the_same(stories: Sequence[Story], others: Sequence[Story]) -> Iterable[Story]:
    """The stories that are not as the one in the same place among the others.

    Of a long list that is read again all but one or two are, mostly as the very same object, and
    only the rest is looked at.
    """
    if stories is others:
        return ()
    if len(stories) != len(others):
        return stories
    pairs = compress(zip(stories, others, strict=True), map(is_not, stories, others))
    return (story for story, other in pairs if story != other)


def texts(tasks: tuple[Task, ...], *, done: bool) -> Counter[str]:
    """The texts of the tasks in this state, blanks made one."""
    return Counter(" ".join(task.text.split()) for task in tasks if task.done is done)


def _is_renamed(was: Story, now: Story) -> bool:
    before, after = _parts(was), _parts(now)
    if before:
        return not before - after
    said = (was.id, was.body, was.acceptance)
    same = any(said[1:]) and said == (now.id, now.body, now.acceptance)
    return not after and (same or _nearly(was.title, now.title))


def _parts(story: Story) -> Counter[str]:
    """The texts of its tasks; not that of one which only repeats the title."""
    own = {story.title, f"{story.id} {story.title}", f"{story.id}. {story.title}"}
    all_texts = texts(story.tasks, done=True) + texts(story.tasks, done=False)
    return Counter({text: n for text, n in all_texts.items() if text not in own})


def _nearly(one: str, other: str) -> bool:
    from difflib import get_close_matches  # noqa: PLC0415 - few stories are renamed

    return bool(get_close_matches(one, [other], n=1))
