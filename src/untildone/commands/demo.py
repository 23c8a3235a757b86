"""A throw-away repository with a change, and the real loop over it with the scripted agent."""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from msgspec import Struct

from untildone.adapters.git.git import Git
from untildone.adapters.process.process import Processes
from untildone.adapters.process.wake_pipe import WakePipe
from untildone.app.wording import outcome_words
from untildone.commands.run import LoopProcess, start
from untildone.commands.run_ending import Ended
from untildone.commands.start.plan import Wanted
from untildone.domain.errors import UserError
from untildone.domain.plain_text import plain
from untildone.domain.regex import regex
from untildone.domain.run.run import Run
from untildone.settings.load import load
from untildone.wiring.repository import Repository, here

CHANGE = "better-greetings"
TASKS = f"openspec/changes/{CHANGE}/tasks.md"
CHECK = "sh check.sh"
SCRIPT = "demo-script.toml"
DELAY = regex(r"^ *\{ delay = [\d.]+ \},\n", re.MULTILINE)


class Summary(Struct, frozen=True):
    """What the run left behind, for a person to read."""

    commits: list[str]
    attempts: list[str]
    edits: list[str]
    tokens: int


@contextlib.contextmanager
def project(keep: Path | None, *, fast: bool) -> Iterator[Repository]:
    """The demo's repository; without `keep` it is gone afterwards."""
    if keep:
        yield _made(_empty(keep), fast=fast)
        return
    folder = Path(tempfile.mkdtemp(prefix="untildone-demo-"))
    try:
        yield _made(folder, fast=fast)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def play(process: LoopProcess, on_complete: str) -> Ended:
    """`untildone run` with flags; the person's own settings stay out of it."""
    place = process.repository.place
    flags: dict[str, object] = {
        "agent": "scripted",
        "script": str(place.git_dir / SCRIPT),
        "strict": True,
        "verify": (CHECK,),
        "on_complete": on_complete,
    }
    nobody = {"HOME": str(place.git_dir), "XDG_CONFIG_HOME": str(place.git_dir)}
    return start(
        process,
        load(place.top, nobody, flags),
        flags,
        Wanted(CHANGE, origins={"verify": "the demo"}),
    )


def summary(repository: Repository, run: Run) -> Summary:
    """The commits of the run (also after cleanup), the attempts it put back, its tokens."""
    git = repository.git()
    log = git.do("log", "--oneline", "--no-decorate", "--no-color", run.lanes[0].checkpoint)
    put_back = [it for it in run.iterations if it.saved_ref]
    edits = git.do("status", "--short", "--untracked-files=all")
    return Summary(
        os.fsdecode(log).splitlines(),
        [
            f"{it.saved_ref}  {outcome_words(it.outcome)}: {_last_line(it.reason)}"
            for it in put_back
        ],
        os.fsdecode(edits).splitlines(),
        sum(it.usage.total for it in run.iterations if it.usage),
    )


def _last_line(text: str) -> str:
    return plain(text).strip().rpartition("\n")[2]


def _empty(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            return folder
    except OSError as error:
        raise UserError(
            f"The demo's folder cannot be made: {error}", hint="untildone demo --keep a-new-folder"
        ) from error
    raise UserError(
        f"The folder for the demo is not empty: {folder}",
        state="Nothing was changed.",
        hint="untildone demo --keep a-new-folder",
    )


def _made(folder: Path, *, fast: bool) -> Repository:
    source = resources.files("untildone").joinpath("demo")
    git = Git(Processes(WakePipe().fd), folder)
    # An empty template: hooks and excludes of the person's own template have no place here.
    git.do("init", "-q", "--template=", "-b", "main")
    # Only in this repository, so that the demo needs no identity and leaves the person's alone.
    git.do("config", "user.name", "Demo")
    git.do("config", "user.email", "demo@localhost")
    _copy(source.joinpath("project"), folder)
    script = source.joinpath("script.toml").read_text(encoding="utf-8")
    text = DELAY.sub("", script) if fast else script
    (folder / ".git" / SCRIPT).write_text(text, encoding="utf-8")
    git.do("add", "-A", "-f")
    git.do("commit", "-q", "-m", "a program that says hello")
    return here(folder)


def _copy(source: Traversable, target: Path) -> None:
    for entry in source.iterdir():
        path = target / entry.name
        if entry.is_dir():
            path.mkdir()
            _copy(entry, path)
        else:
            path.write_bytes(entry.read_bytes())
