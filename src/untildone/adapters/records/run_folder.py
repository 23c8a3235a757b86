"""A run's private folder in the git folder: journal, logs, prompts, saved index."""

import contextlib
import json
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from untildone.adapters.records.durable import replace_file
from untildone.domain.stories.story import OpenTasks

OPEN = "open.json"
USERS_INDEX = "index.orig"  # the index as the user had it before the run


class RunFolder:
    """Paths of one run."""

    def __init__(self, home: Path, run_id: str) -> None:
        self.home = home
        self.path = home / "runs" / run_id
        self.journal = self.path / "journal.jsonl"
        # Plain text: pathlib's table of names would grow with every iteration.
        self._logs = str(self.path / "logs")
        self._scratch = str(self.path / "scratch")

    def make(self) -> None:
        """Create the folder."""
        (self.path / "logs").mkdir(parents=True, exist_ok=True)

    def note_origin(self, text: str) -> None:
        """Where HEAD was, for a start that is cut short before the journal can say it."""
        replace_file(self.path / "origin", [text.encode()], self.path / "origin.draft")

    def origin(self) -> str:
        """What `note_origin` wrote."""
        path = self.path / "origin"
        return path.read_text() if path.exists() else "\n\n"

    def log_file(self, n: int) -> str:
        """Raw output of iteration `n`."""
        return f"{self._logs}/{n:04d}.log"

    def keep_prompt(self, n: int, prompt: str) -> None:
        """The prompt of iteration `n`, beside its log."""
        path = f"{self._logs}/{n:04d}.prompt.md"
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - as above
            file.write(prompt)

    def keep_open(self, tasks: OpenTasks) -> None:
        """Which tasks are open; not synced, because it is for a killed process, not a power cut."""
        (self.path / OPEN).write_text(json.dumps(tasks))

    def kept_open(self) -> OpenTasks:
        """What `keep_open` wrote; nothing where it was cut short."""
        try:
            found = json.loads((self.path / OPEN).read_text())
        except (OSError, ValueError):
            return []
        return [[str(text) for text in row] for row in found]

    def scratch(self, n: int) -> str:
        """A private folder for iteration `n`, made when first asked for."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._scratch)  # noqa: PTH102 - as above
        return self._scratch


STAMP = "%Y%m%d-%H%M%S"


def new_run_id(home: Path, now: datetime) -> str:
    """Sorts behind all earlier runs here, also within one second or with a clock set back."""
    newest = next(run_ids(home), "").rpartition("-")[0]
    stamp = now.strftime(STAMP)
    if newest >= stamp:
        stamp = (datetime.strptime(newest, STAMP) + timedelta(seconds=1)).strftime(STAMP)  # noqa: DTZ007
    return f"{stamp}-{os.urandom(2).hex()}"


def run_ids(home: Path) -> Iterator[str]:
    """All runs of this worktree, newest first."""
    folder = home / "runs"
    journals = folder.glob("*/journal.jsonl")
    return iter(sorted((path.parent.name for path in journals), reverse=True))


def change_of(home: Path, run_id: str) -> str:
    """The change that a run works on, from its first journal line."""
    try:
        with (home / "runs" / run_id / "journal.jsonl").open("rb") as file:
            return str(json.loads(file.readline())["data"]["plan"]["change_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
