"""What a landing meets on the run branch."""

from enum import StrEnum

from msgspec import Struct


class Merged(Struct, frozen=True):
    """The story and the tip as one tree; `regenerated` files were made by their commands."""

    tree: str
    regenerated: tuple[str, ...] = ()


class Met(Struct, frozen=True):
    """A commit that a story met on the run branch."""

    commit: str
    subject: str


class Conflict(Struct, frozen=True):
    """Files that cannot be merged, the commits since the base that touched them, and more."""

    files: tuple[str, ...]
    met: tuple[Met, ...]
    why: str = ""


class Standing(StrEnum):
    """Where the run branch is after a crash."""

    LANDED = "landed"
    BEFORE = "before"
    ELSEWHERE = "elsewhere"
