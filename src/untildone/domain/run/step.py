"""Steps: what the loop does next, one class each.

The first line of a class is shown to people: a dry run says with it what comes next.
"""

from datetime import datetime

from msgspec import Struct

from untildone.domain.agents.agent import Trouble
from untildone.domain.costs.budget import Reserved
from untildone.domain.run.run import Choice, Status
from untildone.domain.stories.story import Story, StoryKey


class Open(Struct, frozen=True):
    """Save the user's state and go to the run's workspace."""


class LoadStories(Struct, frozen=True):
    """Read the stories again."""


class TryChecks(Struct, frozen=True):
    """The required checks are tried, so that one that already fails is named.

    `story_id` is whose turn it is.
    """

    lane: int
    story_id: str


class RunAttempt(Struct, frozen=True):
    """Call the agent once. `story` is None in the plain loop; `rung` is a step of the ladder.

    `base` is the commit to begin from, `reserved` what the budgets keep free for it.
    """

    lane: int
    n: int
    story: Story | None
    attempt: int
    attempts_allowed: int
    reason: str
    rung: int = 0
    base: str = ""
    reserved: Reserved = Reserved()

    @property
    def key(self) -> StoryKey:
        """The story's key; the plain loop has one of its own."""
        return self.story.key if self.story else ("", "")


class PrepareSlot(Struct, frozen=True):
    """Make a workspace of its own for a lane that works beside others."""

    lane: int
    base: str


class MeasureUsage(Struct, frozen=True):
    """Find out what the call cost."""

    lane: int


class Verify(Struct, frozen=True):
    """Run the loop's own checks."""

    lane: int


class Save(Struct, frozen=True):
    """Commit the work as a checkpoint."""

    lane: int


class Land(Struct, frozen=True):
    """Bring finished work together with what landed before, check the sum, move the run branch."""

    lane: int


class Revert(Struct, frozen=True):
    """Save the failed attempt aside and put the tree back."""

    lane: int


class Wait(Struct, frozen=True):
    """Wait out a limit; `until` is known once the wait has begun."""

    lane: int
    limit: Trouble | None
    limit_hits: int
    until: datetime | None = None


class AwaitPerson(Struct, frozen=True):
    """All stories are finished; the person has to say `done`."""


class AwaitBudget(Struct, frozen=True):
    """A budget is used up; somebody has to raise it or stop the run."""

    name: str


class Archive(Struct, frozen=True):
    """Put the finished change away, in the way of its format."""


class AskAboutStory(Struct, frozen=True):
    """A story failed or asks; the person says whether it is tried again, with which words."""

    key: StoryKey


class AskChoice(Struct, frozen=True):
    """Cleanup or keep."""

    options: tuple[str, ...] = tuple(Choice)


class Close(Struct, frozen=True):
    """Carry out the choice."""

    choice: Choice


class Finish(Struct, frozen=True):
    """Nothing is left to do."""

    status: Status


Work = (
    Open
    | LoadStories
    | TryChecks
    | PrepareSlot
    | RunAttempt
    | MeasureUsage
    | Verify
    | Save
    | Land
    | Revert
    | Wait
    | AwaitPerson
    | AwaitBudget
    | AskAboutStory
    | Archive
    | AskChoice
    | Close
)
Step = Work | Finish
