"""ralph-loop: two packages of one name; the one from PyPI runs, the one from npm is empty."""

import json
from pathlib import Path

from bench.outcomes import project
from bench.outcomes.arena import Arena, Ending
from bench.outcomes.loops.base import CannotRun, Loop, npm, pip

PASSES = 3


class RalphLoop(Loop):
    """ralph-loop from PyPI: one spec for each story, done after three DONE in a row."""

    name = "ralph-loop (PyPI)"
    version = "0.6.0"
    flags = ("run", "--max", "400", "--agents", "claude", "--timeout", "6", "--no-color")
    settings = f"`{' '.join(flags)}`, one spec for each story; done means three DONE in a row"

    def install(self, tools: Path) -> None:
        """From PyPI."""
        pip(tools, "ralph-loop", f"ralph-loop=={self.version}")

    def prepare(self, arena: Arena) -> None:
        """One spec file for each story; the agent writes its word into a status file."""
        for story in arena.stories:
            text = f"# {story.title}\n\n{project.task(story)}\n\n- [ ] `{story.check}` passes\n"
            (arena.work / "specs").mkdir(exist_ok=True)
            (arena.work / "specs" / f"{story.key}.spec.md").write_text(text, encoding="utf-8")
        arena.git("add", "specs")
        arena.git("commit", "-q", "-m", "Add specs", "--", "specs")
        arena.configure({"find": r"Spec file: \S*?(S\d\d)", "status": ".ralph/status"})

    def play(self, arena: Arena) -> Ending:
        """Initialise, then one run."""
        program = str(arena.tools / "ralph-loop" / "bin" / "ralph")
        arena.run(program, "init")
        (arena.work / "PROMPT.md").unlink()  # its template would be one more spec
        return arena.run(program, *self.flags)

    def claimed(self, arena: Arena) -> set[str]:
        """The specs with enough DONE in a row, which is its own rule."""
        path = arena.work / ".ralph" / "state.json"
        told = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        done = [spec["path"] for spec in told.get("specs", []) if spec["done_count"] >= PASSES]
        return {Path(name).name.partition(".")[0] for name in done}


class RalphLoopNpm(Loop):
    """ralph-loop from npm."""

    name = "ralph-loop (npm)"
    version = "0.0.1-alpha.0"
    settings = "-"

    def install(self, tools: Path) -> None:
        """Installs, but there is nothing in it."""
        package = npm(tools, "ralph-loop-npm", f"ralph-loop@{self.version}") / "ralph-loop"
        files = [path.name for path in package.iterdir()]
        if files == ["package.json"]:
            raise CannotRun("the package holds no program, only its package.json")
        raise CannotRun("no way to run it is known")
