"""A run's private folder in the git folder: journal, logs, prompts, saved index."""

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from untildone.adapters.records.durable import replace_file
from untildone.domain.stories.story import OpenTasks
from untildone.plain_files import opened, read_bytes, read_text

OPEN = "open.json"
PLAN = "plan.json"
USERS_INDEX = "index.orig"  # the index as the user had it before the run
PRIVATE, PRIVATE_FOLDER = 0o600, 0o700
# These hold files of the user or of the agent, which come back with the modes that they have.
AS_THEY_ARE = ("kept", "beside", "aside", "scratch", "worktree")


class RunFolder:
    """Paths of one run."""

    def __init__(self, home: Path, run_id: str) -> None:
        self.home = home
        self.path = home / "runs" / run_id
        self.journal = self.path / "journal.jsonl"
        self.output = self.path / "loop.log"  # of a loop without a terminal
        # Plain text: pathlib's table of names would grow with every iteration.
        self._logs = str(self.path / "logs")
        self._scratch = str(self.path / "scratch")

    def make(self) -> None:
        """Create the folder; it is nobody's but the owner's."""
        (self.path / "logs").mkdir(parents=True, exist_ok=True)
        make_private(self.home, self.path.name)

    def note_origin(self, text: str) -> None:
        """Where HEAD was, for a start that is cut short before the journal can say it."""
        replace_file(self.path / "origin", [text.encode()], self.path / "origin.draft", PRIVATE)

    def origin(self) -> str:
        """What `note_origin` wrote."""
        path = self.path / "origin"
        return read_text(path) if path.exists() else "\n\n"

    def log_file(self, n: int) -> str:
        """Raw output of iteration `n`."""
        return f"{self._logs}/{n:04d}.log"

    def keep_prompt(self, n: int, prompt: str) -> None:
        """The prompt of iteration `n`, beside its log."""
        with opened(self._prompt_file(n), "wb", private=True) as file:
            file.write(prompt.encode())

    def prompt(self, n: int) -> bytes:
        """What `keep_prompt` wrote; nothing where it is not there."""
        path = Path(self._prompt_file(n))
        return read_bytes(path) if path.is_file() else b""

    def _prompt_file(self, n: int) -> str:
        return f"{self._logs}/{n:04d}.prompt.md"

    def keep_open(self, tasks: OpenTasks) -> None:
        """Which tasks are open; not synced, because it is for a killed process, not a power cut."""
        name = f"{self.path}/{OPEN}"
        with opened(name, "wb", private=True) as file:
            file.write(json.dumps(tasks).encode())

    def kept_open(self) -> OpenTasks:
        """What `keep_open` wrote; nothing where it was cut short."""
        try:
            found = json.loads(read_text(self.path / OPEN))
        except (OSError, ValueError):
            return []
        return [[str(text) for text in row] for row in found]

    def keep_plan(self, n: int, texts: Mapping[str, bytes]) -> None:
        """The plan as iteration `n` left it; not synced either."""
        plain = {path: data.decode("utf-8", "surrogateescape") for path, data in texts.items()}
        with opened(self.path / PLAN, "wb", private=True) as file:
            file.write(json.dumps({"iteration": n, "files": plain}).encode())

    def kept_plan(self, n: int) -> dict[str, bytes]:
        """What `keep_plan` wrote for this iteration; nothing where it was cut short."""
        try:
            found = json.loads(read_text(self.path / PLAN))
            files = found["files"].items() if found["iteration"] == n else ()
            return {path: text.encode("utf-8", "surrogateescape") for path, text in files}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def scratch(self, lane: int) -> str:
        """A private folder for the calls of a lane, made when first asked for."""
        name = f"{self._scratch}-{lane}" if lane else self._scratch
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, PRIVATE_FOLDER)  # noqa: PTH102 - as above
        return name


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
    # A pipe there would be no run, and must not hide the others.
    return iter(sorted((path.parent.name for path in journals if path.is_file()), reverse=True))


def change_of(home: Path, run_id: str) -> str:
    """The change that a run works on, from its first journal line."""
    try:
        path = home / "runs" / run_id / "journal.jsonl"
        with opened(path) as file:
            return str(json.loads(file.readline())["data"]["plan"]["change_id"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def make_private(home: Path, run_id: str = "") -> None:
    """Nobody but the owner can look into our folder: what runs keep may hold secrets.

    All runs of an earlier release are made private, too; of others only the one that is named is
    looked through, for what git has made in it.
    """
    runs = f"{home}/runs"
    with contextlib.suppress(OSError):  # another user's, in a repository that is shared
        for folder in (str(home), runs):
            if _mode(folder) != PRIVATE_FOLDER:
                os.chmod(folder, PRIVATE_FOLDER)  # noqa: PTH101 - no pathlib, as above
        for run in os.scandir(runs):
            if run.name == run_id or _mode(run.path) != PRIVATE_FOLDER:
                _make_run_private(run.path)


def _make_run_private(folder: str) -> None:
    for path, folders, names in os.walk(folder):
        os.chmod(path, PRIVATE_FOLDER)  # noqa: PTH101 - as above
        if os.path.dirname(path) == folder and os.path.basename(path) in AS_THEY_ARE:  # noqa: PTH119, PTH120 - as above
            folders.clear()
            continue
        for name in names:
            _make_file_private(f"{path}/{name}")


def _make_file_private(path: str) -> None:
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode) or stat.S_IMODE(found.st_mode) == PRIVATE:
        return
    if found.st_nlink > 1:  # a second name of the user's index, whose mode is theirs
        shutil.copy2(path, f"{path}.draft")
        os.replace(f"{path}.draft", path)  # noqa: PTH105 - as above
    os.chmod(path, PRIVATE)  # noqa: PTH101 - as above


def _mode(path: str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)
