"""Files that `git add` refuses: a name that git forbids, no permission, a broken conversion."""

import contextlib
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from untildone.adapters.checkpoints.guard import Flag, listed
from untildone.domain.errors import WorkAstray

UNREADABLE = "nobody may read it"
UNCONVERTED = "git cannot convert it as `.gitattributes` wants"
SHAPES = (
    (r"error: unable to add '(.+?)' to index", "git forbids this name"),
    (r"error: unable to index file '(.+?)'", UNREADABLE),
    (r"fatal: (.+?): clean filter '.+' failed", UNCONVERTED),
)
REASONS = {reason for _, reason in SHAPES}


def refused(top: Path, said: str, known: Iterable[Flag] = ()) -> list[Flag]:
    """The files that git has named; those that may be read by now are worth another try."""
    passed = {flag.path for flag in known}
    found: dict[str, Flag] = {}
    for shape, reason in SHAPES:
        for path in re.findall(f"^{shape}$", said, re.MULTILINE | re.DOTALL):
            file = top / path
            readable = reason == UNREADABLE and os.access(file, os.R_OK)
            if path not in passed and not readable and os.path.lexists(file):
                found[path] = Flag(path, file.lstat().st_size, reason)
    return list(found.values())


def is_refused(flag: Flag) -> bool:
    """Whether it was git that would not have the file, not the guard."""
    return flag.reason in REASONS


def refuse_less(flags: Iterable[Flag], tracked: Iterable[str]) -> None:
    """Work is not finished if its checkpoint would have less than the one before."""
    before = set(tracked)
    missing = [f for f in flags if f.path in before or f.reason == UNCONVERTED]
    if missing:
        raise WorkAstray(f"Git cannot take these files into a checkpoint: {listed(missing)}")


def make_readable(top: Path, flags: Iterable[Flag]) -> None:
    """What an attempt locked away can be brought back only if its owner may read it."""
    for flag in flags:
        if flag.reason == UNREADABLE:
            with contextlib.suppress(OSError):
                (top / flag.path).chmod(stat.S_IRUSR | stat.S_IWUSR)
