"""`init`: a commented configuration file, and the JSON Schema of such files."""

import json
import os
from pathlib import Path
from typing import Any

import click

from untildone.domain.errors import UserError
from untildone.interfaces.output import echo
from untildone.plain_files import read_text
from untildone.settings.setting import Setting
from untildone.settings.settings import FILE_NAME, SETTINGS
from untildone.wiring.repository import here

HEADER = f"""\
## {FILE_NAME}: settings of untildone for this repository.
##
## Every key but `strict` is commented out and shows its default. Take one `#` away to set it.
## Stronger than this file: environment variables (UNTILDONE_MAX_RETRIES=1) and flags of `run`.
"""
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
def init(force: bool, to_stdout: bool, schema: bool) -> int:  # noqa: FBT001 - click
    """Write a configuration file with every key, its meaning and its default."""
    if schema or to_stdout:
        text = json.dumps(json_schema(), indent=2) + "\n" if schema else configuration()
        echo(text, nl=False)
        return 0
    top = here().place.top
    path = top / FILE_NAME
    if not force:
        _refuse_second_file(path, top / "pyproject.toml")
    try:
        path.write_text(configuration(), encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"The file cannot be written: {error}", hint="untildone init --stdout"
        ) from error
    echo(f"Every key is there with its default, commented out but for `strict`, in: {path}")
    echo("Next: `untildone doctor` checks that everything is in place.")
    return 0


def configuration() -> str:
    """The file that `init` writes; one `#` less on every line sets every key to its default.

    A new configuration is strict: who begins has nothing yet that this could break.
    """
    rows = (
        f"## {meaning(setting)}\n#{setting.key} = {json.dumps(setting.default)}\n"
        for setting in SETTINGS.values()
    )
    return "\n".join([HEADER, *rows]).replace("#strict = false", "strict = true")


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
