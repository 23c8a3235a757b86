"""The only place that starts git: flags, environment, index and patience."""

import copy
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from msgspec import Struct

from untildone.adapters.clock import monotonic, pause
from untildone.adapters.process.child import Command
from untildone.adapters.process.process import Captured, Processes
from untildone.domain.agents.agent import Ending
from untildone.domain.errors import Interrupted, StepError

STEP_TIMEOUT_S = 600
PATIENCE_S = 0.5
LOCK_PATIENCE_S, LOCKED = 3.0, b"index.lock': File exists"

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
# Settings with which the author of a commit, or its form, is for git to say.
OWN_AUTHOR = (
    *("author.name", "author.email", "committer.name", "committer.email", "i18n.commitencoding"),
)
# An identity from which git would take nothing away.
_PLAIN_NAME = re.compile(r"\w(?:[\w .-]*\w)?")
_PLAIN_EMAIL = re.compile(r"\w[\w.+-]*@[\w.-]*\w")
FALLBACK_IDENTITY = {
    "GIT_AUTHOR_NAME": "untildone",
    "GIT_AUTHOR_EMAIL": "untildone@localhost",
    "GIT_COMMITTER_NAME": "untildone",
    "GIT_COMMITTER_EMAIL": "untildone@localhost",
}


class Place(Struct, frozen=True):
    """Where a repository's folders are."""

    top: Path
    git_dir: Path
    common_dir: Path


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without inherited `GIT_*`, which would redirect our commands."""
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    return kept | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}


class GitDoor:
    """Runs git in one worktree, under our own rules whatever the user has configured."""

    def __init__(
        self, processes: Processes, folder: Path, interrupted: Callable[[], bool] = lambda: False
    ) -> None:
        self._processes = processes
        self._folder = folder
        self._program = shutil.which("git") or "git"
        self._interrupted = interrupted
        # An agent's `git replace` must not make one of our checkpoints look like another commit.
        self._environment = clean_environment(os.environ) | {"GIT_NO_REPLACE_OBJECTS": "1"}
        self._refs_root = folder / ".git"
        self._who = ""
        self._config: dict[str, str] | None = None
        self._flags = [part for flag in FLAGS for part in ("-c", flag)]

    def use_excludes(self, path: Path) -> None:
        """Ignore rules of the run in the place of the user's global ones (it includes those)."""
        self._flags += ["-c", f"core.excludesFile={path}"]

    def use_index(self, path: Path) -> None:
        """An index of our own in the place of the worktree's."""
        self._environment["GIT_INDEX_FILE"] = str(path)

    def index_of(self, place: Place) -> Path:
        """The index file that our commands use."""
        own = self._environment.get("GIT_INDEX_FILE")
        return Path(own) if own else place.git_dir / "index"

    def drafting(self, objects: Path, stored: Path, index: Path) -> Self:
        """The same commands on another index; what they write stays in a private folder.

        Every object is a file of its own there, large ones too, so that each can be left out.
        """
        quoted = str(stored).replace("\\", "\\\\").replace('"', '\\"')
        draft = copy.copy(self)
        draft._environment = self._environment | {
            "GIT_OBJECT_DIRECTORY": str(objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{quoted}"',
            "GIT_INDEX_FILE": str(index),
        }
        draft._flags = [*self._flags, "-c", f"core.bigFileThreshold={sys.maxsize}"]
        return draft

    def use_refs_root(self, path: Path) -> None:
        """Where refs are kept as files: the common git folder."""
        self._refs_root = path

    def use_fallback_identity_if_none(self) -> None:
        """Commit as the user, or as ourselves where git knows no identity."""
        odd = any(self.config(name) for name in OWN_AUTHOR)
        name, email = self.config("user.name"), self.config("user.email")
        if not odd and _PLAIN_NAME.fullmatch(name) and _PLAIN_EMAIL.fullmatch(email):
            self._who = f"{name} <{email}>"
            return
        answer = self.ask("var", "GIT_COMMITTER_IDENT")
        if not answer.ok:
            self._environment |= FALLBACK_IDENTITY
            answer = self.ask("var", "GIT_COMMITTER_IDENT")
        if not odd:
            self._who = os.fsdecode(answer.stdout).strip().rsplit(" ", 2)[0]

    def config(self, name: str) -> str:
        """A configuration value by its name in lower case, or an empty string; read once."""
        if self._config is None:
            rows = os.fsdecode(self.ask("config", "-z", "--list").stdout).split("\0")
            parts = (row.partition("\n") for row in rows)
            self._config = {key: value if given else "true" for key, given, value in parts}
        return self._config.get(name, "")

    # -- the door ------------------------------------------------------------------------------

    def ask(
        self,
        *args: str,
        stdin: bytes = b"",
        index: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Captured:
        """Run a git command whatever its exit code; only an interruption raises."""
        environment = self._environment | dict(env or {})
        if index:
            environment["GIT_INDEX_FILE"] = str(index)
        command = Command(
            (self._program, *self._flags, *args),
            self._folder,
            environment,
            stdin,
            timeout_s=STEP_TIMEOUT_S,
            grace_s=PATIENCE_S,
        )
        answer = self._processes.capture(command, self._interrupted)
        deadline = monotonic() + LOCK_PATIENCE_S
        while not answer.ok and LOCKED in answer.stderr and monotonic() < deadline:
            pause(0.02)  # the user's own git command holds the index: it ends soon
            answer = self._processes.capture(command, self._interrupted)
        if answer.ending is Ending.INTERRUPTED:
            raise Interrupted(f"`git {args[0]}` was cut short by a stop request")
        return answer

    def do(
        self,
        *args: str,
        stdin: bytes = b"",
        index: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run a git command that must succeed and return what it printed."""
        answer = self.ask(*args, stdin=stdin, index=index, env=env)
        if not answer.ok:
            raise git_failed(args, answer)
        return answer.stdout

    def _line(self, *args: str, stdin: bytes = b"", index: Path | None = None) -> str:
        return os.fsdecode(self.do(*args, stdin=stdin, index=index)).strip()


def git_failed(args: Sequence[str], answer: Captured) -> StepError:
    """Git's own words as an error."""
    said = answer.stderr.decode(errors="replace").strip() or f"exit code {answer.exit_code}"
    verb = next((arg for arg in args if not arg.startswith("-")), args[0])
    return StepError(f"`git {verb}` failed: {said}")
