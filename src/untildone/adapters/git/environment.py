"""What git is started with, whatever the user has configured: settings, environment, identity."""

from collections.abc import Mapping

# The user's hooks, signing, watchers and housekeeping stay out of our commands; objects are synced
# in one batch (research: the only setting that survives a power cut together with the ref). Threads
# for reading the index cost more CPU than they save time, at 100,000 files and at 1,000.
FLAGS = (
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


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without inherited `GIT_*`, which would redirect our commands."""
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    return kept | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
