"""Which tasks changed between two readings of the stories, and which are gone.

A tick that an agent made is not believed until the loop has checked it (decision 5).
"""

import shlex
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from untildone.adapters.stories.checklists import naming
from untildone.domain.errors import StoriesError, StoryLost
from untildone.domain.stories.same_story import not_the_same, same_story
from untildone.domain.stories.story import Story, StoryBook, Task

_NAMED_AT_MOST = 10
_LONGEST_WORDS = 120


class ChangedTask(Struct, frozen=True):
    """A task whose state is another than before, in the story it belongs to."""

    story: Story
    task: Task
    was: Task


def found_again(story: Story, before: StoryBook, now: StoryBook) -> tuple[Story, StoryBook]:
    """The story as it is now, and `before` as if it had been called so then already."""
    current = same_story(story, before, now)
    if current is None:
        raise StoryLost(
            f"Story {story.id} can no longer be found by its number and text in: {now.path}",
            state="The file was left as it is.",
            hint=f"Look at what changed with `git diff -- {now.path}`.",
        )
    if current.key == story.key:
        return current, before
    called = (
        replace(other, id=current.id, title=current.title) if other.key == story.key else other
        for other in before.stories
    )
    return current, replace(before, stories=tuple(called))


def renamed_message(story: Story, current: Story) -> tuple[str, ...]:
    """What to tell about a story that has got another title."""
    if current.key == story.key:
        return ()
    return (f"Story {story.id} is called “{current.id}: {current.title}” now",)


def to_finish(story: Story, before: StoryBook) -> list[Task]:
    """The tasks to write as done: all that were open, whatever was written there meanwhile."""
    was = before.find(story.key)
    opened = [task for task, earlier in _matched(was, story) if not earlier.done] if was else []
    return [task for task in story.tasks if not task.done or task in opened]


def taken_back_message(changed: Sequence[ChangedTask]) -> tuple[str, ...]:
    """What to tell about ticks of an attempt that failed."""
    names = dict.fromkeys(each.story.id for each in changed)
    if not names:
        return ()
    return (f"Open again, marked as done by a failed attempt: {_listed(list(names))}",)


class BookChanges:
    """What differs between two books of the same change."""

    def __init__(self, before: StoryBook, now: StoryBook) -> None:
        self._before, self._now = before, now
        self._earlier = list(not_the_same(before.stories, now.stories))
        self._later = list(not_the_same(now.stories, before.stories))
        known = {story.key: story for story in self._earlier}
        self._pairs = [(known[s.key], s) for s in self._later if s.key in known]

    def ticked(self) -> list[ChangedTask]:
        """Tasks ticked since, in every story that both books have."""
        return [
            ChangedTask(story, task, was)
            for earlier, story in self._pairs
            if story.complete
            for task, was in _matched(earlier, story)
            if task.done and not was.done
        ]

    def ticked_in_others(self, story: Story) -> list[ChangedTask]:
        """Tasks ticked since, in all stories but this one."""
        return [each for each in self.ticked() if each.story.key != story.key]

    def unticked_in_others(self, story: Story) -> list[ChangedTask]:
        """Tasks of other stories that were done and are open now: no agent may open them again."""
        return [
            ChangedTask(other, task, was)
            for earlier, other in self._pairs
            if earlier.complete and not other.done and other.key != story.key
            for task, was in _matched(earlier, other)
            if was.done and not task.done
        ] + [
            ChangedTask(other, task, replace(task, done=True, mark=""))
            for _, other in self._rewritten(story)
            for task in other.tasks
            if not task.done
        ]

    def _rewritten(self, story: Story) -> Iterator[tuple[Story, Story]]:
        """Finished stories under whose number stands something else now: no new work.

        Where the number is but the place in the list, a story that was put in above moves them all;
        then there is one more of them, or the old title stands elsewhere.
        """
        if len(self._before.stories) != len(self._now.stories):
            return
        changed = {other.id: other for other in self._later}
        for was in self._earlier:
            other = changed.get(was.id)
            if was.done and other and other.key not in (was.key, story.key):
                titles = {each.title for each in self._now.stories}
                if was.title not in titles and self._before.find(other.key) is None:
                    yield was, other

    def refuse_lost(self, story: Story) -> None:
        """Open work of other stories that is gone: a run must not be done because it was deleted.

        Nor may it end because the stories that are left can no longer be worked with.
        """
        now = self._now
        for remark in now.problems:
            path = remark.path or now.path
            raise StoriesError(
                f"The stories cannot be worked with any more, {path}:{remark.line}: {remark.why}",
                state="The file was left as it is.",
                hint=f"Look at what changed with `git diff -- {path}`.",
            )
        lost = list(self._lost(story))
        if lost:
            listed = "; ".join(f"story {other.id}: {_names(tasks)}" for other, tasks in lost)
            raise StoryLost(
                f"Open tasks of other stories are gone from {now.path}, or changed beyond "
                f"recognition ({listed}). Leave the lines of other stories as they are",
                state="The file was left as it is.",
                hint=f"Look at what changed with `git diff -- {now.path}`.",
            )

    def messages(self, story: Story, taken: Sequence[ChangedTask]) -> Iterator[str]:
        """What to tell about ticks that were taken back, and about stories that have gone."""
        for other, again in dict.fromkeys((each.story.id, each.was.done) for each in taken):
            tasks = [t.task for t in taken if (t.story.id, t.was.done) == (other, again)]
            what = (
                f"Ticked again in story {other}, where it was unticked "
                if again
                else f"Unticked in story {other}, which is not finished but was ticked "
            )
            yield f"{what}during story {story.id}: {_names(tasks)}"
        yield from self._stays_finished(story, taken)
        yield from self._reworded(story)
        # An agent may have deleted the work.
        gone = [
            s
            for s in self._earlier
            if not s.done and same_story(s, self._before, self._now) is None
        ]
        if gone:
            yield (
                f"No longer found in {self._now.path} by number and text: "
                f"{_listed([f'story {lost.id} ({lost.title})' for lost in gone])}"
            )

    def _stays_finished(self, story: Story, taken: Sequence[ChangedTask]) -> Iterator[str]:
        for was, now in self._rewritten(story):
            if now.done or any(each.story is now for each in taken):
                yield (
                    f"Story {was.id} ({was.title}) is finished and stays so; it was rewritten "
                    f"during story {story.id}: “{now.title}”. {self._see(now)}"
                )

    def _reworded(self, story: Story) -> Iterator[str]:
        """Open stories that say other things than before.

        The person may have written that, so it stays; who did not should know before it is done.
        """
        for was in self._earlier:
            now = (
                None
                if was.done or was.key == story.key
                else same_story(was, self._before, self._now)
            )
            old, new = (_words(was), _words(now)) if now else ([], [])
            gone = [words for words in old if words not in new]
            if gone:
                instead = [words for words in new if words not in old]
                became = f"became {_quoted(instead)}" if instead else "is gone"
                yield (
                    f"Story {was.id} was reworded during story {story.id}, perhaps by you: "
                    f"{_quoted(gone)} {became}. {self._see(was)}"
                )

    def _see(self, story: Story) -> str:
        """How to look at the change once it is kept, whatever the variant."""
        return f"`git log -p --all -- {shlex.quote(self._now.place(story))}` shows it"

    def _lost(self, story: Story) -> Iterator[tuple[Story, list[Task]]]:
        """Tasks that were open in other stories and are found neither there nor, open, elsewhere.

        A task ticked where it stood is taken back; one ticked elsewhere is lost.
        """
        missing = list(self._missing(story))
        if not missing:
            return
        from difflib import get_close_matches  # noqa: PLC0415 - few attempts come here

        new = list(self._new_open(story))
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

    def _missing(self, story: Story) -> Iterator[tuple[Story, list[Task]]]:
        """What was open in other stories and is not found in the same ones."""
        for was in self._earlier:
            if was.done or was.key == story.key:
                continue
            other = self._now.find(was.key)
            if other and other.tasks == was.tasks:
                continue
            found = [earlier for _, earlier in _matched(was, other)] if other else []
            tasks = [task for task in was.tasks if not task.done and task not in found]
            if tasks:
                yield was, tasks

    def _new_open(self, story: Story) -> Iterator[tuple[Story, Task]]:
        """Open tasks of other stories that were not there before, at least not in the same ones."""
        for other in self._later:
            if other.key != story.key:
                was = self._before.find(other.key)
                known = [task for task, _ in _matched(was, other)] if was else []
                yield from ((other, t) for t in other.tasks if not t.done and t not in known)


def _by_text(story: Story) -> dict[tuple[str, int], Task]:
    """The tasks by text and occurrence: how a task is found again after the file was edited.

    An explicit number is part of the text; the ordinal of an unnumbered task is not, because it
    changes with every line that is put in above it.
    """
    found: dict[tuple[str, int], Task] = {}
    seen: dict[str, int] = {}
    for task in story.tasks:
        text = naming.normal(task.text)
        seen[text] = seen.get(text, 0) + 1
        found[text, seen[text]] = task
    return found


def _matched(was: Story, now: Story) -> Iterator[tuple[Task, Task]]:
    """A task is found again by text and occurrence; one that was re-worded, by its number."""
    by_text = _by_text(was)
    texts_now = _by_text(now)
    reworded = {
        task.id: task
        for key, task in by_text.items()
        if key not in texts_now and naming.number(task.text)
    }
    for key, task in texts_now.items():
        earlier = by_text.get(key)
        if earlier is None and naming.number(task.text):
            earlier = reworded.get(task.id)
        if earlier is not None:
            yield task, earlier


def _words(story: Story) -> list[str]:
    """What a story asks for, in pieces; states and numbers of lines are no part of it."""
    below = [story.body, *(task.detail for task in story.tasks)]
    lines = [" ".join(line.split()) for text in below for line in text.splitlines()]
    return [story.title, *(naming.normal(task.text) for task in story.tasks), *filter(None, lines)]


def _quoted(pieces: Sequence[str]) -> str:
    short = (w if len(w) <= _LONGEST_WORDS else f"{w[:_LONGEST_WORDS]}…" for w in pieces)
    return _listed([f"“{words}”" for words in short])


def _bare(task: Task) -> str:
    return naming.normal(naming.split_number(task.text, letters=True)[1])


def _names(tasks: list[Task]) -> str:
    return _listed([task.id if naming.number(task.text) else f"“{task.text}”" for task in tasks])


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED_AT_MOST
    return ", ".join(names[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
