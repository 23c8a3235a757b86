"""What a loop must tell so that it can be measured."""

import os
import re
import sys
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
    # How many stories it works on at once.
    lanes = 1

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

    def tree(self, arena: Arena) -> Path:
        """The folder where the loop has left its work."""
        return arena.work


def ticked(arena: Arena, path: str) -> set[str]:
    """The stories whose box is ticked in a checklist."""
    file = arena.work / path
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return set(re.findall(r"(?m)^- \[x\] (S\d\d) ", text))


def npm(tools: Path, name: str, *packages: str, scripts: bool = True) -> Path:
    """Install npm packages into a folder of their own, once; the folder of their modules."""
    folder = tools / name
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--loglevel=error", "--no-fund", "--no-audit", "--prefix", str(folder)]
        options += [] if scripts else ["--ignore-scripts"]
        _install("npm", packages, [["npm", "install", *options, *packages]], folder)
    return folder / "node_modules"


def pip(tools: Path, name: str, *packages: str) -> Path:
    """Install Python packages into an environment of their own, once; its folder of programs."""
    folder = tools / name
    if not (folder / "ready").exists():
        make = ["python3", "-m", "venv", "--clear", str(folder)]
        fill = [str(folder / "bin" / "pip"), "install", "-q", *packages]
        _install("pip", packages, [make, fill], folder)
    return folder / "bin"


def _install(tool: str, packages: tuple[str, ...], lines: list[list[str]], folder: Path) -> None:
    """Run the commands; the reason of a failure is short, as it goes into the table."""
    try:
        for line in lines:
            quiet(line, folder.parent, os.environ)
    except (BenchError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        raise CannotRun(f"{tool} cannot install {' '.join(packages)} here") from error
    (folder / "ready").touch()
