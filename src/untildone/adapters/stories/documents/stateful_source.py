"""A source whose stories have a state of their own (a field, a status, an issue that is closed).

Each format says how it is read and how states are written; which states change is decided here.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from untildone.adapters.stories.checklists import changed_tasks
from untildone.adapters.stories.checklists.changed_tasks import BookChanges, ChangedTask
from untildone.domain.stories.story import Story, StoryBook, StoryContext, Task


class NewState(Struct, frozen=True):
    """A task that is to be written as done or as open; `mark` is the word that it had before."""

    story: Story
    task: Task
    done: bool
    mark: str = ""


class Document(Protocol):
    """The stories as they were read, and the way to write states into just that."""

    @property
    def book(self) -> StoryBook:
        """The stories."""

    def write(self, states: Sequence[NewState]) -> None:
        """Write these states and nothing else; there is at least one."""


class StatefulSource(ABC):
    """A StorySource over documents.

    `EXCLUSIVE`: nobody but the agent writes them during a call, so that what was done stays done.
    """

    NAME = ""
    EXCLUSIVE = True

    @property
    def name(self) -> str:
        return self.NAME

    @abstractmethod
    def open(self) -> Document:
        """Read everything as it is now."""

    def load(self) -> StoryBook:
        return self.open().book

    def settle(self, story: Story, before: StoryBook) -> tuple[str, ...]:
        """Write the story as done; take back what was marked done for others since `before`."""
        document = self.open()
        current, before = changed_tasks.found_again(story, before, document.book)
        changes = BookChanges(before, document.book)
        taken = changes.ticked_in_others(current)
        finished = [task for task in current.tasks if not task.done]
        if self.EXCLUSIVE:
            changes.refuse_lost(current)
            taken += changes.unticked_in_others(current)
            finished = changed_tasks.to_finish(current, before)
        done = [NewState(current, task, done=True) for task in finished]
        states = [*done, *map(_taken_back, taken)]
        if states:
            document.write(states)
        renamed = changed_tasks.renamed_message(story, current)
        return (*renamed, *changes.messages(current, taken))

    def take_back(self, before: StoryBook) -> tuple[str, ...]:
        """Write as open again what was open in `before`."""
        document = self.open()
        taken = BookChanges(before, document.book).ticked()
        if taken:
            document.write([_taken_back(changed) for changed in taken])
        return changed_tasks.taken_back_message(taken)

    def context(self, story: Story) -> StoryContext:
        """Nothing beside what the story itself says."""
        return StoryContext()


def _taken_back(changed: ChangedTask) -> NewState:
    return NewState(changed.story, changed.task, done=changed.was.done, mark=changed.was.mark)
