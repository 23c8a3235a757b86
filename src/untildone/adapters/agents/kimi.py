"""Kimi Code, called without a terminal: its command line and its stream of chat messages."""

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from untildone.adapters.agents.program import (
    ENDS,
    GRANTS,
    MODEL,
    PROMPT,
    SESSION,
    AgentSpec,
    Grant,
    HomePath,
    Login,
)
from untildone.adapters.agents.reading.error_kinds import classify_error
from untildone.adapters.agents.reading.event_reader import EventReader, error_text, tool
from untildone.adapters.agents.reading.json_lines import parsed, string, table, tables
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
from untildone.domain.plain_text import plain

_FAILED = "error: failed to run prompt: "
_BLOCKED = "safety policy blocked"
# It takes its prompt as an argument alone, and Linux takes no argument of more than 128 KiB: of a
# longer prompt it is told where to read it. Below that the shell makes the argument of our input.
_AS_ARGUMENT = (
    'cat > "$0"; '
    'if [ "$(wc -c < "$0")" -lt 120000 ]; then set -- "$@" -p "$(cat "$0")"; '
    'else set -- "$@" -p "Read the whole file $0 and do what it says."; fi; '
    'exec "$@" < /dev/null'
)


class KimiReader(EventReader):
    """Reads whole messages; only the hint how to go on, its last line, is a success.

    An error stands on standard error alone. Tokens are in its records alone.
    """

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent)
        self._message_count = 0
        self._session_id = ""
        self._retried: Mapping[str, object] = {}

    def _on_event(self, event: Mapping[str, object]) -> list[Notice]:
        match event.get("role"):
            case "assistant":
                return self._on_message(event)
            case "meta" if event.get("type") == "turn.step.retrying":
                self._retried = event
            case "meta" if event.get("type") == "session.resume_hint":
                self._session_id, self.over = string(event.get("session_id")), True
            case _:
                pass
        return []

    def _on_message(self, message: Mapping[str, object]) -> list[Notice]:
        self._retried, self.over = {}, False
        self._message_count += 1
        notices = self._add_text(str(self._message_count), string(message.get("content")))
        for call in tables(message.get("tool_calls")):
            function = table(call.get("function"))
            given = parsed(string(function.get("arguments")).encode("utf-8", "replace"))
            notices.append(tool(function.get("name"), given))
        return notices

    def _reading(self, stderr_tail: bytes) -> Reading:
        error, trouble = self._outcome(plain(stderr_tail.decode("utf-8", "replace")), stderr_tail)
        return Reading(
            promise=self._messages.promise(),
            error=error,
            trouble=trouble,
            session=Session(self._session_id) if self._session_id else None,
        )

    def _outcome(self, stderr: str, tail: bytes) -> tuple[str, Trouble | None]:
        _, failed, after = stderr.rpartition(_FAILED)
        if failed:
            said = after.partition("\n")[0]
            refused = Trouble(Kind.REFUSED, "the model refused") if _BLOCKED in said else None
            # It puts a name of its own before the service's words: `provider.rate_limit: 429 …`.
            words = said.partition(": ")[2] if "." in said.partition(": ")[0] else said
            found = classify_error(words, None, self._intent.asked) or _not_set_up(said)
            return error_text(said), refused or found
        if self.over:
            return "", None
        told = string(self._retried.get("error_message"))
        return self._cut_short(tail), classify_error(told, self._retried.get("status_code"))


def _not_set_up(said: str) -> Trouble | None:
    return Trouble(Kind.NOT_LOGGED_IN, "not logged in") if "/login" in said else None


def _adapt(intent: Intent, call: Invocation) -> Invocation:
    """The prompt comes on standard input all the same, and is made an argument by a shell."""
    file = str(Path(intent.scratch, "prompt.txt"))
    return replace(call, argv=("sh", "-c", _AS_ARGUMENT, file, *call.argv))


KIMI = AgentSpec(
    name="kimi",
    install="npm install -g @moonshot-ai/kimi-code",
    reader=KimiReader,
    args=("--output-format", "stream-json"),
    # A prompt on its command line lets it do all it wants; nothing holds it to edits.
    grants={Permissions.FULL: Grant()},
    model=("-m",),
    resume=("-S",),
    adapt=_adapt,
    env={"KIMI_DISABLE_TELEMETRY": "1", "KIMI_CODE_NO_AUTO_UPDATE": "1"},
    writable=(HomePath("~/.kimi-code", "KIMI_CODE_HOME"),),
    login=Login(
        "`kimi login`, or set up a provider with `kimi provider`",
        ("KIMI_API_KEY", "MOONSHOT_API_KEY"),
        (HomePath("~/.kimi-code/credentials", "KIMI_CODE_HOME", "credentials"),),
        ((HomePath("~/.kimi-code/config.toml", "KIMI_CODE_HOME", "config.toml"), "api_key"),),
    ),
    reserved={
        "--model": MODEL,
        "-p": PROMPT,
        "--prompt": PROMPT,
        **dict.fromkeys(("-y", "--yolo", "--auto", "--plan"), GRANTS),
        **dict.fromkeys(("--session", "-r", "--resume", "-c", "--continue"), SESSION),
        **dict.fromkeys(("-h", "--help", "-V", "--version"), ENDS),
    },
)
