"""Steps: what the loop does next, one class each."""

from datetime import datetime

from untildone.domain.agents.agent import Trouble
from untildone.domain.run.run import Choice, Status
from untildone.domain.stories.story import Story, StoryKey
from untildone.domain.value import dataclass


@dataclass(frozen=True, slots=True)
class Open:
    """Save the user's state and go to the run's workspace."""


@dataclass(frozen=True, slots=True)
class LoadStories:
    """Read the stories again."""


@dataclass(frozen=True, slots=True)
class TryChecks:
    """The required checks are tried, so that one that already fails is named.

    `story_id` is whose turn it is.
    """

    lane: int
    story_id: str


@dataclass(frozen=True, slots=True)
class RunAttempt:
    """Call the agent once. `story` is None in the plain loop; `rung` is a step of the ladder."""

    lane: int
    n: int
    story: Story | None
    attempt: int
    attempts_allowed: int
    reason: str
    rung: int = 0

    @property
    def key(self) -> StoryKey:
        """The story's key; the plain loop has one of its own."""
        return self.story.key if self.story else ("", "")


@dataclass(frozen=True, slots=True)
class MeasureUsage:
    """Find out what the call cost."""

    lane: int


@dataclass(frozen=True, slots=True)
class Verify:
    """Run the loop's own checks."""

    lane: int


@dataclass(frozen=True, slots=True)
class Save:
    """Commit the work as a checkpoint."""

    lane: int


@dataclass(frozen=True, slots=True)
class Revert:
    """Save the failed attempt aside and put the tree back."""

    lane: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait out a limit; `until` is known once the wait has begun."""

    lane: int
    limit: Trouble | None
    strikes: int
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class AwaitPerson:
    """All stories are finished; the person has to say `done`."""


@dataclass(frozen=True, slots=True)
class AwaitBudget:
    """A budget is used up; somebody has to raise it or stop the run."""

    name: str


@dataclass(frozen=True, slots=True)
class Archive:
    """Put the finished change away, in the way of its format."""


@dataclass(frozen=True, slots=True)
class AskAboutStory:
    """A story failed or asks; the person says whether it is tried again, with which words."""

    key: StoryKey


@dataclass(frozen=True, slots=True)
class AskChoice:
    """Cleanup or keep."""

    options: tuple[str, ...] = tuple(Choice)


@dataclass(frozen=True, slots=True)
class Close:
    """Carry out the choice."""

    choice: Choice


@dataclass(frozen=True, slots=True)
class Finish:
    """Nothing is left to do."""

    status: Status


Work = (
    Open
    | LoadStories
    | TryChecks
    | RunAttempt
    | MeasureUsage
    | Verify
    | Save
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
