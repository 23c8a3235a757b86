"""ralphy-cli from npm: the agent's exit is its word; tests are a sentence of the prompt."""

from pathlib import Path

from bench.outcomes import project
from bench.outcomes.arena import Arena, Ending
from bench.outcomes.loops.base import Loop, npm, ticked

TASKS = "PRD.md"


class Ralphy(Loop):
    """The markdown checklist mode."""

    name = "ralphy-cli"
    version = "4.7.2"
    flags = ("--prd", TASKS, "--no-browser", "--max-retries", "3", "--retry-delay", "0")
    settings = f"`{' '.join(flags)}`; has no time-out"

    def install(self, tools: Path) -> None:
        """From npm; its binaries are in the package."""
        npm(tools, "ralphy", f"ralphy-cli@{self.version}")

    def program(self, tools: Path) -> tuple[str, ...]:
        """The shim that npm makes."""
        return (str(tools / "ralphy" / "node_modules" / ".bin" / "ralphy"),)

    def prepare(self, arena: Arena) -> None:
        """A checklist; its prompt asks for a commit, the boxes are its own."""
        arena.write(TASKS, project.checklist(arena.stories))
        arena.configure({"find": r"## Task\s+(S\d\d) ", "commits": True})

    def play(self, arena: Arena) -> Ending:
        """One run."""
        return arena.run(*self.program(arena.tools), *self.flags)

    def claimed(self, arena: Arena) -> set[str]:
        """The ticked boxes."""
        return ticked(arena, TASKS)
