"""ralphify from PyPI: a prompt with fresh command output, so many times."""

from pathlib import Path

from bench.outcomes import project
from bench.outcomes.arena import Arena, Ending
from bench.outcomes.loops.base import Loop, pip, ticked
from bench.outcomes.loops.shell import PROMPT, TASKS

RALPH = f"""\
---
agent: claude -p --dangerously-skip-permissions
commands:
  - name: tests
    run: {project.SUITE}
---

{PROMPT}
## Tests

{{{{ commands.tests }}}}
"""


class Ralphify(Loop):
    """One RALPH.md that names the test command; it counts iterations and nothing else."""

    name = "ralphify"
    version = "0.3.0"
    settings = "`run -n (2 x stories) --timeout 6 work`, output of the tests in each prompt"

    def install(self, tools: Path) -> None:
        """From PyPI."""
        pip(tools, "ralphify", f"ralphify=={self.version}")

    def program(self, tools: Path) -> tuple[str, ...]:
        """The script that pip makes."""
        return (str(tools / "ralphify" / "bin" / "ralph"),)

    def prepare(self, arena: Arena) -> None:
        """A checklist and a prompt about all of it; the agent ticks and commits."""
        arena.write(TASKS, project.checklist(arena.stories))
        arena.write("work/RALPH.md", RALPH)
        arena.configure({"first_open": TASKS, "ticks": TASKS, "commits": True})

    def play(self, arena: Arena) -> Ending:
        """One run."""
        times = str(2 * len(arena.stories))
        argv = (*self.program(arena.tools), "run", "-n", times, "--timeout", "6", "work")
        return arena.run(*argv)

    def claimed(self, arena: Arena) -> set[str]:
        """The ticked boxes."""
        return ticked(arena, TASKS)
