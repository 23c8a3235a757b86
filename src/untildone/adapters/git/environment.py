"""What git is started with, whatever the user has configured: settings, environment, identity."""

import contextlib
import os
import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from untildone.adapters.git.place import Place

# The user's hooks, signing, watchers and housekeeping stay out of our commands; objects are synced
# in one batch (research: the only setting that survives a power cut together with the ref). Threads
# for reading the index cost more CPU than they save time, at 100,000 files and at 1,000.
# What a person likes must not decide whether git sees a file, or in which form we find an index, a
# ref or an answer: the table in docs/safety.md says why for each. What describes the disk is tried,
# see `disk_settings`.
FLAGS = (
    "core.trustctime=true",
    "core.checkStat=default",
    "core.ignoreStat=false",
    "core.preferSymlinkRefs=false",
    "core.splitIndex=false",
    "index.sparse=false",
    "sparse.expectFilesOutsideOfPatterns=false",
    "add.ignoreErrors=false",
    "core.filesRefLockTimeout=3000",
    "core.packedRefsTimeout=3000",
    "merge.renormalize=false",
    "log.showSignature=false",
    "i18n.logOutputEncoding=UTF-8",
    "color.ui=false",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "submodule.recurse=false",
    "core.untrackedCache=false",
    "core.quotePath=false",
    "core.safecrlf=false",
    "core.fsync=committed",
    "core.fsyncMethod=batch",
    "index.threads=1",
    "core.preloadIndex=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.addEmbeddedRepo=false",
)
FALLBACK_IDENTITY = {
    "GIT_AUTHOR_NAME": "untildone",
    "GIT_AUTHOR_EMAIL": "untildone@localhost",
    "GIT_COMMITTER_NAME": "untildone",
    "GIT_COMMITTER_EMAIL": "untildone@localhost",
}


# Who the user is and where the settings are. All others redirect git, or are about its parent.
KEPT = (
    *("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_ATTR_NOSYSTEM"),
    *("GIT_EXEC_PATH", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM"),
)
IDENTITY = KEPT[:4]


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without inherited `GIT_*` that would redirect our commands."""
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith("GIT_") or name in KEPT
    }
    return kept | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}


@cache
def disk_settings(place: Place, *, only_look: bool = False) -> tuple[str, ...]:
    """Git's settings that describe this disk, whatever the user's say about another.

    Those that cannot be tried are left out.
    """
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
