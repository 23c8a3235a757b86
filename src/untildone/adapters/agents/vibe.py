"""Mistral Vibe, called without a terminal: its command line, its stream of entries, its export."""

import re
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from untildone.adapters.agents.program import (
    ENDS,
    GRANTS,
    OUTPUT,
    PLACE,
    PROMPT,
    SESSION,
    AgentSpec,
    Grant,
    HomePath,
)
from untildone.adapters.agents.reading.error_kinds import SERVER_ERROR, classify_error
from untildone.adapters.agents.reading.event_reader import EventReader, error_text, tool
from untildone.adapters.agents.reading.json_lines import string, table, tables
from untildone.domain.agents.agent import (
    Intent,
    Invocation,
    Kind,
    Notice,
    Permissions,
    Reading,
    Session,
    Trouble,
)
from untildone.domain.regex import regex

_DENIED = 20
# Its stream has no last event. What it came to is in a file that it writes when it ends: the shell
# prints that after it, without the settings below, which may hold secrets.
_WITH_EXPORT = (
    'rm -rf "$0"; "$@" --output-dir "$0"; code=$?; '
    """sed -n '/^  "config":/{s/.*/"exported": true}/;H;x;s/\\n//g;p;q;};H' """
    '"$0/export.json" 2> /dev/null; rm -rf "$0"; exit $code'
)
# Its own limits, which a person may have set.
_LIMITS = {
    "turn_limit": "the agent's own turns are used up",
    "token_limit": "the agent's own tokens are used up",
    "price_limit": "the agent's own budget is used up",
    "deadline": "the agent's own time is used up",
}
# How httpx puts an error of the service: the words of the service come last.
_HTTP = regex(r"\w+ error '(\d{3} [^']*)' for url '[^']*'\n.*?(?:Status/\d{3}: (.*))?", re.S)
_BROKEN = regex(r"ended without a finish reason|malformed JSON")
_STATUS = {"invalid_api_key": 401}


class VibeReader(EventReader):
    """Reads whole entries; only an export that says `finished` is a success.

    The prompt is echoed as a message of the user. Tokens are in its records: the export leaves out
    those of some calls of the model.
    """

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent)
        self._session_id = ""
        self._denied: list[str] = []
        self._export: Mapping[str, object] = {}

    def _on_event(self, event: Mapping[str, object]) -> list[Notice]:
        if event.get("exported") is True and "outcome" in event:
            self._export, self.over = event, True
            return []
        self._session_id = self._session_id or string(event.get("sessionId"))
        # A sub-agent has a conversation of its own.
        if string(event.get("sessionId")) != self._session_id:
            return []
        match event.get("type"), event.get("role"):
            # An answer that broke off is told, too, and is asked for once more.
            case "message", "assistant" if _committed(event):
                texts = [string(part.get("text")) for part in tables(event.get("content"))]
                return self._add_text(string(event.get("id")), "".join(texts))
            case "effect", _:
                return [self._call(event)]
            case _:
                return []

    def _call(self, event: Mapping[str, object]) -> Notice:
        """A tool, told when it is over."""
        about = table(event.get("detail"))
        call = tool(string(about.get("toolName")).rpartition(".")[2], about.get("input"))
        failure = table(table(event.get("state")).get("error"))
        if failure.get("code") == "tool_denied" and len(self._denied) < _DENIED:
            self._denied.append(f"{call.tool} {call.detail}".strip())
        return call

    def _reading(self, stderr_tail: bytes) -> Reading:
        error, trouble = self._outcome(stderr_tail)
        return Reading(
            promise=self._messages.promise(),
            error=error,
            trouble=trouble,
            session=Session(self._session_id) if self._session_id else None,
            denied=tuple(self._denied),
        )

    def _outcome(self, stderr_tail: bytes) -> tuple[str, Trouble | None]:
        outcome, failure = string(self._export.get("outcome")), table(self._export.get("error"))
        if outcome in ("", "terminated"):
            return self._cut_short(stderr_tail), None
        if outcome == "finished" and not failure:
            return "", None
        message = string(failure.get("message"))
        if outcome in _LIMITS:
            return error_text(message, _LIMITS[outcome]), Trouble(Kind.BUDGET, _LIMITS[outcome])
        told = _HTTP.fullmatch(message)
        said = ": ".join(filter(None, told.groups())) if told else message
        status = int(told[1][:3]) if told else _STATUS.get(string(failure.get("code")))
        broken = Trouble(Kind.OVERLOADED, SERVER_ERROR) if _BROKEN.search(message) else None
        found = classify_error(said, status, self._intent.asked) if said else None
        return error_text(said, outcome), found or broken


def _committed(event: Mapping[str, object]) -> bool:
    return table(event.get("outcome")).get("type") == "committed"


def _adapt(intent: Intent, call: Invocation) -> Invocation:
    """A model is named by its environment; a shell adds what the call came to."""
    model = {"VIBE_ACTIVE_MODEL": intent.model} if intent.model else {}
    folder = str(Path(intent.scratch, "vibe-export"))
    argv = ("sh", "-c", _WITH_EXPORT, folder, *call.argv)
    return replace(call, argv=argv, env={**call.env, **model})


VIBE = AgentSpec(
    name="vibe",
    install="uv tool install mistral-vibe",
    reader=VibeReader,
    args=("-p", "--output", "streaming"),
    grants={
        # Else it would not read the AGENTS.md of the repository.
        Permissions.FULL: Grant(("--auto-approve", "--trust")),
        Permissions.EDITS: Grant(
            ("--agent", "accept-edits"),
            holds="It edits files of the worktree and runs commands that only look (`ls`, `cat`, "
            "`git diff`); other commands and files elsewhere are denied. It does not read the "
            "repository's AGENTS.md and `.vibe`, which would have to be trusted.",
        ),
    },
    model=(),
    resume=("--resume",),
    adapt=_adapt,
    env={"VIBE_ENABLE_TELEMETRY": "false", "VIBE_ENABLE_UPDATE_CHECKS": "false"},
    unset=("VIBE_APP_SERVER_BIN", "VIBE_CWD"),
    writable=(HomePath("~/.vibe", "VIBE_HOME"),),
    reserved={
        "--output-dir": OUTPUT,
        **dict.fromkeys(("--prompt", "--prompt-file"), PROMPT),
        **dict.fromkeys(("--workdir", "--worktree"), PLACE),
        **dict.fromkeys(("--yolo", "--smart-approve"), GRANTS),
        **dict.fromkeys(("-c", "--continue"), SESSION),
        **dict.fromkeys(("--setup", "--check-upgrade", "-h", "--help", "-v", "--version"), ENDS),
    },
    widening=("--add-dir", "--enabled-tools"),
)
