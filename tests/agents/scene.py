"""The scene of these tests: a repository, one real program, the scripted model, and our command."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from tests.agents.install import pins
from tests.e2e.bench_repo import until
from tests.modelserver.script import COMPLETE, BadDay, Script, Story, Tokens, Write
from tests.modelserver.server import ModelServer

if TYPE_CHECKING:
    from tests.agents.programs import Program
    from tests.e2e.bench_repo import Bench, Json, Result

MARK = "AGENT_TEST_MARK"
TITLES = ("Alpha greeting", "Bravo greeting")


class Scene:
    """A change with two stories and a program whose model is scripted to write one file each."""

    def __init__(self, bench: Bench, program: Program, bad_day: BadDay | None = None) -> None:
        self.bench = bench
        self.program = program
        self.mark = secrets.token_hex(8)
        self.server = ModelServer(Script([self._story(title) for title in TITLES], bad_day))
        bench.only_stories(1, 2)
        self._put_on_path()

    def _story(self, title: str) -> Story:
        word = title.split()[0].lower()
        file = Write(str(self.bench.path(f"{word}.txt")), f"Hello from {word}.\n")
        return Story(title, (file,), f"I wrote {word}.txt as asked.\n{COMPLETE}")

    def _put_on_path(self) -> None:
        pin = pins()[self.program.name]
        (self.bench.bin / pin.name).symlink_to(pin.path)
        own_node = pin.folder / "node_modules" / ".bin" / "node"
        if own_node.exists():
            (self.bench.bin / "node").symlink_to(own_node)

    def run(self, *more: str, login: bool = False, patience: float = 60.0) -> Result:
        """The loop over the change to its end, with this program as the agent."""
        for name, text in self.program.settings(self.server.url).items():
            path = self.bench.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        env = self.program.environment(self.server.url, login=login) | {MARK: self.mark}
        model = ("--model", self.program.model) if self.program.model else ()
        args = ["--agent", self.program.name, *model, *more]
        return self.bench.loop(*args, env=env, timeout=patience)

    def counted(self) -> Tokens:
        """The tokens of all iterations as the state file has them."""
        entries = self.bench.state()["iterations"]
        return Tokens(
            *(
                sum(entry.get(name, 0) for entry in entries)
                for name in (
                    "input_tokens",
                    "cache_read_tokens",
                    "cache_write_tokens",
                    "output_tokens",
                )
            )
        )

    def iterations(self) -> list[Json]:
        """The finished iterations of the state file."""
        found: list[Json] = self.bench.state()["iterations"]
        return found

    def alone(self) -> None:
        """Nothing that carries the mark of this scene is alive."""
        until(lambda: not self.living(), 2, f"the end of {self.living()}")

    def living(self) -> list[str]:
        """Processes that were started by this scene, by the mark in their environment."""
        mark = f"{MARK}={self.mark}".encode()
        return [words for folder in _processes() if (words := _marked(folder, mark))]


def _processes() -> list[Path]:
    return [path for path in Path("/proc").iterdir() if path.name.isdigit()]


def _marked(folder: Path, mark: bytes) -> str:
    """The command line of a process that carries the mark, else nothing."""
    try:
        if mark not in (folder / "environ").read_bytes().split(b"\0"):
            return ""
        words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
    return f"{folder.name} {words}"
