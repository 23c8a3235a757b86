"""Finds among the tools that a request declares the one that writes a file or runs a command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from tests.modelserver.script import Action, Use, Write

Json = dict[str, Any]

WRITERS = ("write", "write_file", "create", "editor")
SHELLS = (
    "bash",
    "shell",
    "exec_command",
    "run_shell_command",
    "shell_command",
    "execute",
    "run_commands",
)
PATHS = ("file_path", "filepath", "path", "absolute_path")
TEXTS = ("content", "contents", "file_text", "text", "new_text")
COMMANDS = ("command", "cmd", "commands")
FILLINGS: Json = {"string": "work", "boolean": False, "integer": 1, "number": 1, "array": []}


class NoTool(Exception):
    """The request declares no tool for this action."""


@dataclass(frozen=True)
class Tool:
    """A declared tool: its name, the JSON schema of its arguments, and what it is grouped under."""

    name: str
    schema: Json
    group: str = ""


@dataclass(frozen=True)
class Call:
    """A tool call that the model makes."""

    id: str
    name: str
    arguments: Json
    group: str = ""


def call_for(action: Action, tools: tuple[Tool, ...], call_id: str) -> Call:
    """The call that carries out the action with the tools there are."""
    if isinstance(action, Use):
        used = _named(tools, (action.tool,))
        if used is None:
            raise NoTool(f"no {action.tool} among {[tool.name for tool in tools]}")
        return Call(call_id, used.name, dict(action.arguments), used.group)
    if isinstance(action, Write):
        if tool := _named(tools, WRITERS):
            wanted = {_key(tool, PATHS): action.path, _key(tool, TEXTS): action.text}
            return Call(call_id, tool.name, _filled(tool, wanted))
        command = f"printf %s {shlex.quote(action.text)} > {shlex.quote(action.path)}"
    else:
        command = action.command
    tool = _named(tools, SHELLS)
    if tool is None:
        raise NoTool(f"no tool for {action} among {[tool.name for tool in tools]}")
    key = _key(tool, COMMANDS)
    listed = _properties(tool).get(key, {}).get("type") == "array"
    words = [command] if key == "commands" else ["sh", "-c", command]
    value: Any = words if listed else command
    return Call(call_id, tool.name, _filled(tool, {key: value}))


def _named(tools: tuple[Tool, ...], names: tuple[str, ...]) -> Tool | None:
    by_name = {tool.name.lower().rpartition("__")[2]: tool for tool in tools}
    return next((by_name[name] for name in names if name in by_name), None)


def _properties(tool: Tool) -> Json:
    found: Json = tool.schema.get("properties", {})
    return found


def _key(tool: Tool, names: tuple[str, ...]) -> str:
    for key in _properties(tool):
        if key.lower() in names:
            return key
    raise NoTool(f"{tool.name} takes none of {names}: {list(_properties(tool))}")


def _filled(tool: Tool, given: Json) -> Json:
    """The arguments, with something for every other one that is required."""
    others = (key for key in tool.schema.get("required", ()) if key not in given)
    kinds = {key: str(_properties(tool).get(key, {}).get("type", "string")) for key in others}
    return given | {key: FILLINGS.get(kind.lower(), "work") for key, kind in kinds.items()}
