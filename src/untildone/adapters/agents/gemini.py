"""Gemini CLI, called without a terminal: its command line and its stream-json."""

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
from untildone.adapters.agents.reading.conversation import Fragments
from untildone.adapters.agents.reading.error_kinds import classify_error, service_error
from untildone.adapters.agents.reading.event_reader import EventReader, error_text, tool
from untildone.adapters.agents.reading.json_lines import count, string, table
from untildone.domain.agents.agent import (
    AgentTool,
    Intent,
    Kind,
    Notice,
    Permissions,
    Reading,
    Session,
    Trouble,
    Usage,
)

_DENIED = 20
_NOT_ALLOWED = "policy_violation"
_TURNS = Trouble(Kind.BUDGET, "the agent's own turns are used up")
_ENDED = {"FatalTurnLimitedError": _TURNS}
_EXITED = {41: Trouble(Kind.NOT_LOGGED_IN, "not logged in"), 53: _TURNS}


class GeminiReader(EventReader):
    """Joins the model's fragments between two tool calls; the prompt is echoed and not heard.

    An answer that breaks off is asked for again, and its fragments are repeated.
    """

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent)
        self._fragments = Fragments()
        self._message = 0
        self._session_id = ""
        self._model = ""
        self._complaint = ""
        self._calls: dict[str, AgentTool] = {}
        self._denied: list[str] = []
        self._result: Mapping[str, object] | None = None

    def _on_event(self, event: Mapping[str, object]) -> list[Notice]:
        match event.get("type"):
            case "message" if event.get("role") == "assistant":
                return self._piece(event)
            case "init":
                self._session_id = string(event.get("session_id"))
                self._model = string(event.get("model"))
            case "tool_use":
                return [*self._next_message(), self._call(event)]
            case "tool_result":
                self._answer(event)
            case "error" if event.get("severity") == "error":
                self._complaint = string(event.get("message"))
            case "result":
                self._result, self.over = event, True
                return self._fragments.flush()
            case _:
                pass
        return []

    def _piece(self, event: Mapping[str, object]) -> list[Notice]:
        before = [] if event.get("delta") is True else self._next_message()
        message_id, text = str(self._message), string(event.get("content"))
        self.over = False
        if text:
            self._messages.add(message_id, text)
        return [*before, *self._fragments.add(message_id, text)]

    def _next_message(self) -> list[Notice]:
        self._message, self.over = self._message + 1, False
        self._messages.add(str(self._message), "")
        return self._fragments.flush()

    def _call(self, event: Mapping[str, object]) -> AgentTool:
        call = tool(event.get("tool_name"), event.get("parameters"))
        self._calls = {string(event.get("tool_id")): call}
        return call

    def _answer(self, event: Mapping[str, object]) -> None:
        call = self._calls.get(string(event.get("tool_id")))
        why = string(table(event.get("error")).get("type"))
        if why == _NOT_ALLOWED and len(self._denied) < _DENIED:
            self._denied.append(f"{call.tool} {call.detail}".strip() if call else why)

    def _reading(self, stderr_tail: bytes) -> Reading:
        error, trouble = self._outcome(stderr_tail)
        return Reading(
            promise=self._messages.promise(),
            error=error,
            usage=_usage(table(self._result).get("stats"), self._model),
            trouble=trouble,
            session=Session(self._session_id) if self._session_id else None,
            denied=tuple(self._denied),
        )

    def _outcome(self, stderr_tail: bytes) -> tuple[str, Trouble | None]:
        if self._result is None:
            return self._cut_short(stderr_tail), _EXITED.get(self._exit_code or 0)
        if self._result.get("status") == "success":
            return "", None
        error = table(self._result.get("error"))
        said, status = service_error(string(error.get("message")) or self._complaint)
        ended = _ENDED.get(string(error.get("type")))
        return error_text(said), ended or classify_error(said, status, self._intent.asked)


def _usage(stats: object, asked_for: str) -> Usage | None:
    """The tokens of this call; thoughts are counted in the total only."""
    if not isinstance(stats, dict):
        return None
    given, answered = count(stats.get("input_tokens")), count(stats.get("output_tokens"))
    thoughts = max(count(stats.get("total_tokens")) - given - answered, 0)
    read = count(stats.get("cached"))
    models = table(stats.get("models"))
    tokens = {name: count(table(models[name]).get("total_tokens")) for name in models}
    most = max(tokens, key=tokens.__getitem__, default="")
    return Usage(
        input_tokens=max(given - read, 0),
        output_tokens=answered + thoughts,
        cache_read_tokens=read,
        reasoning_tokens=thoughts,
        model=most if tokens.get(most) else asked_for,
    )


GEMINI = AgentSpec(
    name="gemini",
    install="npm install -g @google/gemini-cli",
    reader=GeminiReader,
    args=("--output-format", "stream-json"),
    grants={
        Permissions.FULL: Grant(("--approval-mode", "yolo")),
        Permissions.EDITS: Grant(
            ("--approval-mode", "auto_edit"), holds="Its model is not offered a shell at all."
        ),
    },
    model=("-m",),
    resume=("--resume",),
    # It would start itself a second time for more memory, and the first would ignore signals.
    env={
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_TELEMETRY_ENABLED": "false",
    },
    unset=(
        "GEMINI_CLI",
        "GEMINI_CLI_IDE_AUTH_TOKEN",
        "GEMINI_CLI_IDE_PID",
        "GEMINI_CLI_IDE_SERVER_PORT",
        "GEMINI_CLI_IDE_WORKSPACE_PATH",
        "GEMINI_PTY_INFO",
    ),
    writable=(HomePath("~/.gemini", "GEMINI_CLI_HOME", ".gemini"),),
    login=Login(
        "start `gemini` and choose a login, or set GEMINI_API_KEY",
        (
            *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
            *("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"),
        ),
        (HomePath("~/.gemini/oauth_creds.json", "GEMINI_CLI_HOME", ".gemini/oauth_creds.json"),),
        ((HomePath("~/.gemini/.env", "GEMINI_CLI_HOME", ".gemini/.env"), "API_KEY"),),
    ),
    reserved={
        **dict.fromkeys(("-o", "--raw-output", "--screen-reader", "--acp"), OUTPUT),
        "--experimental-acp": OUTPUT,
        **dict.fromkeys(("-w", "--worktree"), PLACE),
        **dict.fromkeys(("-p", "--prompt", "-i", "--prompt-interactive"), PROMPT),
        **dict.fromkeys(("-y", "--yolo", "--policy", "--admin-policy"), GRANTS),
        **dict.fromkeys(("-r", "--session-id", "--session-file", "--delete-session"), SESSION),
        "--model": MODEL,
        **dict.fromkeys(("-l", "--list-extensions", "--list-sessions"), ENDS),
        **dict.fromkeys(("-h", "--help", "-v", "--version"), ENDS),
    },
    widening=("--allowed-tools", "--include-directories"),
)
