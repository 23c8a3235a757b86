"""While an agent is at a limit: the wait, or another agent in its place."""

from datetime import datetime

from msgspec import Struct

from untildone.domain.agents.agent import Kind


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
