"""GitHub Copilot CLI, called without a terminal: its command line and its JSON events."""

from collections.abc import Mapping

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
    Login,
)
from untildone.adapters.agents.reading.error_kinds import SERVER_ERROR, classify_error
from untildone.adapters.agents.reading.event_reader import EventReader, error_text, first_line, tool
from untildone.adapters.agents.reading.json_lines import string, table
from untildone.domain.agents.agent import (
    AgentTool,
    Intent,
    Kind,
    Notice,
    Permissions,
    Reading,
    Session,
    Trouble,
)

_DENIED = 20
# What it calls an error, and the HTTP status that stands for it where it tells none.
_CALLED = {"authentication": 401, "quota": 402, "context_limit": 413, "rate_limit": 429}


class CopilotReader(EventReader):
    """Reads whole messages of the main agent; only a result with the exit code 0 is a success.

    The prompt is echoed as a message of the user. Tokens are in its records alone.
    """

    # Pieces of what comes again as a whole.
    _skipped = (
        b'{"type":"assistant.message_delta",',
        b'{"type":"assistant.reasoning_delta",',
        b'{"type":"assistant.tool_call_delta",',
        b'{"type":"tool.execution_partial_result",',
    )

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent)
        self._begun = False
        self._aborted = False
        self._error: Mapping[str, object] = {}
        self._failure: Mapping[str, object] = {}
        self._calls: dict[str, AgentTool] = {}
        self._denied: list[str] = []
        self._result: Mapping[str, object] = {}

    def _on_event(self, event: Mapping[str, object]) -> list[Notice]:
        data = table(event.get("data"))
        self._begun = True
        match event.get("type"):
            # A sub-agent's events name the call that started it.
            case "assistant.message" if not data.get("parentToolCallId"):
                self._error, self._failure, self.over = {}, {}, False
                return self._add_text(string(data.get("messageId")), string(data.get("content")))
            case "tool.execution_start" if not data.get("parentToolCallId"):
                return [self._call(data)]
            case "tool.execution_complete":
                self._answer(data)
            case "model.call_failure":
                self._failure = data
            case "session.error":
                self._error = data
            case "abort":
                self._aborted = True
            case "result":
                # After a signal it says the same as after a success.
                self._result, self.over = event, not self._aborted
            case _:
                pass
        return []

    def _call(self, data: Mapping[str, object]) -> AgentTool:
        call = tool(data.get("toolName"), data.get("arguments"))
        self._calls = {string(data.get("toolCallId")): call}
        return call

    def _answer(self, data: Mapping[str, object]) -> None:
        call = self._calls.get(string(data.get("toolCallId")))
        why = string(table(data.get("error")).get("code"))
        if why == "denied" and len(self._denied) < _DENIED:
            self._denied.append(f"{call.tool} {call.detail}".strip() if call else why)

    def _reading(self, stderr_tail: bytes) -> Reading:
        error, trouble = self._outcome(stderr_tail)
        session_id = string(self._result.get("sessionId"))
        return Reading(
            promise=self._messages.promise(),
            error=error,
            trouble=trouble,
            session=Session(session_id) if session_id else None,
            denied=tuple(self._denied),
        )

    def _outcome(self, stderr_tail: bytes) -> tuple[str, Trouble | None]:
        said = string(self._error.get("message"))
        if not self._begun:
            # Without a login it prints no event at all.
            error = first_line(stderr_tail)
            return error or self._cut_short(stderr_tail), classify_error(error)
        if self._aborted or not (self._result or said):
            return self._cut_short(stderr_tail), None
        code = self._result.get("exitCode")
        if code == 0 and not isinstance(code, bool) and not said:
            return "", None
        return error_text(said), self._trouble(said)

    def _trouble(self, said: str) -> Trouble | None:
        """By the status of the last try and what the service said to it."""
        status = self._error.get("statusCode") or self._failure.get("statusCode")
        called = _CALLED.get(string(self._error.get("errorType")))
        words = f"{said}\n{string(self._failure.get('errorMessage'))}"
        found = classify_error(words, status or called, self._intent.asked)
        broken = self._failure.get("failureKind") == "transport"
        return found or (Trouble(Kind.OVERLOADED, SERVER_ERROR) if broken else None)


COPILOT = AgentSpec(
    name="copilot",
    install="npm install -g @github/copilot",
    reader=CopilotReader,
    args=(
        *("--output-format", "json", "--no-ask-user"),
        *("--no-auto-update", "--disable-client-telemetry"),
    ),
    grants={
        Permissions.FULL: Grant(("--allow-all",)),
        Permissions.EDITS: Grant(
            ("--allow-tool=write", "--deny-tool=shell"),
            holds="Its model edits files of the worktree; every command is denied, and so is "
            "what else would ask: other folders, addresses, the tools of servers.",
        ),
    },
    # An id that is not known any more begins a new conversation under this id.
    resume=("--session-id",),
    unset=(
        *("COPILOT_AGENT_SESSION_ID", "COPILOT_ALLOW_ALL", "COPILOT_CLI"),
        *("COPILOT_CLI_BINARY_VERSION", "COPILOT_CLI_RESOLVED_DIST_DIR", "COPILOT_LOADER_PID"),
    ),
    writable=(
        HomePath("~/.copilot", "COPILOT_HOME"),
        HomePath("~/.cache/copilot", "COPILOT_CACHE_HOME"),
    ),
    login=Login(
        "`copilot login`, or set COPILOT_GITHUB_TOKEN",
        ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"),
        (HomePath("~/.config/gh/hosts.yml", "GH_CONFIG_DIR", "hosts.yml"),),
        ((HomePath("~/.copilot/config.json", "COPILOT_HOME", "config.json"), "loggedInUsers"),),
    ),
    reserved={
        **dict.fromkeys(("-s", "--silent", "--acp", "--stream", "--share", "--share-gist"), OUTPUT),
        **dict.fromkeys(("-p", "--prompt", "-i", "--interactive"), PROMPT),
        **dict.fromkeys(("-C", "--environment-host", "--environment-compute-id"), PLACE),
        **dict.fromkeys(("--remote", "--remote-export"), PLACE),
        **dict.fromkeys(("--yolo", "--allow-all-tools", "--mode", "--plan"), GRANTS),
        **dict.fromkeys(("--autopilot", "--assisted-approval"), GRANTS),
        **dict.fromkeys(("-r", "--resume", "--continue", "--connect", "-n", "--name"), SESSION),
        **dict.fromkeys(("-h", "--help", "-v", "--version"), ENDS),
    },
    widening=(
        *("--allow-tool", "--allow-all-paths", "--allow-all-urls", "--allow-url", "--add-dir"),
        *("--trust-folder", "--plugin-dir"),
    ),
)
