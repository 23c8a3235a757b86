"""Every command line that a run executes, and where it was written."""

from collections.abc import Iterator

from msgspec import Struct

from untildone.domain.checks.checks import configured_checks, in_force
from untildone.domain.run.plan import Plan

CHECK = "check"
UNKNOWN = "an earlier start of this run"


class RunCommand(Struct, frozen=True):
    """A command line: what it is for, of which story, and who has written it where."""

    command: str
    what: str
    origin: str
    story_id: str = ""


def run_commands(plan: Plan) -> tuple[RunCommand, ...]:
    """In the order in which they are shown, each once."""
    return tuple(dict.fromkeys(_all(plan)))


def is_checked(plan: Plan) -> bool:
    """Whether anything but the agent's word counts; asked at every step, of one plan mostly."""
    if not (_last and _last[0][0] is plan):
        _last[:] = [(plan, any(command.what == CHECK for command in _all(plan)))]
    return _last[0][1]


_last: list[tuple[Plan, bool]] = []


def regenerators(plan: Plan) -> dict[str, str]:
    """The command that makes a generated file, by its path or a pattern of paths."""
    pairs = (text.partition("=") for text in plan.regenerate)
    return {pattern.strip(): command.strip() for pattern, _, command in pairs}


def _all(plan: Plan) -> Iterator[RunCommand]:
    if "command" in plan.agents:
        yield RunCommand(plan.agent_cmd, "agent", _origin(plan, "agent_cmd"))
    if plan.usage_cmd:
        yield RunCommand(plan.usage_cmd, "usage", _origin(plan, "usage_cmd"))
    if plan.lanes > 1 and plan.lane_setup not in ("", "auto"):
        origin = _origin(plan, "lane_setup", plan.lane_setup)
        yield RunCommand(plan.lane_setup, "set-up of a lane", origin)
    for pattern, command in regenerators(plan).items() if plan.lanes > 1 else ():
        yield RunCommand(command, f"makes {pattern} anew", _origin(plan, "regenerate"))
    for entry in plan.notify:
        if entry.startswith("cmd:"):
            yield RunCommand(entry[4:], "notification", _origin(plan, "notify"))
    if plan.checks_count:
        yield from _checks(plan)


def _checks(plan: Plan) -> Iterator[RunCommand]:
    for check in in_force(plan.verify):
        yield RunCommand(check.written, CHECK, _origin(plan, "verify", check.command))
    for terms in plan.terms or ():
        for check in in_force((), terms.checks):
            yield RunCommand(check.written, CHECK, terms.place_of(check.written), terms.id)
    for story_id in dict.fromkeys(pair.partition("=")[0].strip() for pair in plan.story_verify):
        for check in in_force((), configured_checks(story_id, plan.story_verify)):
            yield RunCommand(check.written, CHECK, _origin(plan, "story_verify"), story_id)


def _origin(plan: Plan, setting: str, command: str = "") -> str:
    return plan.origins.get(command) or plan.origins.get(setting) or UNKNOWN
