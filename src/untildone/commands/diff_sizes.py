"""How large changes are, for many pairs of commits with two git processes."""

import os
import re
from collections.abc import Iterable

from msgspec import Struct

from untildone.adapters.git.git import Git

Pair = tuple[str, str]
_STAT = re.compile(r" (\d+) files? changed(?:, (\d+) insert\w+\(\+\))?(?:, (\d+) delet\w+\(-\))?")


class Size(Struct, frozen=True):
    """Changed files, and lines added and deleted in those that are text."""

    files: int = 0
    added: int = 0
    deleted: int = 0

    def plus(self, other: "Size") -> "Size":
        """The sum."""
        return Size(
            self.files + other.files, self.added + other.added, self.deleted + other.deleted
        )


def diff_sizes(git: Git, pairs: Iterable[Pair]) -> dict[Pair, Size]:
    """From the first commit of each pair to the second; those that are gone are left out."""
    wanted = [pair for pair in dict.fromkeys(pairs) if all(pair)]
    there = _existing(git, {name for pair in wanted for name in pair})
    wanted = [(old, new) for old, new in wanted if old in there and new in there]
    if not wanted:
        return {}
    # A commit is compared with what follows it on its line, as if that were its parent.
    lines = "".join(f"{there[new]} {there[old]}\n" for old, new in wanted)
    form = ("--stdin", "-r", "--shortstat", "--no-renames", "--always", "--no-ext-diff")
    out = os.fsdecode(git.do("diff-tree", *form, stdin=lines.encode()))
    found: list[Size] = []
    for row in out.splitlines():
        stat = _STAT.match(row)
        if stat:
            found[-1] = Size(*(int(number or 0) for number in stat.groups()))
        elif row:
            found.append(Size())
    return dict(zip(wanted, found, strict=True))


def _existing(git: Git, names: set[str]) -> dict[str, str]:
    """Names of commits with their hashes; names that stand for nothing are left out."""
    listed = sorted(names)
    asked = "".join(f"{name}^{{commit}}\n" for name in listed)
    out = os.fsdecode(git.do("cat-file", "--batch-check=%(objectname)", stdin=asked.encode()))
    answers = zip(listed, out.splitlines(), strict=True)
    return {name: said for name, said in answers if " " not in said}
