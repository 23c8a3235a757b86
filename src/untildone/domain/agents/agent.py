"""What is asked of an agent and what it answers: plain values."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from msgspec import Struct, field

from untildone.domain.agents.promise import Promise


class Usage(Struct, frozen=True):
    """Tokens and cost of one agent call.

    `input_tokens` are without those read from a cache, `output_tokens` include the reasoning.
    `cost_usd` is None and `model` empty where the agent does not say.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False
    reasoning_tokens: int = 0
    model: str = ""

    @property
    def total(self) -> int:
        """Input plus output; cache tokens are kept apart."""
        return self.input_tokens + self.output_tokens

    @property
    def told(self) -> bool:
        """Whether anybody has told a number: no call takes no token at all."""
        return bool(self.total or self.cache_read_tokens or self.cache_write_tokens)

    def plus(self, other: "Usage") -> "Usage":
        """The sum; the cost is what is known of it."""
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            sum(costs) if costs else None,
            self.estimated or other.estimated,
            self.reasoning_tokens + other.reasoning_tokens,
            other.model or self.model,
        )


class Permissions(StrEnum):
    """What the agent may do without being asked: everything, or edit files in the worktree."""

    FULL = "full"
    EDITS = "edits"


class Session(Struct, frozen=True):
    """A conversation in the agent's own keeping.

    `totals` is what the agent has counted for the whole conversation so far, if it counts so.
    """

    id: str
    totals: Usage | None = None


class Intent(Struct, frozen=True):
    """One agent call as the loop wants it, in no agent's words.

    `cwd` and `scratch` are folder paths; `scratch` is private to this call (never in the worktree).
    `resume` is the conversation to go on with; None is a fresh one. `asked` is when it starts.
    `agent` names whom to ask.
    """

    prompt: str
    cwd: str
    scratch: str
    story_id: str = ""
    attempt: int = 1
    model: str = ""
    permissions: Permissions = Permissions.FULL
    resume: Session | None = None
    asked: datetime | None = None
    agent: str = ""


class Invocation(Struct, frozen=True):
    """How a program is started for an intent.

    `env` is added to the cleaned environment of the child, `unset` names are taken out of it.
    `writable` are the program's own files outside of the worktree, for a sandbox to allow.
    """

    argv: tuple[str, ...]
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()


class AgentText(Struct, frozen=True):
    """A piece of the agent's own text."""

    text: str


class AgentTool(Struct, frozen=True):
    """A tool call of the agent: its name and a short form of what it was called with.

    `mark` tells calls with different input apart; empty where the agent does not say all of it.
    """

    tool: str
    detail: str = ""
    mark: str = ""

    def __eq__(self, other: object) -> bool:
        """What is shown is the same."""
        shown = (self.tool, self.detail)
        return isinstance(other, AgentTool) and shown == (other.tool, other.detail)

    def __ne__(self, other: object) -> bool:
        return not self == other  # a struct would compare all fields

    def __hash__(self) -> int:
        """As for what is shown."""
        return hash((self.tool, self.detail))


Notice = AgentText | AgentTool


# How the error of a stream begins that has no last event.
CUT_SHORT = "ended without its result event"


class Kind(StrEnum):
    """What kind of trouble an agent has."""

    AGENT_ERROR = "agent_error"
    CRASHED = "crashed"
    HUNG = "hung"
    REPEATING = "repeating"
    NOT_LOGGED_IN = "not_logged_in"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXHAUSTED = "quota_exhausted"
    OVERLOADED = "overloaded"
    CONTEXT_OVERFLOW = "context_overflow"
    BUDGET = "budget"
    REFUSED = "refused"


PASSING = (Kind.RATE_LIMITED, Kind.QUOTA_EXHAUSTED, Kind.OVERLOADED, Kind.HUNG)


# The trouble of a program that crashed and has told why on its standard error.
SAID_WHY = "crashed and said why"


class Trouble(Struct, frozen=True):
    """What went wrong in the agent or its service, in a few words.

    A stated reset is a moment (`until`) or a span from the end of the call (`after_s`).
    """

    kind: Kind
    why: str
    until: datetime | None = None
    after_s: float | None = None

    @property
    def passing(self) -> bool:
        """Whether it goes away by itself: wait, no attempt is used."""
        return self.kind in PASSING


class Ending(StrEnum):
    """How the agent's process ended; one that lingered had said its last word and was ended."""

    EXITED = "exited"
    LINGERED = "lingered"
    TIMEOUT = "timeout"
    IDLE_TIMEOUT = "idle_timeout"
    INTERRUPTED = "interrupted"
    REPEATING = "repeating"
    NOT_STARTED = "not_started"


class Reading(Struct, frozen=True):
    """What an agent's output says, once it is over.

    `error` is empty unless the agent itself reports one (or its result event is missing); then
    `trouble` may say of what kind it is. `usage` is this call's share, None when the output carries
    no numbers. `denied` are the tools that the agent was not allowed to use. `question` is what it
    asked the person, by a tool or at the end of its last message.
    """

    promise: Promise | None = None
    error: str = ""
    usage: Usage | None = None
    trouble: Trouble | None = None
    session: Session | None = None
    denied: tuple[str, ...] = ()
    question: str = ""


class AgentReport(Struct, frozen=True):
    """One agent call, after its whole process group is gone.

    `begun` says that its program was at work, `spoke` that there was a word or a deed of the agent
    itself.
    """

    ending: Ending
    exit_code: int | None = None
    reading: Reading = Reading()
    begun: bool = False
    spoke: bool = False


class Waiting(Struct, frozen=True):
    """A limit that is being waited out."""

    until: datetime
    why: str
    kind: Kind = Kind.OVERLOADED


class StandIn(Struct, frozen=True):
    """The agent that works while the usual one (`instead_of`, NAME or NAME:MODEL) is at a limit."""

    agent: str
    model: str
    until: datetime
    instead_of: str = ""


class Gate(Struct, frozen=True):
    """An account that is or was at a limit; `lane` is the one that waits, for all.

    `allowed` is how many calls it may get at once: one to try, one more with each that works.
    """

    lane: int
    allowed: int = 1
