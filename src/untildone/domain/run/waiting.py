"""While an agent is at a limit: the wait, or another agent in its place."""

from datetime import datetime

from untildone.domain.agents.agent import Kind
from untildone.domain.value import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    """A limit that is being waited out."""

    until: datetime
    why: str
    kind: Kind = Kind.OVERLOADED


@dataclass(frozen=True, slots=True)
class StandIn:
    """The agent that works while the usual one (`instead_of`, NAME or NAME:MODEL) is at a limit."""

    agent: str
    model: str
    until: datetime
    instead_of: str = ""
