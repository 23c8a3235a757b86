"""Filters such as git-lfs and git-crypt: what they take is not stored as it is."""

import os
from collections.abc import Iterable, Sequence

from untildone.adapters.checkpoints.guard.secrets_and_sizes import Flag
from untildone.adapters.git.git import Git

NO_NAME = {"unspecified", "unset", "set"}


def unfiltered(git: Git, flags: Sequence[Flag]) -> tuple[Flag, ...]:
    """The flagged files that git would store as they are."""
    taken = filtered(git, [flag.path for flag in flags]) if flags else ()
    return tuple(flag for flag in flags if flag.path not in taken)


def filtered(git: Git, paths: Iterable[str]) -> set[str]:
    """Which of these files an active filter takes."""
    listed = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
    out = os.fsdecode(git.do("check-attr", "-z", "--stdin", "filter", stdin=listed)).split("\0")
    named = dict(zip(out[::3], out[2::3], strict=False))
    active = {name for name in set(named.values()) - NO_NAME if _is_active(git, name)}
    return {path for path, name in named.items() if name in active}


def _is_active(git: Git, name: str) -> bool:
    return any(git.config(f"filter.{name}.{key}") for key in ("process", "clean"))
