"""opencode, called without a terminal: its command line and its JSON events."""

import json
import os
from collections.abc import Mapping

from msgspec.structs import replace

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
from untildone.adapters.agents.reading.conversation import sum_of, without_zero_cost
from untildone.adapters.agents.reading.error_kinds import classify_error, seconds_of, with_reset
from untildone.adapters.agents.reading.event_reader import EventReader, error_text, tool
from untildone.adapters.agents.reading.json_lines import amount, count, parsed, string, table
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

_DENIED = 20
_NOT_ALLOWED = ("The user rejected permission", "The user has specified a rule which prevents you")
_CALLED = {
    "ProviderAuthError": Trouble(Kind.NOT_LOGGED_IN, "not logged in"),
    "ContextOverflowError": Trouble(Kind.CONTEXT_OVERFLOW, "the context is too long"),
    "ContentFilterError": Trouble(Kind.REFUSED, "the model refused"),
}
# Its own server, in the same process: no model of this name, no login. It does not go away.
_INSIDE = "Unexpected server error. Check server logs"
_PERMISSION = "OPENCODE_PERMISSION"
_CONFIG = "opencode/opencode.json"
# A tool that is denied is not offered to the model; one that asks would end the run.
_EDITS = {"edit": "allow", "bash": "deny", "external_directory": "deny"}


class OpencodeReader(EventReader):
    """Sums up the steps; there is no last event, but the last step must end with `stop`."""

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent)
        self._session_id = ""
        self._usage: Usage | None = None
        self._ended = ""
        self._error: Mapping[str, object] = {}
        self._denied: list[str] = []

    def _on_event(self, event: Mapping[str, object]) -> list[Notice]:
        self._session_id = self._session_id or string(event.get("sessionID"))
        part = table(event.get("part"))
        match event.get("type"):
            case "step_start":
                self._ended, self._error, self.over = "", {}, False
            case "text":
                return self._add_text(string(part.get("messageID")), string(part.get("text")))
            case "tool_use":
                self._messages.add(string(part.get("messageID")), "")
                return [self._call(part)]
            case "step_finish":
                self._ended = string(part.get("reason")) or "no reason"
                self._usage = sum_of(self._usage, _usage(part))
                self.over = self._ended == "stop"
            case "error":
                self._error = table(event.get("error")) or {"name": "error"}
            case _:
                pass
        return []

    def _call(self, part: Mapping[str, object]) -> Notice:
        state = table(part.get("state"))
        call = tool(part.get("tool"), state.get("input"))
        refused = string(state.get("error")).startswith(_NOT_ALLOWED)
        if refused and len(self._denied) < _DENIED:
            self._denied.append(f"{call.tool} {call.detail}".strip())
        return call

    def _reading(self, stderr_tail: bytes) -> Reading:
        error, trouble = self._outcome(stderr_tail)
        return Reading(
            promise=self._messages.promise(),
            error=error,
            usage=without_zero_cost(self._usage),
            trouble=trouble,
            session=Session(self._session_id) if self._session_id else None,
            denied=tuple(self._denied),
        )

    def _outcome(self, stderr_tail: bytes) -> tuple[str, Trouble | None]:
        if self._error:
            return self._failure(table(self._error.get("data")), string(self._error.get("name")))
        if self._ended == "stop":
            return "", None
        if not self._ended:
            return self._cut_short(stderr_tail), None
        return f"ended early, its last step with: {error_text(self._ended)}", None

    def _failure(self, data: Mapping[str, object], name: str) -> tuple[str, Trouble | None]:
        message = string(data.get("message"))
        inner = parsed(message.encode("utf-8", "replace"))
        status = data.get("statusCode") or inner.get("code")
        error = error_text(string(inner.get("message")), message, name)
        if message.startswith(_INSIDE):
            return error, None
        status = status if isinstance(status, int) else None
        trouble = _CALLED.get(name) or classify_error(error, status, self._intent.asked)
        after = _retry_after(table(data.get("responseHeaders")))
        if trouble and trouble.passing and after:
            trouble = replace(trouble, after_s=after, until=None)
        return error, with_reset(trouble, string(data.get("responseBody")), self._intent.asked)


def _retry_after(headers: Mapping[str, object]) -> float | None:
    """The seconds to wait by the headers of the service, the more exact one first."""
    exact = seconds_of(headers.get("retry-after-ms"))
    return exact / 1000 if exact else seconds_of(headers.get("retry-after"))


def _usage(part: Mapping[str, object]) -> Usage:
    tokens = table(part.get("tokens"))
    cache = table(tokens.get("cache"))
    reasoning = count(tokens.get("reasoning"))
    return Usage(
        input_tokens=count(tokens.get("input")),
        output_tokens=count(tokens.get("output")) + reasoning,
        cache_read_tokens=count(cache.get("read")),
        cache_write_tokens=count(cache.get("write")),
        cost_usd=amount(part.get("cost")),
        reasoning_tokens=reasoning,
    )


def _adapt(intent: Intent, call: Invocation) -> Invocation:
    """Keep the permissions that the user has set in the environment beside ours."""
    if intent.permissions is not Permissions.EDITS:
        return call
    theirs = parsed(os.environ.get(_PERMISSION, "").encode("utf-8", "replace"))
    return replace(call, env={**call.env, _PERMISSION: json.dumps({**theirs, **_EDITS})})


OPENCODE = AgentSpec(
    name="opencode",
    install="npm install -g opencode-ai",
    reader=OpencodeReader,
    args=("run", "--format", "json"),
    grants={
        Permissions.FULL: Grant(("--auto",)),
        Permissions.EDITS: Grant(
            holds="Commands and files outside of the worktree are denied, whatever its own "
            "configuration says."
        ),
    },
    resume=("--session",),
    adapt=_adapt,
    env={"OPENCODE_DISABLE_AUTOUPDATE": "1"},
    unset=("AGENT", "OPENCODE", "OPENCODE_PID"),
    writable=(
        HomePath("~/.config/opencode", "XDG_CONFIG_HOME", "opencode"),
        HomePath("~/.local/share/opencode", "XDG_DATA_HOME", "opencode"),
        HomePath("~/.local/state/opencode", "XDG_STATE_HOME", "opencode"),
        HomePath("~/.cache/opencode", "XDG_CACHE_HOME", "opencode"),
    ),
    prints_before_model=False,
    login=Login(
        "`opencode auth login`, or set the key of your provider",
        (
            *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
            *("AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_CLOUD_PROJECT"),
        ),
        (HomePath("~/.local/share/opencode/auth.json", "XDG_DATA_HOME", "opencode/auth.json"),),
        (
            (
                HomePath("~/.config/opencode/opencode.json", "XDG_CONFIG_HOME", _CONFIG),
                '"provider"',
            ),
        ),
    ),
    tells_cost=True,
    reserved={
        **dict.fromkeys(("--share", "-i", "--interactive"), OUTPUT),
        **dict.fromkeys(("-f", "--file", "--command"), PROMPT),
        **dict.fromkeys(("--attach", "--dir"), PLACE),
        **dict.fromkeys(("-c", "--continue", "-s", "--fork"), SESSION),
        "-m": MODEL,
        "--dangerously-skip-permissions": GRANTS,
        **dict.fromkeys(("-h", "--help", "-v", "--version"), ENDS),
    },
    widening=("--auto", "--agent"),
)
