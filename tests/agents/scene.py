"""The scene of these tests: a repository, one real program, the scripted model, and our command."""

from __future__ import annotations

import math
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from tests.agents.install import pins
from tests.e2e.waiting import until
from tests.modelserver.script import COMPLETE, BadDay, Day, Run, Script, Story, Tokens, Write
from tests.modelserver.server import ModelServer

if TYPE_CHECKING:
    from tests.agents.programs import Program
    from tests.e2e.bench import Bench
    from tests.e2e.command import Json, Live, Result

PATIENCE = 100.0
CLOCK = re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?")
MARK = "AGENT_TEST_MARK"
WAITED_OUT = (Day.RATE_LIMIT, Day.CUT, Day.HANG)
TITLES = ("Alpha greeting", "Bravo greeting")


class Scene:
    """A change and a program whose model is scripted to write one file for each story.

    A fine day has two stories. A bad one has a single story and lasts for ever, or
    (those of WAITED_OUT) until the program gives up; if it lasts for a time, it has two as well.
    With a `command` the model runs that instead of writing, with a `folder` it writes there.
    """

    def __init__(
        self,
        bench: Bench,
        program: Program,
        day: Day | None = None,
        reset_s: float | None = None,
        command: str = "",
        folder: Path | None = None,
        lasts_s: float = math.inf,
    ) -> None:
        self.bench = bench
        self.program = program
        self.mark = secrets.token_hex(8)
        self._command = command
        self._folder = folder or bench.repo
        endless = lasts_s == math.inf
        times = self.tries(day) if endless and day in WAITED_OUT else None
        bad_day = BadDay(day, times, reset_s, lasts_s) if day else None
        self.server = ModelServer(Script([self._story(title) for title in TITLES], bad_day))
        bench.only_stories(*((1,) if day and endless else (1, 2)))
        self._put_on_path()

    def _story(self, title: str) -> Story:
        word = title.split()[0].lower()
        file = Write(str(self._folder / f"{word}.txt"), f"Hello from {word}.\n")
        actions = (Run(self._command),) if self._command else (file,)
        return Story(title, actions, f"I wrote {word}.txt as asked.\n{COMPLETE}")

    def _put_on_path(self) -> None:
        pin = pins()[self.program.name]
        (self.bench.bin / pin.name).symlink_to(pin.path)
        own_node = pin.folder / "node_modules" / ".bin" / "node"
        if own_node.exists():
            (self.bench.bin / "node").symlink_to(own_node)

    def run(self, *more: str) -> Result:
        """The loop over the change to its end, with this program as the agent."""
        live = self.start(*more)
        try:
            return live.wait(PATIENCE)
        except AssertionError as error:
            logs = sorted(self.bench.repo.glob(".git/untildone/runs/*/logs/*.log"))
            tails = [path.read_bytes()[-2000:].decode(errors="replace") for path in logs]
            raise AssertionError("\n".join((str(error), *tails))) from None

    def start(self, *more: str, login: bool = False) -> Live:
        """The loop in the background; `login` for the token of a subscription."""
        for name, text in self.program.settings(self.server.url).items():
            path = self.bench.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        env = self.program.environment(self.server.url, login=login) | {MARK: self.mark}
        model = ("--model", self.program.model) if self.program.model else ()
        args = ["--agent", self.program.name, *model, *more]
        return self.bench.start(*self.bench.loop_args(*args), env=env)

    def tries(self, day: Day | None) -> int:
        """How many requests the program makes on such a day before it gives up."""
        return self.program.tries.get(day, 1) if day else 1

    def answered(self) -> Tokens:
        """The tokens of the answers that were whole, as far as the program tells them apart."""
        sent = sum((seen.sent for seen in self.server.main if not seen.day), Tokens()).unreasoned()
        return sent if self.program.tells_cache else sent.uncached()

    def check_tokens(self) -> None:
        """To the last token what the model sent; nothing is made up."""
        state, answered = self.bench.state(), self.answered()
        assert self.counted() == answered
        assert not any(entry.get("tokens_estimated") for entry in self.iterations())
        # A broken stream may have told tokens that are paid for, too.
        broken = sum((seen.sent for seen in self.server.main if seen.day), Tokens()).billed
        assert answered.billed <= state["total_tokens"] <= answered.billed + broken

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

    def prompts(self) -> set[str]:
        """All prompts that reached the model, without the time of day that some put beside."""
        return {CLOCK.sub("", seen.place.prompt) for seen in self.server.main}

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
