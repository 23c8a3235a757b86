"""The bare loop that everybody starts with: the same prompt until the tag is seen."""

from bench.outcomes import project
from bench.outcomes.arena import Arena, Ending
from bench.outcomes.loops.base import Loop, ticked

TASKS = "PRD.md"
PROMPT = f"""\
Read {TASKS}. Take the first task whose box is open, do it completely, run `{project.SUITE}`,
tick its box and commit. One task only. When every box is ticked, say <promise>COMPLETE</promise>.
"""
SCRIPT = """\
n=0
while [ $n -lt "$1" ]; do
  n=$((n + 1))
  timeout 6 claude -p --dangerously-skip-permissions < PROMPT.md > ../last.txt 2>&1
  grep -q '<promise>COMPLETE</promise>' ../last.txt && exit 0
done
exit 1
"""


class Shell(Loop):
    """`while :; do claude -p < PROMPT.md; done`, bounded."""

    name = "bare shell loop"
    version = "-"
    settings = (
        "`timeout 6 claude -p < PROMPT.md` at most 4 x stories times, until COMPLETE is printed"
    )

    def prepare(self, arena: Arena) -> None:
        """A checklist and a prompt about all of it; the agent ticks and commits."""
        arena.write(TASKS, project.checklist(arena.stories))
        arena.write("PROMPT.md", PROMPT)
        arena.configure({"first_open": TASKS, "ticks": TASKS, "commits": True})

    def play(self, arena: Arena) -> Ending:
        """Run the script."""
        return arena.run("sh", "-c", SCRIPT, "sh", str(4 * len(arena.stories)))

    def claimed(self, arena: Arena) -> set[str]:
        """The ticked boxes."""
        return ticked(arena, TASKS)
