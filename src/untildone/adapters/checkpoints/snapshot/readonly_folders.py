"""Folders that may not be written, and what git could not remove because of that."""

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from untildone.adapters.process.process import Captured
from untildone.domain.errors import StepError

MOST_NAMED = 10
OPEN = stat.S_IRUSR | stat.S_IWUSR | stat.S_IXUSR


def unlock(top: Path, paths: Iterable[str]) -> None:
    """Make the folders above these paths writable; nothing behind a link is touched."""
    ours: dict[str, bool] = {}
    for path in paths:
        parts = path.split("/")
        for k in range(1, len(parts)):
            folder = "/".join(parts[:k])
            if folder not in ours:
                ours[folder] = make_writable(top / folder)
            if not ours[folder]:
                break


def make_writable(folder: Path) -> bool:
    """For its owner; says whether it is a folder, and no link to one."""
    try:
        mode = folder.lstat().st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode) and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        with contextlib.suppress(OSError):  # what is left in it will be named
            folder.chmod(stat.S_IMODE(mode) | OPEN)
    return stat.S_ISDIR(mode)


def check_gone(top: Path, paths: Iterable[str], answer: Captured) -> None:
    """Git only warns of files that it could not remove; the next story must not have them."""
    if b"unable to unlink" not in answer.stderr:
        return
    left = [path for path in paths if (top / path).is_symlink() or (top / path).is_file()]
    if left:
        more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
        raise StepError(
            f"Files cannot be removed: {', '.join(left[:MOST_NAMED])}{more}",
            state="They are stored under refs/ralph, but the files are not back where they were.",
            hint="Make their folders writable, then try again (`untildone resume`).",
        )
