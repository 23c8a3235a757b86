"""What is asked of an agent and what it answers: plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from untildone.domain.promise import Promise


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost of one agent call; `None` where the agent does not say."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False

    @property
    def total(self) -> int:
        """Input plus output; cache tokens are kept apart."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Intent:
    """One agent call as the loop wants it, in no agent's words.

    `cwd` and `scratch` are folder paths; `scratch` is private to this call (never in the worktree).
    """

    prompt: str
    cwd: str
    scratch: str
    story_id: str = ""
    attempt: int = 1
    model: str = ""


@dataclass(frozen=True, slots=True)
class Invocation:
    """How a program is started for an intent.

    `env` is added to the cleaned environment of the child, `unset` names are taken out of it.
    `writable` are the program's own files outside of the worktree, for a sandbox to allow.
    """

    argv: tuple[str, ...]
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentText:
    """A piece of the agent's own text."""

    text: str


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool call of the agent: its name and a short form of what it was called with."""

    tool: str
    detail: str = ""


Notice = AgentText | AgentTool


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit or passing trouble that the agent reports: wait, no attempt is used."""

    why: str
    until: datetime | None = None


class Ending(StrEnum):
    """How the agent's process ended."""

    EXITED = "exited"
    TIMEOUT = "timeout"
    IDLE_TIMEOUT = "idle_timeout"
    INTERRUPTED = "interrupted"
    NOT_STARTED = "not_started"


@dataclass(frozen=True, slots=True)
class Reading:
    """What an agent's output says, once it is over.

    `error` is empty unless the agent itself reports one (or its result event is missing).
    `usage` is None when the output carries no numbers.
    """

    promise: Promise | None = None
    error: str = ""
    usage: Usage | None = None
    limit: Limit | None = None
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """One agent call, after its whole process group is gone."""

    ending: Ending
    exit_code: int | None = None
    reading: Reading = Reading()
