"""Cline's command line, called without a terminal: its call and its JSON events."""

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
from untildone.adapters.agents.reading.conversation import without_zero_cost
from untildone.adapters.agents.reading.error_kinds import classify_error
from untildone.adapters.agents.reading.event_reader import EventReader, error_text, tool
from untildone.adapters.agents.reading.json_lines import amount, count, parsed, string, table
from untildone.domain.agents.agent import Intent, Notice, Permissions, Reading, Usage

# What it calls an error, and the HTTP status that stands for it.
_CALLED = {"auth": 401}


class ClineReader(EventReader):
    """Reads whole texts; only a run result that says `completed` is a success."""

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent)
        self._text_count = 0
        self._error = ""
        self._status: int | None = None
        self._result: Mapping[str, object] = {}

    def _on_event(self, event: Mapping[str, object]) -> list[Notice]:
        match event.get("type"):
            case "agent_event":
                return self._on_step(table(event.get("event")))
            case "error":
                self._error = error_text(string(event.get("message")))
            case "run_result":
                self._result, self.over = event, True
            case _:
                pass
        return []

    def _on_step(self, step: Mapping[str, object]) -> list[Notice]:
        match step.get("type"), step.get("contentType"):
            case "content_end", "text":
                self._go_on()
                self._text_count += 1
                return self._add_text(str(self._text_count), string(step.get("text")))
            case "content_start", "tool":
                self._go_on()
                return [tool(step.get("toolName"), step.get("input"))]
            case "error", _:
                self._error = error_text(_message(step.get("error")), string(step.get("message")))
                self._status = _CALLED.get(string(step.get("errorClass")))
                self.over = step.get("recoverable") is False
            case _:
                pass
        return []

    def _go_on(self) -> None:
        self._error, self._status, self._result, self.over = "", None, {}, False

    def _reading(self, stderr_tail: bytes) -> Reading:
        error = self._error or _told(stderr_tail)
        if not self._result:
            shown = error or self._cut_short(stderr_tail)
        elif self._result.get("finishReason") != "completed":
            shown = error_text(error, string(self._result.get("text")))
        else:
            shown = self._error
        said = shown if error or self._result else ""
        return Reading(
            promise=self._messages.promise(),
            error=shown,
            usage=without_zero_cost(_usage(self._result)),
            trouble=classify_error(said, self._status, self._intent.asked) if said else None,
        )


def _message(error: object) -> str:
    return string(error) or string(table(error).get("message"))


def _told(stderr_tail: bytes) -> str:
    """The error of a call that did not begin: an event, but on standard error."""
    for line in reversed(stderr_tail.splitlines()):
        event = parsed(line)
        if event.get("type") == "error":
            return error_text(string(event.get("message")))
    return ""


def _usage(result: Mapping[str, object]) -> Usage | None:
    """This call's tokens, those of sub-agents too; its input has the cached ones in it."""
    used = table(result.get("aggregateUsage")) or table(result.get("usage"))
    read, written = count(used.get("cacheReadTokens")), count(used.get("cacheWriteTokens"))
    usage = Usage(
        input_tokens=max(count(used.get("inputTokens")) - read - written, 0),
        output_tokens=count(used.get("outputTokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        cost_usd=amount(used.get("totalCost")),
        model=string(table(result.get("model")).get("id")),
    )
    return usage if usage.total else None


CLINE = AgentSpec(
    name="cline",
    install="npm install -g cline",
    reader=ClineReader,
    args=("--json",),
    # Without its approvals it asks for everything, and nobody is there to be asked.
    grants={Permissions.FULL: Grant(("--auto-approve", "true"))},
    model=("-m",),
    # What it reads from standard input is put below a prompt, and there must be one.
    # Before it `--`: a bare `--thinking` of the person's own would take it for its value.
    last=("--", "Do what the text below says."),
    # Else it leaves a daemon behind, which serves the next call with the environment of this one.
    env={"CLINE_SESSION_BACKEND_MODE": "local", "CLINE_NO_AUTO_UPDATE": "1"},
    unset=("CLINE_HUB_ADDRESS", "CLINE_RUN_AS_HUB_DAEMON"),
    writable=(HomePath("~/.cline", "CLINE_DIR"),),
    login=Login(
        "`cline auth`",
        ("CLINE_API_KEY",),
        (),
        (
            (
                HomePath(
                    "~/.cline/data/settings/providers.json",
                    "CLINE_DIR",
                    "data/settings/providers.json",
                ),
                '"settings"',
            ),
        ),
    ),
    tells_cost=True,
    reserved={
        "--model": MODEL,
        **dict.fromkeys(("-i", "--tui", "--acp", "-z", "--zen"), OUTPUT),
        **dict.fromkeys(("-s", "--system"), PROMPT),
        **dict.fromkeys(("-c", "--cwd", "--worktree"), PLACE),
        **dict.fromkeys(("-p", "--plan"), GRANTS),
        "--id": SESSION,
        **dict.fromkeys(("--update", "--kanban", "-h", "--help", "-V", "--version"), ENDS),
    },
)
