"""Typed settings: defaults < user file < repository file < environment < flags."""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from untildone.domain.costs.budget import read
from untildone.domain.errors import UserError

PREFIX = "UNTILDONE_"
# Set by the loop for its agents; a loop started inside an agent must not trip over them.
RESERVED = {
    "UNTILDONE_RUN_ID",
    "UNTILDONE_STORY_ID",
    "UNTILDONE_ATTEMPT",
    "UNTILDONE_STATE_FILE",
    "UNTILDONE_TASKS_FILE",
    "UNTILDONE_LOOP",
}
FILE_NAME = "untildone.toml"
INIT_HINT = "`untildone init` writes a file with every key and its meaning"
AGENTS_HINT = "`untildone agents` lists what is installed here"


def _doc(text: str, default: Any = None, **more: Any) -> Any:  # noqa: ANN401 - dataclass field
    return field(default=default, metadata={"doc": text, **more})


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be configured; each field's `doc` is what `init` writes beside it."""

    source: str = _doc("Story source: auto, or the name of one.", "auto")
    source_file: str = _doc("The file that holds the stories, if it is none of the usual.", "")
    granularity: str = _doc("What one story is: a group of tasks, a task, the change.", "group")
    archive: bool = _doc("Archive an OpenSpec change when all its stories are done.", False)  # noqa: FBT003 - a default
    agent: str = _doc("Agent: a program by its name, command or scripted.", "claude")
    agents: tuple[str, ...] = _doc("Ladder of AGENT[:MODEL] that a stuck story climbs.", ())
    agent_cmd: str = _doc("Any program as agent: prompt on its standard input, text out.", "")
    model: str = _doc("Model, passed on to the agent.", "")
    permissions: str = _doc("What the agent may do unasked: full, or edits of files.", "full")
    fallback: str = _doc("AGENT or AGENT:MODEL that steps in instead of waiting for a limit.", "")
    resume_session: bool = _doc("A retry goes on with the agent's own conversation.", False)  # noqa: FBT003 - a default
    script: str = _doc("Script file of the scripted agent.", "")
    max_retries: int = _doc("Retries after the first attempt of a story.", 3, least=0)
    on_stuck: str = _doc("Story that fails the same way three times: retry or park.", "retry")
    max_iterations: int = _doc("Cap over the whole run; 0: from the number of stories.", 0, least=0)
    done: str = _doc("Done criterion: tasks, manual, promise; empty: found out.", "")
    on_fail: str = _doc("A story whose retries are used up: stop, skip it, or ask.", "stop")
    stall_threshold: int = _doc("Plain loop: iterations without a commit.", 2, least=1)
    timeout: float = _doc("Hard limit of one iteration, in minutes.", 45.0, above=0)
    idle_timeout: float = _doc("Limit of silence in one iteration, in minutes.", 15.0, above=0)
    verify: tuple[str, ...] = _doc("Checks after COMPLETE: CMD, warn: CMD, off: CMD or auto.", ())
    story_verify: tuple[str, ...] = _doc("Checks of single stories: ID=CMD, or a table.", ())
    protect: tuple[str, ...] = _doc("Files that no attempt may change, as globs.", ())
    protect_checks: bool = _doc("Protect the files that checks run.", True)  # noqa: FBT003 - a default
    clean_room: bool = _doc("Run the checks in a fresh checkout of what is committed.", False)  # noqa: FBT003 - a default
    evidence: bool = _doc("A story without a change outside the task list fails.", False)  # noqa: FBT003 - a default
    allow_empty_story: tuple[str, ...] = _doc("Stories that need no change; *: all.", ())
    verify_start: bool = _doc("Try the checks before the first story and say which fail.", True)  # noqa: FBT003 - a default
    baseline: bool = _doc("Let failures through that were there before the run.", False)  # noqa: FBT003 - a default
    verify_timeout: float = _doc("Limit of one check, in minutes; 0: as `timeout`.", 0.0, least=0)
    budget: tuple[str, ...] = _doc(
        "Pause when this is used up: NAME=AMOUNT of tokens, cost, time, iterations; "
        "with story- before it, of each story.",
        (),
        adds=True,
    )
    checkpoint: str = _doc("Where the work happens: branch, stash or worktree.", "branch")
    on_complete: str = _doc("Completion choice: ask, cleanup, keep; empty: ask at a terminal.", "")
    sandbox: str = _doc("Bubblewrap around agents and checks: auto, bwrap, off.", "off")
    sandbox_network: bool = _doc("Whether there is a network inside the sandbox.", True)  # noqa: FBT003 - a default
    sandbox_writable: tuple[str, ...] = _doc("More paths that may be written inside it.", ())
    max_file_mb: float = _doc("Largest new file that git takes, in MiB.", 50.0, above=0)
    usage_cmd: str = _doc("Command that prints tokens used since a time.", "")
    prompt_template: str = _doc("File with your own prompt template.", "")
    repeat_limit: int = _doc("Times of one line in a row that end a call; 0: never.", 500, least=0)
    learnings: str = _doc("File that keeps learnings; off: none; empty: in the git folder.", "")
    keep_days: int = _doc("How long `gc` keeps what ended runs have stored, in days.", 30, least=0)


# The agents that are programs: the spec of each is in the module of the same name.
PROGRAMS = ("claude", "codex", "gemini", "qwen", "goose", "pi", "opencode", "aider")

# The story sources in the order in which they are asked, each with the paths that hint at it: its
# ways are in the module called like it, which is only loaded where one of the paths exists.
SOURCES: dict[str, tuple[str, ...]] = {
    "openspec": ("openspec/changes",),
    "tasks-md": ("tasks.md",),
    "speckit": ("specs",),
    "kiro": (".kiro/specs",),
    "prd-json": (
        *("prd.json", "scripts/ralph/prd.json", ".ralph/prd.json", "ralph/prd.json"),
        *("tasks", "feature_list.json", ".agents/tasks"),
    ),
    "taskmaster": (".taskmaster/tasks/tasks.json", "tasks/tasks.json"),
    "backlog-md": ("backlog/tasks", ".backlog/tasks"),
    "beads": (".beads",),
    "ralphy": ("tasks.yaml", "tasks.yml", ".ralphy/tasks.yaml", "prd.yaml"),
    "bmad": ("_bmad-output/implementation-artifacts", "docs/sprint-artifacts", "docs/stories"),
    "markdown": (
        *("PRD.md", "TODO.md", "IMPLEMENTATION_PLAN.md"),
        *("fix_plan.md", "@fix_plan.md", ".ralph"),
    ),
    "github": (),
}

CHOICES = {
    "agent": (*PROGRAMS, "command", "scripted"),
    "granularity": ("group", "task", "change"),
    "done": ("", "tasks", "manual", "promise"),
    "checkpoint": ("branch", "stash", "worktree"),
    "on_fail": ("stop", "skip", "ask"),
    "on_complete": ("", "ask", "cleanup", "keep"),
    "permissions": ("full", "edits"),
    "sandbox": ("auto", "bwrap", "off"),
    "on_stuck": ("retry", "park"),
}
# An empty variable of a script must not mean another agent, or a check that never runs.
COMMANDS = ("agent_cmd", "verify", "story_verify")
# In a file this is no such variable but the default as `init` writes it: as if it were left out.
NO_COMMAND = ("agent_cmd", "")
# Lists of KEY=VALUE that may also be written as a table.
TABLES = ("story_verify",)
FIELDS = {f.name: f for f in fields(Settings)}


def load(top: Path | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """Settings from all layers; the first wrong key or type is an error that names its place."""
    values: dict[str, object] = {}
    for path, table in _files(top, environ):
        text, data = _read(path, table)
        told = [pair for pair in data.items() if pair != NO_COMMAND]
        layer = {key: _in_file(key, value, path, text) for key, value in told}
        _lay(values, layer, str(path))
    layer = {}
    for name, value in environ.items():
        if name.startswith(PREFIX) and name not in RESERVED:
            key = name.removeprefix(PREFIX).lower()
            if key not in FIELDS:
                raise _unknown(key, f"environment variable {name}")
            layer[key] = _typed(key, _from_text(key, value, name), f"environment variable {name}")
    _lay(values, layer, "the environment")
    layer = {k: _typed(k, v, f"--{k.replace('_', '-')}") for k, v in flags.items() if v is not None}
    _lay(values, layer, "the flags")
    return Settings(**values)  # type: ignore[arg-type]  # every value went through _typed


def _lay(values: dict[str, object], layer: dict[str, object], where: str) -> None:
    """Put a layer over the others: who names an agent means none of a layer below."""
    ladder = layer.get("agents")
    if isinstance(ladder, tuple) and ladder:
        first = ladder[0].partition(":")[0]
        if layer.get("agent", first) != first:
            raise _wrong(where, f"`agent` is not the first of `agents`, which is {first}: name one")
        layer = layer | {"agent": first}
    elif "agent_cmd" in layer:
        layer = layer | {"agents": (), "agent": "command"}
    elif "agent" in layer:
        layer = layer | {"agents": ()}
    for key, value in layer.items():
        earlier = values.get(key)
        adds = FIELDS[key].metadata.get("adds") and isinstance(earlier, tuple)
        values[key] = (*earlier, *value) if adds else value  # type: ignore[misc]  # two tuples


def user_file(environ: Mapping[str, str]) -> Path:
    """The person's own configuration file."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "/")) / ".config")
    return Path(base) / "untildone" / "config.toml"


def _files(top: Path | None, environ: Mapping[str, str]) -> list[tuple[Path, str]]:
    found = [(user_file(environ), "")]
    if top:
        project = top / FILE_NAME
        found.append((project, "") if project.exists() else (top / "pyproject.toml", "tool"))
    return [(path, table) for path, table in found if path.exists()]


def _read(path: Path, table: str) -> tuple[str, dict[str, object]]:
    import tomllib  # noqa: PLC0415 - costs start-up time

    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"line (\d+)", str(error))
        raise _wrong(f"{path}:{at[1] if at else 1}", f"this is not valid TOML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(str(path), f"the file cannot be read: {error}") from error
    if table:
        data = _table(_table(data, "tool", path), "untildone", path)
    return text, {key.replace("-", "_"): value for key, value in data.items()}


def _table(data: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    value = data.get(name, {})
    if not isinstance(value, dict):
        raise _wrong(str(path), f"`{name}` must be a table, not {value!r}")
    return value


def _in_file(key: str, value: object, path: Path, text: str) -> object:
    try:
        return _typed(key, value, str(path))
    except UserError:
        return _typed(key, value, f"{path}:{_line(text, key)}")  # only now the line is needed


def _typed(key: str, value: object, where: str) -> object:
    if key not in FIELDS:
        raise _unknown(key, where)
    kind = type(FIELDS[key].default)
    if kind is tuple:
        return _listed(key, value, where)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind:
        raise _wrong(where, f"`{key}` must be {_TYPE_WORDS[kind]}, not {value!r}")
    if isinstance(value, str):
        _refuse_blank(key, (value,), where)
    least = FIELDS[key].metadata.get("least")
    if isinstance(value, int | float) and least is not None and value < least:
        raise _wrong(where, f"`{key}` must be at least {least}, not {value}")
    above = FIELDS[key].metadata.get("above")
    if isinstance(value, float) and above is not None and not above < value < math.inf:
        raise _wrong(where, f"`{key}` must be more than {above}, not {value}")
    if key in CHOICES and value not in CHOICES[key]:
        known = ", ".join(word for word in CHOICES[key] if word)
        what = f"`{key}` must be one of {known}, not {value!r}{_near(value, CHOICES[key])}"
        raise _wrong(where, what, AGENTS_HINT if key == "agent" else INIT_HINT)
    return value


def _listed(key: str, value: object, where: str) -> tuple[str, ...]:
    if isinstance(value, dict) and key in TABLES:
        value = _pairs(value)
    listed = (value,) if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(v, str) for v in listed):
        raise _wrong(where, f"`{key}` must be a text or a list of texts")
    if key == "budget":
        _check_budgets(tuple(listed), where)
    _refuse_blank(key, tuple(listed), where)
    return _rungs(listed, where) if key == "agents" else tuple(listed)


def _refuse_blank(key: str, texts: tuple[str, ...], where: str) -> None:
    if key not in COMMANDS:
        return
    from untildone.domain.checks.checks import parse  # noqa: PLC0415 - costs start-up time

    for text in texts:
        command = text.partition("=")[2] if key == "story_verify" else text
        if not parse(command).command.strip():
            raise _wrong(where, f"`{key}` has no command: {text!r}. Name one or leave it out")


def _pairs(table: dict[str, Any]) -> list[object]:
    """A table as KEY=VALUE texts; a value that is no text stays as it is, and is refused."""
    rows = ((k, v) for k, vs in table.items() for v in (vs if isinstance(vs, list) else [vs]))
    return [f"{key}={value}" if isinstance(value, str) else value for key, value in rows]


def _rungs(listed: "list[str] | tuple[str, ...]", where: str) -> tuple[str, ...]:
    """The agents of a ladder; several may stand in one text, with commas between them."""
    rungs = tuple(rung.strip() for text in listed for rung in text.split(","))
    for rung in rungs:
        name = rung.partition(":")[0]
        if name not in CHOICES["agent"]:
            what = f"`agents` has no agent called {name!r}{_near(name, CHOICES['agent'])}"
            raise _wrong(where, what, AGENTS_HINT)
    return rungs


def _check_budgets(texts: tuple[str, ...], where: str) -> None:
    try:
        read(texts)
    except ValueError as wrong:
        hint = 'Budgets are written like --budget tokens=2M or budget = ["cost=10", "time=8h"]'
        raise _wrong(where, str(wrong), hint) from None


_TYPE_WORDS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def _from_text(key: str, value: str, name: str) -> object:
    kind: type = type(FIELDS[key].default)
    try:
        if kind is bool:
            return _TRUTH[value.lower()]
        return kind(value) if kind in (int, float) else value
    except (KeyError, ValueError):
        what = f"`{key}` must be {_TYPE_WORDS[kind]}, not {value!r}"
        raise _wrong(f"environment variable {name}", what) from None


def _line(text: str, key: str) -> int:
    names = "|".join(re.escape(name) for name in (key, key.replace("_", "-")))
    pattern = re.compile(rf"^\s*\[?\"?({names})\"?\s*[=\].]")
    rows = text.split("\n")
    header = (n for n, row in enumerate(rows) if row.strip() == "[tool.untildone]")
    ours = next((n for n in header if _is_whole(rows[:n])), 0)
    found = (n for n, row in enumerate(rows[ours:], ours) if pattern.match(row))
    return next((n for n in found if _is_whole(rows[:n])), 0) + 1


def _is_whole(rows: list[str]) -> bool:
    """Whether something new begins after these lines: no text or list is open there."""
    import tomllib  # noqa: PLC0415 - costs start-up time

    try:
        tomllib.loads("\n".join(rows))
    except tomllib.TOMLDecodeError:
        return False
    return True


def _near(word: object, known: "tuple[str, ...] | list[str]") -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - costs start-up time

    close = get_close_matches(str(word), known, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def _unknown(key: str, where: str) -> UserError:
    return _wrong(where, f"unknown key `{key}`{_near(key, list(FIELDS))}")


def _wrong(where: str, what: str, hint: str = INIT_HINT) -> UserError:
    return UserError(
        f"Wrong configuration in {where}: {what}", state="Nothing was changed.", hint=hint
    )


def environment() -> Mapping[str, str]:
    """The environment that settings are read from."""
    return os.environ
