"""The small programs around the measurement: in C if there is a compiler, else scripts."""

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.measure import BenchError, quiet

NATIVE = Path(__file__).parent / "native"


@dataclass(frozen=True)
class Programs:
    """Command lines of the agents and of the floors."""

    folder: Path
    compiled: bool

    @staticmethod
    def prepare(folder: Path) -> "Programs":
        """Compile what can be compiled."""
        folder.mkdir()
        compiler = shutil.which("cc")
        if compiler is None:
            return Programs(folder, compiled=False)
        for name in ("agent", "walk"):
            line = (compiler, "-O2", "-o", str(folder / name), str(NATIVE / f"{name}.c"))
            try:
                quiet((*line, "-static"), folder, os.environ)
            except BenchError:  # no static C library
                quiet(line, folder, os.environ)
        return Programs(folder, compiled=True)

    @property
    def language(self) -> str:
        """How the agent and the walk are written, for the table."""
        return "C" if self.compiled else "script"

    @property
    def literal(self) -> Path:
        """The shell loop with the literal git commands."""
        return NATIVE / "literal.sh"

    def instant(self) -> tuple[str, ...]:
        """An agent that adds one line to a file."""
        first = (str(self.folder / "agent"),) if self.compiled else ("sh", _script("instant.sh"))
        return (*first, "instant", "notes.txt")

    def churn(self, counter: Path, files: int) -> tuple[str, ...]:
        """An agent that edits ten files, deletes two and adds five."""
        return (*self._agent(), "churn", str(counter), str(files))

    def flood(self, size: int) -> tuple[str, ...]:
        """An agent that prints so many bytes in lines of 100."""
        return (*self._agent(), "flood", str(size))

    def walk(self) -> tuple[str, ...]:
        """One lstat of every file and one readdir of every folder below the current one."""
        if self.compiled:
            return (str(self.folder / "walk"),)
        return (sys.executable, "-I", "-S", _script("walk.py"))

    def reader(self, log: Path, agent: tuple[str, ...]) -> tuple[str, ...]:
        """The bare bounded reader around an agent."""
        return (sys.executable, "-I", _script("reader.py"), str(log), *agent)

    def loads(self, stream: Path) -> tuple[str, ...]:
        """`json.loads` on each line of a file."""
        return (sys.executable, "-I", _script("loads.py"), str(stream))

    def _agent(self) -> tuple[str, ...]:
        if self.compiled:
            return (str(self.folder / "agent"),)
        return (sys.executable, "-I", "-S", _script("agent.py"))


def _script(name: str) -> str:
    return str(NATIVE / name)


def line(argv: tuple[str, ...]) -> str:
    """A command line as `--agent-cmd` takes it."""
    return shlex.join(argv)
