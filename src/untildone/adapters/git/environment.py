"""What git is started with, whatever the user has configured: settings, environment, identity."""

from collections.abc import Mapping

# The user's hooks, signing, watchers and housekeeping stay out of our commands; objects are synced
# in one batch (research: the only setting that survives a power cut together with the ref). Threads
# for reading the index cost more CPU than they save time, at 100,000 files and at 1,000.
# What a person likes must not decide whether git sees a file, or in which form we find an index, a
# ref or an answer: the table in docs/safety.md says why for each. What describes the disk is tried,
# see disk.py.
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
