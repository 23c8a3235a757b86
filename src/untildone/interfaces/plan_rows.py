"""A plan as rows of label and text, made from its fields: a new one is shown without more code."""

from collections.abc import Iterator

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from untildone.domain.costs.budget import Budget
from untildone.domain.run.plan import Plan

# Shown elsewhere, or of no use to a person.
HIDDEN = {
    *("change_id", "run_id", "task", "plain", "configured_max", "contained", "limits"),
    *("terms", "origins", "runner_settings"),
}
# Shown also where nothing was chosen.
ALWAYS = {
    "agent": "",
    "model": "the agent's own",
    "verify": "none: a story counts by the agent's word alone",
    "checkpoint": "",
    "on_complete": "ask at a terminal, otherwise keep",
    "permissions": "",
    "sandbox": "",
    "source": "none: the plain loop",
    "done": "",
}
LABELS = {
    "done": "done by",
    "verify": "checks",
    "on_complete": "at the end",
    "agent_cmd": "agent command",
    "verify_start": "checks tried first",
    "verify_found": "checks found, not used",
    "story_verify": "checks of one story",
    "regenerate": "makes generated files",
    "usage_cmd": "usage command",
    "timeout_min": "limit of a call",
    "verify_timeout_min": "limit of a check",
    "idle_timeout_min": "idle timeout",
    "max_file_mb": "largest new file",
    "max_retries": "retries per story",
}
UNITS = {"_min": "min", "_mb": "MiB", "_usd": "USD", "_s": "s"}


def plan_rows(plan: Plan) -> list[tuple[str, str]]:
    """What was decided: choices first, then the limits."""
    unused = set() if "command" in plan.agents else {"agent_cmd"}
    return [*_rows(plan, HIDDEN | unused), *_rows(plan.limits, HIDDEN, all_of_them=True)]


def _rows(
    value: Struct, hidden: set[str], *, all_of_them: bool = False
) -> Iterator[tuple[str, str]]:
    for field in fields(value):
        name, content = field.name, getattr(value, field.name)
        usual = content == _default(field)
        told = all_of_them and content != 0
        if name in hidden or (usual and not told and name not in ALWAYS):
            continue
        unit = next((u for end, u in UNITS.items() if name.endswith(end)), "")
        yield _label(name), f"{text_of(content) or ALWAYS.get(name, 'none')} {unit}".rstrip()


def text_of(value: object) -> str:
    """Any value of a plan for a person; several things are a line each."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case dict():
            return "\n".join(f"{key}: {text_of(item)}" for key, item in value.items())
        case tuple() | list() | frozenset():
            return "\n".join(map(text_of, value))
        case Budget():
            return value.written
        case Struct():
            return _struct_text(value)
        case _:
            return str(value)


def _struct_text(value: Struct) -> str:
    known = ((field.name, getattr(value, field.name)) for field in fields(value))
    return ", ".join(f"{_label(n)} {text_of(v)}" for n, v in known if v not in (None, "", ()))


def _label(name: str) -> str:
    return LABELS.get(name, name.replace("_", " "))


def _default(field: FieldInfo) -> object:
    made = field.default_factory
    return made() if callable(made) and made is not NODEFAULT else field.default
