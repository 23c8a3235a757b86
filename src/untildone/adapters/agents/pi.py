"""pi, called without a terminal: its command line and its JSON events."""

from collections.abc import Mapping

from untildone.adapters.agents.program import (
    ENDS,
    GRANTS,
    OUTPUT,
    PROMPT,
    SESSION,
    AgentSpec,
    Grant,
    HomePath,
    Login,
)
from untildone.adapters.agents.reading.conversation import sum_of, without_zero_cost
from untildone.adapters.agents.reading.error_kinds import classify_error
from untildone.adapters.agents.reading.event_reader import EventReader, error_text, first_line, tool
from untildone.adapters.agents.reading.json_lines import amount, count, string, table, tables
from untildone.domain.agents.agent import Intent, Notice, Permissions, Reading, Session, Usage

_FINE = ("stop", "toolUse")


class PiReader(EventReader):
    """Reads whole messages; the run is over when the agent's end follows its last start.

    The prompt is echoed as a message of the user. A message that broke off is asked for again.
    """

    # These repeat the message so far with every word. With its keys in another order such a line
    # is parsed and means nothing.
    _skipped = (
        b'{"type":"message_update",',
        b'{"type":"message_start",',
        b'{"type":"tool_execution_update",',
        b'{"type":"turn_end",',
    )

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent)
        self._session_id = ""
        self._begun = False
        self._message_count = 0
        self._usage: Usage | None = None
        self._error = ""
        self._stopped = False
        self._ended = False
        self._dropped = 0

    def _on_event(self, event: Mapping[str, object]) -> list[Notice]:
        match event.get("type"):
            case "session":
                self._session_id = string(event.get("id"))
            case "agent_start":
                self._begun, self._ended, self.over = True, False, False
            case "agent_end":
                self._ended = True
                told = [m for m in tables(event.get("messages")) if m.get("role") == "assistant"]
                self._error = _failure(told[-1] if told else {})
                self.over = not self._error  # after an error it may try again, and waits for that
            case "message_end":
                message = table(event.get("message"))
                return self._on_message(message) if message.get("role") == "assistant" else []
            case _:
                pass
        return []

    def _on_message(self, message: Mapping[str, object]) -> list[Notice]:
        self._usage = sum_of(self._usage, _usage(message))
        self._ended, self.over, self._dropped = False, False, self._lines.dropped
        self._stopped = message.get("stopReason") == "stop"
        self._error = _failure(message)
        if self._error:
            return []
        self._message_count += 1
        notices: list[Notice] = []
        for block in tables(message.get("content")):
            text = string(block.get("text")) if block.get("type") == "text" else ""
            notices += self._add_text(str(self._message_count), text)
            if block.get("type") == "toolCall":
                notices.append(tool(block.get("name"), block.get("arguments")))
        return notices

    def _reading(self, stderr_tail: bytes) -> Reading:
        error = self._error or ("" if self._begun else first_line(stderr_tail))
        # The last event repeats all messages: that of a long run may be too long to be read.
        over = self._ended or (self._stopped and self._lines.dropped > self._dropped)
        # It writes the conversation down with the first answer.
        known = self._session_id if self._usage else ""
        return Reading(
            promise=self._messages.promise(),
            error=error or ("" if over else self._cut_short(stderr_tail)),
            usage=without_zero_cost(self._usage),
            trouble=classify_error(error, None, self._intent.asked) if error else None,
            session=Session(known) if known else None,
        )


def _failure(message: Mapping[str, object]) -> str:
    """Why the message broke off, if it did."""
    reason = string(message.get("stopReason"))
    if reason in _FINE:
        return ""
    return error_text(string(message.get("errorMessage")), f"the answer broke off: {reason}")


def _usage(message: Mapping[str, object]) -> Usage:
    usage = table(message.get("usage"))
    return Usage(
        input_tokens=count(usage.get("input")),
        output_tokens=count(usage.get("output")),
        cache_read_tokens=count(usage.get("cacheRead")),
        cache_write_tokens=count(usage.get("cacheWrite")),
        cost_usd=amount(table(usage.get("cost")).get("total")),
        model=string(message.get("model")),
    )


PI = AgentSpec(
    name="pi",
    install="npm install -g @earendil-works/pi-coding-agent",
    reader=PiReader,
    args=("--mode", "json"),
    grants={
        # It asks for nothing; what it must not do is not given to it. Where it writes is not held.
        Permissions.FULL: Grant(),
        Permissions.EDITS: Grant(
            ("--tools", "read,edit,write,grep,find,ls"),
            holds="Its model gets no tool that runs commands, but may write files anywhere.",
        ),
    },
    resume=("--session",),
    env={"PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"},
    unset=("PI_CODING_AGENT",),
    writable=(HomePath("~/.pi", "PI_CODING_AGENT_DIR"),),
    login=Login(
        "start `pi` and type /login, or set the key of your provider",
        (
            *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
            *("AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_CLOUD_PROJECT"),
        ),
        (
            HomePath("~/.pi/agent/auth.json", "PI_CODING_AGENT_DIR", "auth.json"),
            HomePath("~/.pi/agent/models.json", "PI_CODING_AGENT_DIR", "models.json"),
        ),
    ),
    tells_cost=True,
    reserved={
        **dict.fromkeys(("-p", "--print", "--export"), OUTPUT),
        "--system-prompt": PROMPT,
        **dict.fromkeys(("-c", "--continue", "-r", "--resume", "--fork"), SESSION),
        **dict.fromkeys(("--session-id", "--session-dir", "--no-session"), SESSION),
        "-t": GRANTS,
        **dict.fromkeys(("--list-models", "-h", "--help", "-v", "--version"), ENDS),
    },
    # Both bring code that runs by itself.
    widening=("-e", "--extension", "-a", "--approve"),
)
