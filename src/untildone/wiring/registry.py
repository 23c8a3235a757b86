"""What there is to choose from: agents and story sources by name."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from untildone.adapters.stories import openspec, tasks_md
from untildone.adapters.stories.openspec import OpenSpec
from untildone.adapters.stories.tasks_md import TasksMd
from untildone.domain.agent import Intent
from untildone.domain.errors import AgentMissing, StoriesError, UserError
from untildone.domain.run import Plan
from untildone.ports import Dialect, StorySource
from untildone.settings import CHOICES, PROGRAMS

if TYPE_CHECKING:
    from untildone.adapters.agents.program import Program

SOURCES: dict[str, Callable[[Path, str], StorySource]] = {"openspec": OpenSpec, "tasks-md": TasksMd}
RECOGNISES = {"openspec": openspec.recognises, "tasks-md": tasks_md.recognises}


def dialect(name: str, agent_cmd: str, script: str, top: Path) -> Dialect:
    """The agent of this name."""
    match name:
        case _ if name in PROGRAMS:
            return program(name)
        case "command":
            from untildone.adapters.agents.command import Command

            return Command(agent_cmd)
        case "scripted":
            if not script:
                raise UserError(
                    "The scripted agent needs a script",
                    hint="Set `script` in untildone.toml or pass `--script FILE`.",
                )
            from untildone.adapters.agents.scripted import Scripted

            return Scripted(str((top / script).resolve()))
        case _:
            from difflib import get_close_matches

            near = get_close_matches(name, CHOICES["agent"], n=1)
            hint = f"Did you mean `{near[0]}`? " if near else ""
            raise UserError(
                f"Unknown agent: {name}", hint=f"{hint}`untildone agents` lists the agents."
            )


def program(name: str) -> "Program":
    """The agent that is a program of this name: its ways are in the module called like it."""
    from untildone.adapters.agents.program import Program

    module = import_module(f"untildone.adapters.agents.{name}")
    return Program(getattr(module, name.upper()))


def droppings(plan: Plan) -> tuple[str, ...]:
    """Patterns of the files that the plan's agents leave in a worktree."""
    programs = (program(name) for name in plan.agents if name in PROGRAMS)
    return tuple(pattern for found in programs for pattern in found.ways.droppings)


def check_agents(plan: Plan, top: Path) -> None:
    """Every agent that the plan may call can be started, as it is to be called."""
    for flag, name in zip(("--agent", "--fallback"), plan.agents, strict=False):
        agent = dialect(name, plan.agent_cmd, plan.script, top)
        try:
            agent.check()
        except AgentMissing as missing:
            others = [n for n in installed() if n not in plan.agents]
            take = ", ".join(f"`{flag} {other}`" for other in others)
            found = f"Choose what is installed: {take}. " if take else ""
            raise AgentMissing(missing.message, hint=f"{found}{missing.hint}") from missing
        agent.invocation(Intent("", "", "", permissions=plan.permissions))


def installed() -> list[str]:
    """The agents whose programs are on PATH."""
    return [name for name in PROGRAMS if program(name).path()]


def story_source(name: str, top: Path, change: str) -> StorySource | None:
    """The source that has this change, or None when none does."""
    if name != "auto":
        if name not in SOURCES:
            from difflib import get_close_matches

            near = get_close_matches(name, SOURCES, n=1)
            hint = f"Did you mean `{near[0]}`? " if near else ""
            raise UserError(
                f"Unknown story source: {name}", hint=f"{hint}Known: auto, {', '.join(SOURCES)}"
            )
        return SOURCES[name](top, change)
    found = next((n for n, recognises in RECOGNISES.items() if recognises(top, change)), None)
    return SOURCES[found](top, change) if found else None


def change_exists(top: Path, change: str) -> bool:
    """Whether the change is known at all, with or without tasks."""
    return openspec.exists(top, change)


def open_changes(top: Path) -> list[tuple[str, int, int]]:
    """Changes with open tasks: name, tasks, tasks done."""
    found = [(f.name, f.total, f.complete, f.why) for f in openspec.find(top)]
    # One with a problem is listed too: better a loud error than silently another change.
    rows = [(name, total, done) for name, total, done, why in found if total > done or why]
    if not found and tasks_md.recognises(top, "tasks"):
        book = TasksMd(top, "tasks").load()
        rows.append(("tasks", book.total, book.complete))
    return rows


def all_changes(top: Path) -> list[str]:
    """Names of every change, for suggestions."""
    try:
        return [found.name for found in openspec.find(top)]
    except StoriesError:
        return []
