"""`init`: a commented configuration file, and the JSON Schema of such files."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from untildone.commands.start.look_around import Around, look_around
from untildone.domain.errors import UserError
from untildone.domain.plain_text import count_of
from untildone.interfaces.output import echo
from untildone.plain_files import read_text
from untildone.settings.setting import Setting
from untildone.settings.settings import FILE_NAME, SETTINGS
from untildone.wiring.repository import here

HEADER = f"""\
## {FILE_NAME}: settings of untildone for this repository.
##
## Every key that is not set is commented out and shows its default. Take one `#` away to set it.
## Stronger than this file: environment variables (UNTILDONE_MAX_RETRIES=1) and flags of `run`.
"""
MOST_SHOWN = 5
TEXT = {"type": "string"}
TYPES: dict[type, dict[str, Any]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: TEXT,
    tuple: {"anyOf": [TEXT, {"type": "array", "items": TEXT}]},
}


@click.command()
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the file instead of writing it.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the file.")
@click.option("--yes", is_flag=True, help="Ask nothing.")
def init(
    force: bool,  # noqa: FBT001 - click
    to_stdout: bool,  # noqa: FBT001 - click
    schema: bool,  # noqa: FBT001 - click
    yes: bool,  # noqa: FBT001 - click
) -> int:
    """Look around, and write a configuration file with every key, its meaning and its default.

    Shows which agents, tests and stories there are. The new configuration is strict. If the usual
    agent is not installed and another is, that one is set; at a terminal you are asked which.
    """
    if schema or to_stdout:
        text = json.dumps(json_schema(), indent=2) + "\n" if schema else configuration()
        echo(text, nl=False)
        return 0
    repository = here()
    top = repository.place.top
    path = top / FILE_NAME
    if not force:
        _refuse_second_file(path, top / "pyproject.toml")
    around = look_around(repository)
    _show(around)
    agent = _agent(around, asks=sys.stdin.isatty() and sys.stdout.isatty() and not yes)
    try:
        path.write_text(configuration(agent), encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"The file cannot be written: {error}", hint="untildone init --stdout"
        ) from error
    echo(f"Written, with `strict` set and every other key explained, to: {path}")
    echo("Next: `untildone doctor` checks that everything is in place.")
    return 0


def _show(around: Around) -> None:
    """What was found, and what it means for a run."""
    echo(
        f"Agents:  {', '.join(around.agents) or 'none; `untildone agents` says how to install one'}"
    )
    checks = ", ".join(f"`{command}` ({by})" for command, by in around.checks.items())
    echo(f"Checks:  {checks or 'none found; set `verify` to the command that tests this project'}")
    for program in around.missing:
        echo(f"         `{program}` is not installed, so that this check cannot start")
    shown = ", ".join(f"{name} ({source})" for name, source in around.changes[:MOST_SHOWN])
    more = len(around.changes) - MOST_SHOWN
    more_changes = f" and {more} more" if more > 0 else ""
    echo(f"Stories: {shown or 'none; write `- [ ]` lines into tasks.md'}{more_changes}")
    protected = f"{count_of(around.tests, 'file')}, which no attempt may change (`protect_tests`)"
    echo(f"Tests:   {protected if around.tests else 'none yet'}")


def _agent(around: Around, *, asks: bool) -> str:
    """The agent to set: none if the usual one is there, or no other."""
    if not around.agents or SETTINGS["agent"].default in around.agents:
        return ""
    if not asks or len(around.agents) == 1:
        return around.agents[0]
    chosen: str = click.prompt(
        "Which agent", type=click.Choice(around.agents), default=around.agents[0], err=True
    )
    return chosen


def configuration(agent: str = "") -> str:
    """The file that `init` writes; one `#` less on every line sets every key to its default.

    A new configuration is strict: who begins has nothing yet that this could break.
    """
    rows = (
        f"## {meaning(setting)}\n#{setting.key} = {json.dumps(setting.default)}\n"
        for setting in SETTINGS.values()
    )
    text = "\n".join([HEADER, *rows]).replace("#strict = false", "strict = true")
    usual = json.dumps(SETTINGS["agent"].default)
    return text.replace(f"#agent = {usual}", f"agent = {json.dumps(agent)}") if agent else text


def meaning(setting: Setting) -> str:
    """What a key of the file is for, and what can be written there."""
    parts = [setting.help]
    if isinstance(setting.default, tuple):
        parts.append(f"A list of: {setting.metavar or 'TEXT'}.")
    if setting.words:
        parts.append(f"One of: {', '.join(setting.words)}.")
    if setting.unset and not isinstance(setting.default, bool):
        parts.append(f"{json.dumps(setting.default)}: {setting.unset}.")
    return " ".join(parts)


def json_schema() -> dict[str, Any]:
    """What a configuration file may hold."""
    keys = {key: _rule(setting) for key, setting in SETTINGS.items()}
    hyphens = {key.replace("_", "-"): {"$ref": f"#/properties/{key}"} for key in keys}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:untildone:configuration",
        "title": f"Settings of untildone ({FILE_NAME}, or [tool.untildone] in pyproject.toml)",
        "type": "object",
        "additionalProperties": False,
        "properties": hyphens | keys,
    }


def _rule(setting: Setting) -> dict[str, Any]:
    rule = dict(TYPES[type(setting.default)])
    if setting.table:
        table = {"type": "object", "additionalProperties": TYPES[tuple]}
        rule["anyOf"] = [*rule["anyOf"], table]
    if setting.tables:
        return {"description": meaning(setting), "default": setting.default} | _tables(setting)
    if setting.amount:
        rule = {"type": [rule["type"], "string"]}
    if setting.choices:
        rule["enum"] = list(setting.choices)
    if setting.least is not None:
        rule["minimum"] = setting.least
    if setting.above is not None:
        rule["exclusiveMinimum"] = setting.above
    if setting.most is not None:
        rule["maximum"] = setting.most
    return {"description": meaning(setting), "default": setting.default} | rule


def _tables(setting: Setting) -> dict[str, Any]:
    """A word, or a table with a table for each word."""
    word = {"type": "string", "enum": list(setting.choices)}
    env = {"type": "object", "additionalProperties": TEXT}
    each = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"args": TYPES[tuple], "env": env},
    }
    known = {"name": word} | dict.fromkeys(setting.choices, each)
    table = {"type": "object", "additionalProperties": False, "properties": known}
    return {"anyOf": [word, table]}


def _refuse_second_file(path: Path, pyproject: Path) -> None:
    if os.path.lexists(path):
        raise UserError(
            f"The file exists already: {path}",
            state="Nothing was changed.",
            hint="`untildone init --force` replaces it, `untildone init --stdout` prints it",
        )
    if pyproject.is_file() and "[tool.untildone" in read_text(pyproject, errors="replace"):
        raise UserError(
            f"The table [tool.untildone] of pyproject.toml would no longer count beside: {path}",
            state="Nothing was changed.",
            hint="`untildone init --stdout` prints the keys, `untildone init --force` writes them",
        )
