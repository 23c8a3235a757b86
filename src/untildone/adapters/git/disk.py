"""What the disk of a worktree can do, whatever `core.fileMode` and its like say about another."""

import contextlib
import os
import stat
from functools import cache
from pathlib import Path

from untildone.adapters.git.place import Place


@cache
def disk_settings(place: Place, *, only_look: bool = False) -> tuple[str, ...]:
    """Git's settings that describe this disk; those that cannot be tried are left out."""
    found = _case(place.top)
    if only_look:
        return found
    with contextlib.suppress(OSError):  # a folder that cannot be written to
        found += _modes_and_links(_trial_folder(place))
    return found


def _case(top: Path) -> tuple[str, ...]:
    """Whether what is there has a second name, in the other case."""
    known = top / ".git" if os.path.lexists(top / ".git") else top
    other = known.with_name(known.name.swapcase())
    if other.name == known.name:
        return ()
    same = os.path.lexists(other) and os.path.samestat(known.lstat(), other.lstat())
    return (f"core.ignoreCase={_word(same)}",)


def _trial_folder(place: Place) -> Path:
    """Git's own folder, where nobody sees the trial, unless it is on another disk."""
    own = place.git_dir
    return own if own.stat().st_dev == place.top.stat().st_dev else place.top


def _modes_and_links(folder: Path) -> tuple[str, ...]:
    trial = folder / f".untildone-trial-{os.getpid()}"
    try:
        os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        modes = all(_takes_mode(trial, mode) for mode in (0o700, 0o600))
        trial.unlink()
        try:
            trial.symlink_to("nowhere")
            links = trial.is_symlink()
        except OSError:
            links = False
    finally:
        with contextlib.suppress(OSError):
            trial.unlink()
    return f"core.fileMode={_word(modes)}", f"core.symlinks={_word(links)}"


def _takes_mode(path: Path, mode: int) -> bool:
    try:
        path.chmod(mode)
    except OSError:
        return False
    return stat.S_IMODE(path.lstat().st_mode) & stat.S_IXUSR == mode & stat.S_IXUSR


def _word(value: bool) -> str:  # noqa: FBT001
    return "true" if value else "false"
