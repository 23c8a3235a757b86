"""What is submitted to a fleet, and what comes back of a story."""

import zlib
from enum import StrEnum

from msgspec import Struct, field

from untildone.domain.regex import regex

Flag = str | int | float | bool | list[str]
_USER = regex(r"(?<=://)[^/@]*@")


class ChangeOrder(Struct, frozen=True):
    """One change of a repository, as it was submitted.

    `flags` are settings of `run` by their keys. Calls of one `account` count together; `reserve` is
    what a story of it may cost, in dollars, until that is known. `land`: once all is done, bring it
    onto the base branch.
    """

    repository: str
    change_id: str
    base: str = ""
    flags: dict[str, Flag] = field(default_factory=dict)
    account: str = ""
    reserve: float = 0.0
    land: bool = False
    priority: int = 3
    heartbeat_s: float = 60.0
    guidance: tuple[str, ...] = ()

    @property
    def workflow_id(self) -> str:
        """The lock: no two of this name are open at once."""
        return f"change/{plain_address(self.repository)}/{self.change_id}"

    @property
    def fairness_key(self) -> str:
        """Repositories take turns; a server takes 64 bytes."""
        name = plain_address(self.repository)
        return f"{zlib.crc32(name.encode()):08x}-{name[-40:]}"[:60]

    @property
    def branch(self) -> str:
        return f"ralph/{self.change_id}"


class StoryOrder(Struct, frozen=True):
    """One story of a change, with what the person has to say to its agent."""

    change: ChangeOrder
    story_id: str
    guidance: tuple[str, ...] = ()


class StoryRow(Struct, frozen=True):
    """A story as the branch has it."""

    id: str
    title: str
    done: bool


class Stories(Struct, frozen=True):
    """The stories of a change in the order in which they can be done."""

    rows: tuple[StoryRow, ...]
    host: str = ""


class Verdict(StrEnum):
    """What became of a story; none of them is a reason for the engine to try again."""

    DONE = "done"
    SKIPPED = "skipped"  # its commit was on the branch already
    STUCK = "stuck"
    QUESTION = "question"


class StoryResult(Struct, frozen=True):
    """A story that was looked after: small, since the engine keeps it.

    `kept` says where attempts that failed are. `refused`: somebody else's push came first.
    """

    story_id: str
    verdict: Verdict
    host: str
    reason: str = ""
    rows: tuple[StoryRow, ...] = ()
    commit: str = ""
    calls: int = 0
    cost_usd: float | None = None
    tokens: int = 0
    verified: bool = False
    kept: str = ""
    refused: bool = False


class LandResult(Struct, frozen=True):
    """What became of bringing a change onto its base branch."""

    landed: bool
    host: str
    commit: str = ""
    reason: str = ""


def plain_address(repository: str) -> str:
    """The address of a repository without what is not part of its name, nor secrets."""
    return _USER.sub("", repository).rstrip("/").removesuffix(".git")
