"""What a loop must tell so that it can be measured."""

import re
from pathlib import Path

from bench.measure import BenchError, quiet
from bench.outcomes.arena import Arena, Ending


class CannotRun(Exception):
    """This loop cannot be installed or started here; the message says why."""


class Loop:
    """A loop under test."""

    name = ""
    version = ""
    # What was chosen, for the table: flags and the limits that it has.
    settings = ""
    # Whether a person can answer an agent's question while the run is under way.
    answers = False

    def install(self, tools: Path) -> None:
        """Install the pinned version into a scratch folder, once."""

    def prepare(self, arena: Arena) -> None:
        """Write the stories in the loop's own format, and tell the agent about the prompt."""

    def play(self, arena: Arena) -> Ending:
        """Run the loop to its end."""
        raise NotImplementedError

    def claimed(self, arena: Arena) -> set[str]:
        """The keys of the stories that the loop calls done."""
        raise NotImplementedError


def ticked(arena: Arena, path: str) -> set[str]:
    """The stories whose box is ticked in a checklist."""
    file = arena.work / path
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return set(re.findall(r"(?m)^- \[x\] (S\d\d) ", text))


def npm(tools: Path, name: str, *packages: str, scripts: bool = True) -> Path:
    """Install npm packages into a folder of their own, once; the folder of their programs."""
    folder = tools / name
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--silent", "--no-fund", "--no-audit", "--prefix", str(folder)]
        options += [] if scripts else ["--ignore-scripts"]
        _installed("npm", "install", *options, *packages, cwd=folder)
        (folder / "ready").touch()
    return folder / "node_modules"


def pip(tools: Path, name: str, *packages: str) -> Path:
    """Install Python packages into an environment of their own, once; its folder of programs."""
    folder = tools / name
    if not (folder / "ready").exists():
        _installed("python3", "-m", "venv", "--clear", str(folder), cwd=tools)
        _installed(str(folder / "bin" / "pip"), "install", "-q", *packages, cwd=tools)
        (folder / "ready").touch()
    return folder / "bin"


def _installed(*argv: str, cwd: Path) -> None:
    import os

    try:
        quiet(argv, cwd, os.environ)
    except (BenchError, OSError) as error:
        raise CannotRun(f"cannot be installed: {error}") from error
