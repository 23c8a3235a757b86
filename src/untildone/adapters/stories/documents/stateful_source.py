"""A source whose stories have a state of their own: what is written there is checked and settled.

Each format says how it is read and how states are written; what is a claim is decided here.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from untildone.adapters.stories.checklists import claims
from untildone.domain.stories.story import Story, StoryBook, StoryContext, Task


class Flip(Struct, frozen=True):
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

    def write(self, flips: Sequence[Flip]) -> None:
        """Write these states and nothing else; there is at least one."""


class MarkedSource(ABC):
    """A StorySource over documents.

    `OURS`: nobody else works on them during a call, so that what was done there stays done.
    """

    NAME = ""
    OURS = True

    @property
    def name(self) -> str:
        """The name that `--source` takes."""
        return self.NAME

    @abstractmethod
    def open(self) -> Document:
        """Read everything as it is now."""

    def load(self) -> StoryBook:
        """Read the stories as they are now."""
        return self.open().book

    def settle(self, story: Story, before: StoryBook) -> tuple[str, ...]:
        """Write the story as done; take back what was claimed for others since `before`."""
        document = self.open()
        current = claims.found_again(story, document.book)
        taken = claims.of_others(current, before, document.book)
        finished = [task for task in current.tasks if not task.done]
        if self.OURS:
            claims.refuse_lost(current, before, document.book)
            taken += claims.undone(current, before, document.book)
            finished = claims.to_finish(current, before)
        done = [Flip(current, task, done=True) for task in finished]
        flips = [*done, *map(_taken_back, taken)]
        if flips:
            document.write(flips)
        return tuple(claims.sentences(current, taken, before, document.book))

    def take_back(self, before: StoryBook) -> tuple[str, ...]:
        """Write as open again what was open in `before`."""
        document = self.open()
        taken = claims.of_all(before, document.book)
        if taken:
            document.write([_taken_back(claim) for claim in taken])
        return claims.taken_back(taken)

    def context(self, story: Story) -> StoryContext:
        """Nothing beside what the story itself says."""
        return StoryContext()


def _taken_back(claim: claims.Claim) -> Flip:
    return Flip(claim.story, claim.task, done=claim.was.done, mark=claim.was.mark)
