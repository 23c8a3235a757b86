"""The parts of `docs/` that are made from the program itself.

`python -m tests.docs.pages` writes them again; a test compares. In a page, what stands between
`<!-- made: NAME -->` and `<!-- end: NAME -->` is made; everything else is written by hand. The
words in the last column of a made table may be written by hand too and stay; those of a new
setting are its help. An agent without a section gets one.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner
from msgspec.structs import replace

from untildone.adapters.agents.program import HomePath
from untildone.domain.agents.agent import Intent, Invocation, Permissions, Session
from untildone.interfaces.cli.command_table import COMMANDS, GROUPS
from untildone.interfaces.cli.main import cli
from untildone.interfaces.cli.plan.init import meaning
from untildone.interfaces.topics import TOPICS
from untildone.settings.choices import PROGRAMS
from untildone.settings.settings import SETTINGS
from untildone.wiring.agents import known_program

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
HELP_WIDTH = 90
_BLOCK = re.compile(r"(<!-- made: ([\w-]+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)
_SESSION = re.compile(r"untildone-[0-9a-f]{12}")
_TYPES: dict[type, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    tuple: "list of texts",
    bool: "true or false",
}

Table = list[list[str]]


def help_text(command: str = "") -> str:
    """What `untildone COMMAND --help` prints, at a fixed width."""
    words = [*command.split(), "--help"]
    result = CliRunner().invoke(cli, words, prog_name="untildone", terminal_width=HELP_WIDTH)
    assert result.exit_code == 0, result.output
    return result.output


def all_help(block: str) -> str:
    """The help of every command, each under its own heading."""
    del block
    parts = [f"```text\n{help_text()}```\n"]
    parts += [
        f"## `untildone {name}`\n\n```text\n{help_text(name)}```\n" for name in all_commands()
    ]
    return "\n".join(parts)


def all_commands() -> list[str]:
    """Every command, and those below it."""
    return [inner for name in COMMANDS for inner in (name, *_commands_of(name))]


def _commands_of(name: str) -> list[str]:
    group = cli.get_command(click.Context(cli), name)
    return [f"{name} {inner}" for inner in getattr(group, "commands", ())]


def command_groups(block: str) -> str:
    """The names of all commands, by what one wants to do."""
    del block
    rows = [f"| {to.lower()} | {_words_apart(names)} |" for to, names in GROUPS.items()]
    return "\n".join(["| to | commands |", "| --- | --- |", *rows]) + "\n"


def _words_apart(names: Iterable[str]) -> str:
    return " ".join(f"`{name}`" for name in names)


def settings_table(block: str) -> str:
    """Every key with its type, default, flag and variable."""
    rows = [["key", "type", "default", "flag of `run`", "variable", "meaning"]]
    for key, setting in SETTINGS.items():
        words = [f"`{word}`" for word in setting.words]
        kind = ", ".join(words) if words else _TYPES[type(setting.default)]
        kind += {"minutes": " or duration", "MiB": " or size", "days": " or duration"}.get(
            setting.amount, ""
        )
        flag = setting.flags.partition("/")[0]
        rows.append(
            [
                f"`{key}`",
                kind,
                f"`{json.dumps(setting.default)}`",
                f"`{flag}`" if flag else "–",
                f"`{setting.variable}`",
                meaning(setting),
            ]
        )
    return _table(rows, block)


def schema() -> dict[str, Any]:
    """The JSON Schema of the state file, as `status --schema` prints it."""
    text = resources.files("untildone").joinpath("schemas/loop-state.v1.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


def state_table(block: str) -> str:
    """The fields at the top of the state file."""
    return _fields(schema(), block)


def iteration_table(block: str) -> str:
    """The fields of one finished iteration."""
    return _fields(schema()["properties"]["iterations"]["items"], block)


def agent_table(name: str, block: str) -> str:
    """How an agent is called, where it writes and what shows a login."""
    del block
    agent = known_program(name)
    spec, asked = agent.spec, Intent("", "WORKTREE", "SCRATCH")
    full = agent.invocation(asked)
    going_on = agent.invocation(replace(asked, model="MODEL", resume=Session("ID")))
    rows = [["install", f"`{spec.install}`"], ["call", _call(full)]]
    if Permissions.EDITS in spec.grants:
        edits = agent.invocation(replace(asked, permissions=Permissions.EDITS))
        added = {k: v for k, v in edits.env.items() if full.env.get(k) != v}
        rows.append(["with `--permissions edits`", _call(edits, added)])
        rows.append(["which means", spec.grants[Permissions.EDITS].holds])
    else:
        rows.append(["with `--permissions edits`", "refused"])
    rows.append(["with a model, going on with a conversation", _call(going_on)])
    env = [f"{k}={v}" for k, v in full.env.items() if k not in spec.root_env]
    rows.append(["environment", _words(env)])
    if spec.root_env:
        rows.append(["as root also", _words(f"{k}={v}" for k, v in spec.root_env.items())])
    rows.append(["taken out of its environment", _words(spec.unset)])
    rows.append(["its own files", ", ".join(map(_place, spec.writable))])
    if spec.login:
        rows.append(["log in", spec.login.how])
        told = [f"`{word}` in {_place(file)}" for file, word in spec.login.settings]
        seen = [*map(_words, [spec.login.variables]), *map(_place, spec.login.files), *told]
        rows.append(["a login is seen by", ", ".join(seen)])
    lines = [f"| {what} | {words or '–'} |" for what, words in rows]
    return "\n".join(["| | |", "| --- | --- |", *lines]) + "\n"


def _call(call: Invocation, env: Mapping[str, str] | None = None) -> str:
    given = [f"{name}={shlex.quote(value)}" for name, value in (env or {}).items()]
    words = _SESSION.sub("untildone-NAME", shlex.join(call.argv))
    return f"`{' '.join([*given, words])}`"


def _place(place: HomePath) -> str:
    moved = "/".join(filter(None, (f"${place.variable}", place.below)))
    return f"`{place.default}`" + (f" or `{moved}`" if place.variable else "")


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _fields(part: Mapping[str, Any], block: str) -> str:
    rows = [["field", "type", "required", "meaning"]]
    for name, rule in part["properties"].items():
        required = "yes" if name in part["required"] else "no"
        rows.append([f"`{name}`", _type(rule), required, ""])
    return _table(rows, block)


def _type(rule: Mapping[str, Any]) -> str:
    if "enum" in rule:
        return ", ".join(f"`{json.dumps(value)}`" for value in rule["enum"])
    if "const" in rule:
        return f"`{json.dumps(rule['const'])}`"
    kinds = rule["type"] if isinstance(rule["type"], list) else [rule["type"]]
    words = " or ".join(kinds)
    return f"{words} (ISO 8601)" if rule.get("format") == "date-time" else words


def _table(rows: Table, block: str) -> str:
    """A Markdown table; the last column keeps the words that it has in `block`."""
    known = {row[0]: row[-1] for row in _rows(block)}
    for row in rows[1:]:
        row[-1] = known.get(row[0], row[-1])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]]) + "\n"


def _rows(block: str) -> Table:
    lines = [line for line in block.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def topic_table(name: str, block: str) -> str:
    """What `untildone help TOPIC` has in rows."""
    del block
    topic = TOPICS[name]()
    rows = [[_code(term), words] for term, words in topic.rows]
    lines = [f"| {' | '.join(row)} |" for row in (list(topic.heads), *rows)]
    return "\n".join([lines[0], "| --- | --- |", *lines[1:]]) + "\n"


def _code(term: str) -> str:
    return f"`{term}`" if term.isidentifier() or term.startswith("<") else term


MAKERS: dict[str, Callable[[str], str]] = {
    "commands": command_groups,
    "help": all_help,
    "settings": settings_table,
    "state": state_table,
    "iteration": iteration_table,
    **{f"topic-{name}": partial(topic_table, name) for name in TOPICS},
    **{f"agent-{name}": partial(agent_table, name) for name in PROGRAMS},
}
AGENTS_PAGE = "agents.md"
PAGES = (
    AGENTS_PAGE,
    "cli.md",
    "configuration.md",
    "exit-codes.md",
    "state-file.md",
    "../README.md",
)


def made(text: str) -> str:
    """The page with its made parts as the program has them now."""
    return _BLOCK.sub(lambda m: m[1] + MAKERS[m[2]](m[0]) + m[3], text)


def with_new_agents(text: str) -> str:
    """The page of the agents with an empty section for each that has none yet."""
    for name in PROGRAMS:
        marks = f"<!-- made: agent-{name} -->\n<!-- end: agent-{name} -->"
        if f"<!-- made: agent-{name} -->" not in text:
            text = f"{text.rstrip()}\n\n## {name}\n\n{marks}\n"
    return text


if __name__ == "__main__":
    for name in PAGES:
        page = DOCS / name
        text = page.read_text(encoding="utf-8")
        text = with_new_agents(text) if name == AGENTS_PAGE else text
        page.write_text(made(text), encoding="utf-8")
