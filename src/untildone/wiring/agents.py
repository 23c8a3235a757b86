"""Agent programs by name."""

from collections.abc import Set
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from untildone.domain.agents.agent import Intent
from untildone.domain.costs.budget import kind, own
from untildone.domain.errors import AgentMissing, UserError
from untildone.domain.run.plan import Plan, label
from untildone.domain.run.run import Run
from untildone.domain.stories.story import StoryKey
from untildone.ports import AgentProgram
from untildone.settings.checked_values import option
from untildone.settings.choices import AGENTS, PROGRAMS
from untildone.settings.settings import Settings

if TYPE_CHECKING:
    from untildone.adapters.agents.program import KnownProgram


class AgentOptions(Struct, frozen=True):
    """What the person gives to agents: each `NAME=ARG`, or `NAME=VARIABLE=VALUE`."""

    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()

    def args_of(self, name: str) -> tuple[str, ...]:
        return _of(name, self.args)

    def env_of(self, name: str) -> dict[str, str]:
        pairs = (text.partition("=") for text in _of(name, self.env))
        return {variable: value for variable, _, value in pairs}


def _of(name: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text[len(name) + 1 :] for text in texts if text.startswith(f"{name}="))


NO_OPTIONS = AgentOptions()


def agent_options_of(settings: Settings, agent: str = "") -> AgentOptions:
    """Those of the tables [agent.NAME], then those for the agent that is chosen."""
    told = [option(text) for text in settings.agent_options]
    args = [f"{name}={text}" for name, kind, text in told if kind == "args"]
    args += [f"{agent or settings.agent}={text}" for text in settings.agent_arg]
    env = [f"{name}={text}" for name, kind, text in told if kind == "env"]
    return AgentOptions(tuple(args), tuple(env))


def names_of(options: AgentOptions) -> tuple[str, ...]:
    """The variables without their values, each `NAME=VARIABLE`, for what is kept and shown."""
    return tuple(dict.fromkeys("=".join(text.split("=", 2)[:2]) for text in options.env))


def agent_program(
    name: str, agent_cmd: str, script: str, top: Path, options: AgentOptions = NO_OPTIONS
) -> AgentProgram:
    if name not in PROGRAMS and options.args_of(name):
        raise UserError(
            f"Arguments cannot be given to the agent `{name}`",
            state="Nothing was changed.",
            hint="Write them into `--agent-cmd`, or name a program with `--agent`.",
        )
    match name:
        case _ if name in PROGRAMS:
            return known_program(name, options)
        case "command":
            from untildone.adapters.agents.command import CommandProgram

            return CommandProgram(agent_cmd, options.env_of(name))
        case "scripted":
            if not script:
                raise UserError(
                    "The scripted agent needs a script",
                    hint="Set `script` in untildone.toml or pass `--script FILE`.",
                )
            from untildone.adapters.agents.scripted import ScriptedProgram

            return ScriptedProgram(str((top / script).resolve()))
        case _:
            from difflib import get_close_matches

            near = get_close_matches(name, AGENTS, n=1)
            hint = f"Did you mean `{near[0]}`? " if near else ""
            raise UserError(
                f"Unknown agent: {name}", hint=f"{hint}`untildone agents` lists the agents."
            )


def agent_programs(run: Run, top: Path, env: tuple[str, ...]) -> dict[str, AgentProgram]:
    """The programs that a run may call, by name; `env` is what the configuration sets for them."""
    plan = run.plan
    # A stand-in may be left from before a `resume` that named other agents.
    stand_ins = (lane.stand_in.agent for lane in run.lanes if lane.stand_in)
    names = dict.fromkeys((*plan.agents, *stand_ins))
    options = AgentOptions(plan.agent_args, env)
    return {name: agent_program(name, plan.agent_cmd, plan.script, top, options) for name in names}


def known_program(name: str, options: AgentOptions = NO_OPTIONS) -> "KnownProgram":
    """The program of this name: its spec is in the module of the same name, with `_` for `-`."""
    from untildone.adapters.agents.program import KnownProgram

    module_name = name.replace("-", "_")
    module = import_module(f"untildone.adapters.agents.{module_name}")
    spec = getattr(module, module_name.upper())
    return KnownProgram(spec, "", options.args_of(name), options.env_of(name))


def leftover_files(plan: Plan) -> tuple[str, ...]:
    """Patterns of the files that the plan's agents leave in a worktree."""
    programs = (known_program(name) for name in plan.agents if name in PROGRAMS)
    return tuple(pattern for found in programs for pattern in found.spec.leftover_files)


def with_holds(plan: Plan) -> Plan:
    """The plan with what its permissions really keep each of its agents from."""
    told = ((name, known_program(name).spec) for name in plan.agents if name in PROGRAMS)
    rows = [f"{name}: {spec.holds(plan.permissions)}" for name, spec in told]
    return replace(plan, permissions_hold=tuple(row for row in rows if not row.endswith(": ")))


def check_agents(
    plan: Plan, top: Path, env: tuple[str, ...], finished: Set[StoryKey] = frozenset()
) -> list[AgentMissing]:
    """Every agent that may still be called can be called as it is to be; which are not installed.

    An error says who names the agent, if that is a story.
    """
    missing: dict[str, AgentMissing] = {}
    for (name, model), where in _named(plan, finished).items():
        story = "" if where.startswith("--") else f"{where} names its agent: "
        try:
            agent = agent_program(
                name, plan.agent_cmd, plan.script, top, AgentOptions(plan.agent_args, env)
            )
            _check(plan, agent, model)
        except AgentMissing as error:
            hint = _instead(plan, "`Agent:" if story else f"`{where}") + error.hint
            missing.setdefault(name, AgentMissing(f"{story}{error.message}", hint=hint))
        except UserError as error:
            error.message = f"{story}{error.message}"
            raise
    return list(missing.values())


def _instead(plan: Plan, before: str) -> str:
    take = ", ".join(f"{before} {name}`" for name in installed() if name not in plan.agents)
    return f"Choose what is installed: {take}. " if take else ""


def _named(plan: Plan, finished: Set[StoryKey]) -> dict[tuple[str, str], str]:
    """Every agent with its model that may be called, and the flag or the story that names it."""
    found = dict.fromkeys(plan.rungs, "--agents" if plan.ladder else "--agent")
    for terms in plan.terms or ():
        if (terms.agent or terms.model) and terms.key not in finished:
            first = plan.rungs_from(terms.agent, terms.model)[0]
            found.setdefault(first, f"Story {terms.id} ({terms.at})")
    if plan.fallback:
        found.setdefault(plan.stand_in, "--fallback")
    return found


def _check(plan: Plan, agent: AgentProgram, model: str) -> None:
    if model.startswith("-"):
        raise UserError(
            f"`{model}` is no model but an option of the agent", state="Nothing was changed."
        )
    agent.invocation(Intent("", "", "", permissions=plan.permissions))
    _refuse_unpriced(plan, agent.name, model)
    agent.check()


def _refuse_unpriced(plan: Plan, name: str, model: str) -> None:
    """A budget of money is kept only for calls whose cost somebody tells."""
    lines = [(budget, terms) for terms in plan.terms or () for budget in own(terms.budget)]
    named = [(budget, None) for budget in plan.budgets]
    all_of_them = (row for row in (*named, *lines) if kind(row[0].name) == "cost")
    money, of = next(all_of_them, (None, None))
    if money and of and not _is_priced(name, model):
        raise UserError(
            f"What a call of {label(name, model)} costs is not known, so the line `Budget:` of "
            f"story {of.id} ({of.at}) could not be kept",
            state="Nothing was changed.",
            hint="Write `Budget: tokens=200k`, `time=45m` or `iterations=3` there.",
        )
    if money and not _is_priced(name, model):
        raise UserError(
            f"What a call of {label(name, model)} costs is not known, so `--budget "
            f"{money.written}` could not be kept",
            state="Nothing was changed.",
            hint=f"Take another budget: `--budget {money.name.replace('cost', 'tokens')}=2M`, "
            f"`time=8h` or `iterations=20`; `--budget {money.name}=off` takes this one away.",
        )


def _is_priced(name: str, model: str) -> bool:
    """Whether the agent tells its cost, or the price list knows it; records tell its own model."""
    if name not in PROGRAMS:
        return name == "scripted"
    from untildone.adapters.sessions.prices import load

    spec = known_program(name).spec
    known = not model or load().of(model) is not None
    return spec.tells_cost or (spec.tells_tokens and known)


def installed() -> list[str]:
    """The agents whose programs are on PATH."""
    return [name for name in PROGRAMS if known_program(name).path()]
