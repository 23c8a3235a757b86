"""ralph-starter from npm: one prompt about all tasks, the tests run after each iteration."""

from pathlib import Path

from bench.outcomes import project
from bench.outcomes.arena import Arena, Ending
from bench.outcomes.loops.base import Loop, npm, ticked

TASKS = "PRD.md"


class RalphStarter(Loop):
    """The PRD mode with `--validate`; the test command is in AGENTS.md, where it looks for it."""

    name = "ralph-starter"
    version = "0.5.2"
    flags = (
        *("run", "--prd", TASKS, "--agent", "claude-code"),
        *("--headless", "--no-auto-skills", "--validate", "--commit", "--output-dir", "."),
    )
    settings = (
        f"`{' '.join(flags)} --max-iterations (4 x stories)`, test command in AGENTS.md; "
        "its time-out of 5 min cannot be set"
    )

    def install(self, tools: Path) -> None:
        """From npm; its install script insists on another package manager."""
        npm(tools, "ralph-starter", f"ralph-starter@{self.version}", scripts=False)

    def prepare(self, arena: Arena) -> None:
        """A checklist that the agent is told to tick; the loop commits."""
        arena.write(TASKS, project.checklist(arena.stories))
        arena.configure({"first_open": TASKS, "ticks": TASKS})

    def play(self, arena: Arena) -> Ending:
        """One run."""
        modules = arena.tools / "ralph-starter" / "node_modules"
        program = modules / "ralph-starter" / "dist" / "cli.js"
        most = str(4 * len(arena.stories))
        return arena.run("node", str(program), *self.flags, "--max-iterations", most)

    def claimed(self, arena: Arena) -> set[str]:
        """The ticked boxes."""
        return ticked(arena, TASKS)
