"""goose, called without a terminal: its command line and its stream-json."""

from collections.abc import Mapping

from msgspec.structs import replace

from untildone.adapters.agents.program import (
    ENDS,
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
from untildone.adapters.agents.reading.conversation import (
    Fragments,
    call_share,
    session_name,
    totals_so_far,
)
from untildone.adapters.agents.reading.error_kinds import classify_error
from untildone.adapters.agents.reading.event_reader import EventReader, error_text, tool
from untildone.adapters.agents.reading.json_lines import amount, count, string, table, tables
from untildone.domain.agents.agent import (
    Intent,
    Invocation,
    Kind,
    Notice,
    Permissions,
    Reading,
    Session,
    Trouble,
    Usage,
)

_TURNS = "I've reached the maximum number of actions"
_GAVE_UP = "Unable to continue: "
_RAN_INTO = "Ran into this error: "
_ADVICE = "\n\nPlease "
# How goose begins what it says in the model's place: the only sign in a version that does not mark
# the model's own messages.
_COMPLAINTS = (
    "Ran into this error",
    "Network error: ",
    "The model returned an empty response",
    _TURNS,
)
# What goose calls an error of the service, and the HTTP status that stands for it.
_CALLED = {
    "Rate limit exceeded: ": 429,
    "Authentication error: ": 401,
    "Credits exhausted": 402,
    "Context length exceeded": 413,
}
_NOT_SET_UP = "No provider configured"
_REFUSAL = "Provider refused request"


class GooseReader(EventReader):
    """Joins the model's fragments per message; what goose says in its place is an error."""

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent)
        self._fragments = Fragments()
        self._started = False
        self._marked = False
        self._model = ""
        self._aside = ""
        self._error = ""
        self._complete: Mapping[str, object] | None = None

    def _on_event(self, event: Mapping[str, object]) -> list[Notice]:
        match event.get("type"):
            case "message":
                self._started, self._complete, self.over = True, None, False
                message = table(event.get("message"))
                return self._on_message(message) if message.get("role") == "assistant" else []
            case "complete":
                self._complete, self.over = event, True
                return self._fragments.flush()
            case "error":
                self._error = error_text(string(event.get("error")))
                return self._fragments.flush()
            case _:
                return []

    def _on_message(self, message: Mapping[str, object]) -> list[Notice]:
        inference = table(table(message.get("metadata")).get("inference"))
        if inference:
            self._marked, self._aside = True, ""
            self._model = string(inference.get("requestedModel")) or self._model
        message_id = string(message.get("id"))
        notices: list[Notice] = []
        for block in tables(message.get("content")):
            text = string(block.get("text")) if block.get("type") == "text" else ""
            if complaint := _complaint(block) or ("" if inference else _stated(text)):
                self._error = complaint
            elif self._marked and not inference:
                self._aside = text
            else:
                self._messages.add(message_id, text)
                notices += self._fragments.add(message_id, text)
            if block.get("type") == "toolRequest":
                call = table(table(block.get("toolCall")).get("value"))
                notices += self._fragments.flush()
                notices.append(tool(call.get("name"), call.get("arguments")))
        return notices

    def _reading(self, stderr_tail: bytes) -> Reading:
        said = self._error or self._aside
        error = _bare(said) if said else ""
        if not error and self._complete is None:
            error = self._cut_short(stderr_tail)
            said = error if _NOT_SET_UP in error and not self._started else ""
        totals = _totals(self._complete, self._model)
        resumed = self._intent.resume
        begun = self._started or self._complete is not None
        return Reading(
            promise=self._messages.promise(),
            error=error,
            usage=call_share(totals, resumed) if totals else None,
            trouble=self._trouble(error) if said else None,
            session=Session(session_name(self._intent), totals_so_far(totals, resumed))
            if begun
            else None,
        )

    def _trouble(self, error: str) -> Trouble | None:
        if error.startswith(_REFUSAL):
            return Trouble(Kind.REFUSED, "the model refused")
        if _NOT_SET_UP in error:
            return Trouble(Kind.NOT_LOGGED_IN, "not logged in")
        if error.startswith(_TURNS):
            return Trouble(Kind.BUDGET, "the agent's own turns are used up")
        called = next((name for name in _CALLED if error.startswith(name)), "")
        return classify_error(error.removeprefix(called), _CALLED.get(called), self._intent.asked)


def _complaint(block: Mapping[str, object]) -> str:
    """An error that goose marks as one."""
    if block.get("type") == "error":
        return error_text(string(block.get("message")))
    said = string(block.get("msg"))
    if block.get("type") == "systemNotification" and said.startswith(_GAVE_UP):
        return said.removeprefix(_GAVE_UP)
    if block.get("notificationType") == "creditsExhausted":
        return f"Credits exhausted: {said}"
    return ""


def _stated(text: str) -> str:
    """An error that goose states in the place of the model."""
    return text if text.startswith(_COMPLAINTS) else ""


def _bare(error: str) -> str:
    """The error without the words that goose puts around it."""
    said = error.removeprefix(_RAN_INTO).partition(_ADVICE)[0]
    return error_text(f"{said.removesuffix('..')}." if said.endswith("..") else said)


def _totals(complete: Mapping[str, object] | None, model: str) -> Usage | None:
    """What goose has counted for the whole session; its input has the cached tokens in it."""
    if complete is None:
        return None
    read = count(complete.get("cache_read_input_tokens"))
    written = count(complete.get("cache_write_input_tokens"))
    return Usage(
        input_tokens=max(count(complete.get("input_tokens")) - read - written, 0),
        output_tokens=count(complete.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        cost_usd=amount(complete.get("cost_usd")),
        model=model,
    )


def _adapt(intent: Intent, call: Invocation) -> Invocation:
    """Name the session; `PROVIDER/MODEL` is cut at the first slash, as the other agents do it."""
    provider, slash, model = intent.model.partition("/")
    words = ("--provider", provider, "--model", model) if slash else ("--model", intent.model)
    return replace(
        call,
        argv=(
            *call.argv,
            *(words if intent.model else ()),
            *(("--resume",) if intent.resume else ()),
            *("--name", session_name(intent)),
        ),
    )


GOOSE = AgentSpec(
    name="goose",
    install="brew install block-goose-cli",
    reader=GooseReader,
    args=("run", "-q", "--output-format", "stream-json", "-i", "-"),
    # The modes that ask end a run without a terminal, and no other keeps it from running commands.
    grants={Permissions.FULL: Grant(env={"GOOSE_MODE": "auto"})},
    model=(),
    adapt=_adapt,
    env={"GOOSE_TELEMETRY_OFF": "1", "GOOSE_TELEMETRY_ENABLED": "false"},
    unset=("AGENT_SESSION_ID", "GOOSE_TERMINAL"),
    writable=(
        HomePath("~/.config/goose", "XDG_CONFIG_HOME", "goose"),
        HomePath("~/.local/share/goose", "XDG_DATA_HOME", "goose"),
        HomePath("~/.local/state/goose", "XDG_STATE_HOME", "goose"),
    ),
    prints_before_model=False,
    login=Login(
        "`goose configure`, or set the key of your provider",
        (
            *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"),
            *("GOOSE_PROVIDER", "GCP_PROJECT_ID"),
        ),
        (HomePath("~/.config/goose/config.yaml", "XDG_CONFIG_HOME", "goose/config.yaml"),),
    ),
    tells_cost=True,
    reserved={
        **dict.fromkeys(("--instructions", "-t", "--text", "--recipe", "--system"), PROMPT),
        **dict.fromkeys(("--sub-recipe", "--params"), PROMPT),
        **dict.fromkeys(("--quiet", "-s", "--interactive", "--stats", "--debug"), OUTPUT),
        **dict.fromkeys(("-n", "--name", "--session-id", "--path", "--no-session"), SESSION),
        **dict.fromkeys(("-r", "--resume"), SESSION),
        **dict.fromkeys(("--model", "--provider"), MODEL),
        "--container": PLACE,
        **dict.fromkeys(("--explain", "--render-recipe", "-h", "--help"), ENDS),
    },
)
