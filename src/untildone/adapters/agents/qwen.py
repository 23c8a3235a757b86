"""Qwen Code, called without a terminal: its command line, and where its stream-json differs."""

from collections.abc import Mapping

from untildone.adapters.agents.program import (
    ENDS,
    GRANTS,
    MODEL,
    OUTPUT,
    PLACE,
    PROMPT,
    SESSION,
    AgentSpec,
    Grant,
    HomePath,
    Login,
)
from untildone.adapters.agents.reading.conversation import call_share, totals_so_far
from untildone.adapters.agents.reading.error_kinds import service_error
from untildone.adapters.agents.reading.json_lines import count, table
from untildone.adapters.agents.reading.stream_json import StreamReader
from untildone.domain.agents.agent import Intent, Kind, Permissions, Session, Trouble, Usage

# At a limit of its own it just ends.
_EXITED = {
    53: Trouble(Kind.BUDGET, "the agent's own turns are used up"),
    55: Trouble(Kind.BUDGET, "the agent's own time is used up"),
}


class QwenReader(StreamReader):
    """Reads Claude's stream-json as Qwen writes it: numbers are of the whole conversation."""

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent)
        self._totals: Usage | None = None

    def _retried(self, event: Mapping[str, object]) -> tuple[object, str]:
        # Only a retry that waits for a limit says how long.
        waits = event.get("subtype") == "retry" and table(event.get("data")).get("delayMs")
        return (None, "rate_limit") if waits else (self._status, self._called)

    def _count(self, result: Mapping[str, object]) -> Usage | None:
        usage = result.get("usage")
        if not isinstance(usage, dict):
            return None
        read = count(usage.get("cache_read_input_tokens"))
        self._totals = Usage(
            input_tokens=max(count(usage.get("input_tokens")) - read, 0),
            output_tokens=count(usage.get("output_tokens")),
            cache_read_tokens=read,
        )
        return call_share(self._totals, self._intent.resume)

    def _session(self) -> Session | None:
        totals = totals_so_far(self._totals, self._intent.resume)
        return Session(self._session_id, totals) if self._session_id else None

    def _error(self, stderr_tail: bytes) -> str:
        return service_error(super()._error(stderr_tail))[0]

    def _trouble(self, error: str) -> Trouble | None:
        ended = _EXITED.get(self._exit_code or 0) if self._result is None else None
        return ended or super()._trouble(error)


QWEN = AgentSpec(
    name="qwen",
    install="npm install -g @qwen-code/qwen-code",
    reader=QwenReader,
    args=("--output-format", "stream-json", "--include-partial-messages"),
    grants={
        Permissions.FULL: Grant(("--approval-mode", "yolo")),
        Permissions.EDITS: Grant(
            ("--approval-mode", "auto-edit"),
            holds="It edits files, and may write them anywhere; a command waits for a yes that "
            "nobody gives, and is denied.",
        ),
    },
    model=("-m",),
    resume=("--resume",),
    env={
        "QWEN_CODE_NO_RELAUNCH": "true",
        "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
        "QWEN_TELEMETRY_ENABLED": "false",
        "QWEN_USAGE_STATISTICS_ENABLED": "false",
    },
    unset=(
        "QWEN_CODE",
        "QWEN_CODE_CLI",
        "QWEN_CODE_IDE_SERVER_PORT",
        "QWEN_CODE_IDE_WORKSPACE_PATH",
        "QWEN_CODE_LAUNCHER_PID",
        "QWEN_CODE_PROJECT_DIR",
        "QWEN_CODE_SESSION_ID",
    ),
    writable=(HomePath("~/.qwen", "QWEN_HOME"),),
    login=Login(
        "start `qwen` and choose a login, or set OPENAI_API_KEY",
        ("OPENAI_API_KEY", "DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY"),
        (HomePath("~/.qwen/oauth_creds.json", "QWEN_HOME", "oauth_creds.json"),),
        (
            (HomePath("~/.qwen/settings.json", "QWEN_HOME", "settings.json"), "modelProviders"),
            (HomePath("~/.qwen/settings.json", "QWEN_HOME", "settings.json"), "apiKey"),
            (HomePath("~/.qwen/.env", "QWEN_HOME", ".env"), "API_KEY"),
        ),
    ),
    reserved={
        **dict.fromkeys(("-o", "--input-format", "--acp", "--experimental-acp"), OUTPUT),
        **dict.fromkeys(("--json-fd", "--json-file", "--json-schema", "--screen-reader"), OUTPUT),
        **dict.fromkeys(("-p", "--prompt", "-i", "--prompt-interactive"), PROMPT),
        **dict.fromkeys(("--system-prompt", "--input-file"), PROMPT),
        **dict.fromkeys(("-y", "--yolo"), GRANTS),
        **dict.fromkeys(("-r", "-c", "--continue", "--session-id", "--fork-session"), SESSION),
        # Without it nothing is there to go on with, and no tokens to be read.
        **dict.fromkeys(("--chat-recording", "--no-chat-recording"), SESSION),
        "--worktree": PLACE,
        "--model": MODEL,
        **dict.fromkeys(("-l", "--list-extensions"), ENDS),
        **dict.fromkeys(("-h", "--help", "-v", "--version"), ENDS),
    },
    widening=("--allowed-tools", "--include-directories", "--add-dir"),
)
