"""ralph-tui from npm, with bun: the tag in the agent's output is its word."""

import json
from pathlib import Path

from bench.outcomes import project
from bench.outcomes.arena import Arena, Ending
from bench.outcomes.loops.base import Loop, npm

STORIES = "prd.json"
CONFIG = """\
autoCommit = true

[[agents]]
name = "claude"
plugin = "claude"
default = true
timeout = 6000

[errorHandling]
strategy = "retry"
maxRetries = 3
retryDelayMs = 0
"""


class RalphTui(Loop):
    """The prd.json mode without its screen."""

    name = "ralph-tui"
    version = "0.11.0"
    bun = "1.4.4"
    flags = (
        *("run", "--prd", "./" + STORIES, "--headless", "--no-setup"),
        *("--no-notify", "--delay", "0"),
    )
    settings = (
        f"`{' '.join(flags)} --iterations (4 x stories)`; "
        "autoCommit, time-out 6 s, strategy retry with 3 retries"
    )

    def install(self, tools: Path) -> None:
        """From npm, and bun beside it."""
        npm(tools, "ralph-tui", f"ralph-tui@{self.version}", f"bun@{self.bun}")

    def program(self, tools: Path) -> tuple[str, ...]:
        """Its script, run by bun."""
        modules = tools / "ralph-tui" / "node_modules"
        return (str(modules / ".bin" / "bun"), str(modules / "ralph-tui" / "dist" / "cli.js"))

    def prepare(self, arena: Arena) -> None:
        """User stories in JSON; with autoCommit the loop commits after each task."""
        arena.write(STORIES, project.prd_json(arena.stories))
        arena.write(".ralph-tui/config.toml", CONFIG)
        arena.configure({"find": r"## Your Task: (S\d\d)"})

    def play(self, arena: Arena) -> Ending:
        """One run."""
        most = str(4 * len(arena.stories))
        return arena.run(*self.program(arena.tools), *self.flags, "--iterations", most)

    def claimed(self, arena: Arena) -> set[str]:
        """The stories that pass, by its file."""
        told = json.loads((arena.work / STORIES).read_text(encoding="utf-8"))
        return {story["id"] for story in told["userStories"] if story.get("passes")}
