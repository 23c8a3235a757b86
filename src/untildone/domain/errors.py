"""The error tree; the class says who can act.

UntildoneError
├── UserError            the person can act; nothing was changed (exit 2)
│   ├── StoriesError     the story file cannot be worked with; names the line
│   │   ├── StoryLost    an edit made the story impossible to find again
│   │   └── SourceAway   they cannot be asked for or written now: no attempt's doing
│   └── AgentMissing     the agent program is not installed
├── CloseRefused         the completion choice cannot be carried out; nothing changed (exit 5)
└── StepError            an outside thing failed in mid-run (exit 3, the choice is still offered)
    ├── WorkDiverged       the attempt's work does not build on the checkpoint; worth a retry
    └── Interrupted      a signal cut the step short; the next start repairs it
"""


class UntildoneError(Exception):
    """An error that says what happened, what state things are in, and what to type next."""

    exit_code = 1

    def __init__(self, message: str, *, state: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.state = state
        self.hint = hint


class UserError(UntildoneError):
    """Wrong usage or a failed preflight check: nothing was changed."""

    exit_code = 2


class StoriesError(UserError):
    """A story source that cannot be worked with; the message names file and line."""


class StoryLost(StoriesError):
    """The story cannot be found again by number and text; nothing was written."""


class SourceAway(StoriesError):
    """What keeps the stories does not answer, or cannot be written; a retry would not help."""


class AgentMissing(UserError):
    """The agent's program cannot be found."""


class CloseRefused(UntildoneError):
    """Cleanup cannot be done now; nothing was changed and the branch is kept."""

    exit_code = 5


class StepError(UntildoneError):
    """A step of the run failed in the outside world; the machine decides what follows."""

    exit_code = 3


class WorkDiverged(StepError):
    """The work was done elsewhere or left half merged; saving it would undo finished stories."""


class Interrupted(StepError):
    """A stop request cut a step short; recovery finishes or undoes it at the next start."""
