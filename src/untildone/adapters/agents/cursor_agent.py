"""Cursor's agent, called without a terminal: its command line and its stream-json.

Written from its documentation: the program could not be installed where it could be tested.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from untildone.adapters.agents.program import (
    ENDS,
    GRANTS,
    MODEL,
    OUTPUT,
    PLACE,
    SESSION,
    AgentSpec,
    Grant,
    HomePath,
    Login,
)
from untildone.adapters.agents.reading.error_kinds import classify_error
from untildone.adapters.agents.reading.event_reader import first_line, tool
from untildone.adapters.agents.reading.json_lines import string, table
from untildone.adapters.agents.reading.stream_json import StreamReader
from untildone.domain.agents.agent import Notice, Permissions, Reading

_CALL = "ToolCall"


class CursorReader(StreamReader):
    """Claude's stream-json but for the tools; a failure is told on standard error alone."""

    def _on_event(self, event: Mapping[str, object]) -> list[Notice]:
        if event.get("type") != "tool_call":
            return super()._on_event(event)
        self.over = False
        calls = table(event.get("tool_call")) if event.get("subtype") == "started" else {}
        # The key names the tool: {"shellToolCall": {"args": {…}}}
        return [
            tool(string(name).removesuffix(_CALL), table(call).get("args"))
            for name, call in calls.items()
            if name.endswith(_CALL)
        ]

    def _reading(self, stderr_tail: bytes) -> Reading:
        reading = super()._reading(stderr_tail)
        said = first_line(stderr_tail) if self._result is None else ""
        if said:
            trouble = classify_error(said, None, self._intent.asked)
            reading = replace(reading, error=said, trouble=trouble)
        # It documents no tokens; numbers under other names would be read as none.
        return replace(reading, usage=reading.usage if _counted(reading) else None)


def _counted(reading: Reading) -> bool:
    return reading.usage is not None and reading.usage.total > 0


CURSOR_AGENT = AgentSpec(
    name="cursor-agent",
    install="curl https://cursor.com/install -fsS | bash",
    reader=CursorReader,
    args=("-p", "--output-format", "stream-json"),
    # Without it, changes are only proposed; nothing between the two is documented.
    grants={Permissions.FULL: Grant(("--force",))},
    resume=("--resume",),
    writable=(HomePath("~/.cursor"), HomePath("~/.config/cursor", "XDG_CONFIG_HOME", "cursor")),
    login=Login(
        "`cursor-agent login`, or set CURSOR_API_KEY",
        ("CURSOR_API_KEY",),
        (HomePath("~/.config/cursor/auth.json", "XDG_CONFIG_HOME", "cursor/auth.json"),),
    ),
    tells_tokens=False,
    untested=True,
    reserved={
        **dict.fromkeys(("--print", "--stream-partial-output", "--fullscreen"), OUTPUT),
        **dict.fromkeys(("-f", "--yolo", "--mode", "--plan"), GRANTS),
        "-m": MODEL,
        "--continue": SESSION,
        **dict.fromkeys(("--workspace", "-w", "--worktree", "-c", "--cloud"), PLACE),
        **dict.fromkeys(("-b", "--background"), PLACE),
        **dict.fromkeys(("--list-models", "-h", "--help", "-v", "--version"), ENDS),
    },
)
