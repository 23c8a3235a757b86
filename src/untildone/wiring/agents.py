"""Agent programs by name."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from untildone.domain.agents.agent import Intent
from untildone.domain.costs.budget import kind
from untildone.domain.errors import AgentMissing, UserError
from untildone.domain.run.run import Plan, Run, label
from untildone.ports import AgentProgram
from untildone.settings.settings import AGENTS, PROGRAMS

if TYPE_CHECKING:
    from untildone.adapters.agents.program import KnownProgram


def agent_program(name: str, agent_cmd: str, script: str, top: Path) -> AgentProgram:
    """The agent of this name."""
    match name:
        case _ if name in PROGRAMS:
            return known_program(name)
        case "command":
            from untildone.adapters.agents.command import CommandProgram

            return CommandProgram(agent_cmd)
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


def agent_programs(run: Run, top: Path) -> dict[str, AgentProgram]:
    """The programs that a run may call, by name."""
    plan = run.plan
    # A stand-in may be left from before a `resume` that named other agents.
    stand_ins = (lane.stand_in.agent for lane in run.lanes if lane.stand_in)
    names = dict.fromkeys((*plan.agents, *stand_ins))
    return {name: agent_program(name, plan.agent_cmd, plan.script, top) for name in names}


def known_program(name: str) -> "KnownProgram":
    """The program of this name: its spec is in the module of the same name, with `_` for `-`."""
    from untildone.adapters.agents.program import KnownProgram

    module_name = name.replace("-", "_")
    module = import_module(f"untildone.adapters.agents.{module_name}")
    return KnownProgram(getattr(module, module_name.upper()))


def leftover_files(plan: Plan) -> tuple[str, ...]:
    """Patterns of the files that the plan's agents leave in a worktree."""
    programs = (known_program(name) for name in plan.agents if name in PROGRAMS)
    return tuple(pattern for found in programs for pattern in found.spec.leftover_files)


def check_agents(plan: Plan, top: Path) -> None:
    """Every agent that the plan may call can be started, as it is to be called."""
    usual = "--agents" if plan.ladder else "--agent"
    own = {agent for agent, _ in plan.rungs}
    for name in plan.agents:
        flag = usual if name in own else "--fallback"
        agent = agent_program(name, plan.agent_cmd, plan.script, top)
        try:
            agent.check()
        except AgentMissing as missing:
            others = [n for n in installed() if n not in plan.agents]
            take = ", ".join(f"`{flag} {other}`" for other in others)
            found = f"Choose what is installed: {take}. " if take else ""
            raise AgentMissing(missing.message, hint=f"{found}{missing.hint}") from missing
        agent.invocation(Intent("", "", "", permissions=plan.permissions))
    _refuse_unpriced(plan)


def _refuse_unpriced(plan: Plan) -> None:
    """A budget of money is kept only for calls whose cost somebody tells."""
    money = next((budget for budget in plan.budgets if kind(budget.name) == "cost"), None)
    if money is None:
        return
    for name, model in (*plan.rungs, plan.stand_in):
        if name and not _is_priced(name, model):
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
